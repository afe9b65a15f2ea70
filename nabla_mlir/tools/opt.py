"""nabla-opt: runs passes on a file of IR, with the flags of mlir-opt.

nabla-opt model.mlir --pass-pipeline='builtin.module(nabla-expand,nabla-simplify)'
nabla-opt model.mlir --nabla-expand --nabla-legalize-for-iree=target=vulkan --mlir-print-ir-after-all
nabla-opt model.mlir --load my_pass.py --my-pass --check-values --run --input='[1, 2, 3]'
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from iree.compiler import ir

from nabla_mlir.base.errors import ImportIRError, NablaError, PassError
from nabla_mlir.base.files import write_files
from nabla_mlir.dialects.context import BYTECODE, bytecode_of, context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import check_order, nested
from nabla_mlir.passes.base import PASSES, PIPELINES, Pass, similar_names
from nabla_mlir.passes.explain_batch import ExplainBatchPass
from nabla_mlir.passes.outside import run_pass
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.passes.verify import OWN_DIALECTS, VerifyPass
from nabla_mlir.targets.toolchain import bytecode_fault
from nabla_mlir.tools import values
from nabla_mlir.tools.diagnostics import PARSED, Diagnostic, collected, compare, from_error
from nabla_mlir.tools.pass_lists import list_passes, list_pipelines

_MARKER = "// -----"
# Boolean flags: `--flag`, `--flag=false`.
_SWITCHES = {
    "split-input-file": "process separately each part of the input between lines '// -----'",
    "verify-diagnostics": "compare the diagnostics with '// expected-error@+1 {{text}}' annotations in the input",
    "verify-each": "verify the IR after each pass (the default)",
    "no-verify": "do not check operations of ad and batch after parsing",
    "allow-unregistered-dialect": "accept operations of unknown dialects",
    "emit-bytecode": "write bytecode instead of text",
    "explain-batch": "after the passes, annotate each value inside a map with the axes that it carries",
    "run": "after the passes, print the results of the functions instead of the module; on --input or on generated numbers",
    "check-values": "fail if the functions compute other numbers after the passes",
    "list-passes": "print the passes with their options, and stop",
    "list-pipelines": "print the named pipelines with their options and passes, and the reason for the position of each, and stop",
    "dump-pass-pipeline": "print the pipeline",
    "mlir-print-ir-before-all": "print the IR before each pass",
    "mlir-print-ir-after-all": "print the IR after each pass",
    "mlir-print-ir-after-change": "print the IR after each pass that changes it",
    "mlir-print-ir-module-scope": "print the whole module, also for passes on functions",
    "mlir-print-op-generic": "print operations in the generic form",
    "mlir-print-debuginfo": "print locations",
    "mlir-print-local-scope": "print locations and attributes inline, without aliases",
    "mlir-timing": "print the time that each pass takes",
    "mlir-disable-threading": "accepted for compatibility; threads are never used",
}


class UsageError(NablaError, ValueError):
    """The command line is wrong."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. Try: '{self.prog} --help'")


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The options of the command line; their field `passes` has the text of the pipeline.

    Raises:
      UsageError: a flag is unknown, and is not the name of a pass.
    """
    summary = (__doc__ or "").split("\n\n")[0]
    parser = _Parser(
        prog="nabla-opt",
        description=summary,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="The name of every pass and pipeline is a flag, too: --nabla-lower, --nabla-expand=simplify=false, --cse.",
    )
    parser.add_argument("file", nargs="?", default="-", help="MLIR text or bytecode; '-' is the standard input")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="the file to write; '-' is the standard output")
    parser.add_argument("--pass-pipeline", metavar="TEXT", help="such as 'builtin.module(nabla-expand,cse)'")
    parser.add_argument(
        "--mlir-elide-elementsattrs-if-larger",
        type=int,
        metavar="N",
        dest="elide",
        help="do not print the elements of constants with more than N",
    )
    parser.add_argument(
        "--mlir-print-ir-tree-dir",
        metavar="DIR",
        dest="tree",
        help="write the IR after each pass to a separate file, in a tree of folders",
    )
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="FILE.py",
        help="first run a file that registers passes, operations or custom calls",
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        dest="inputs",
        help="a value for --run and --check-values, for each argument: a .npy file, 3.5, [1, 2, 3]",
    )
    parser.add_argument("--entry", metavar="NAME", help="the function to run (default: all that are not private)")
    for flag, help in _SWITCHES.items():
        parser.add_argument(f"--{flag}", action="store_true", help=help, default=flag == "verify-each")
    switched_off, normal = [], []
    for argument in map(_with_two_dashes, argv):
        match = re.fullmatch(r"--([\w-]+)=(true|false|1|0)", argument)
        if match is None or match[1] not in _SWITCHES:
            normal.append(argument)
        elif match[2] in ("true", "1"):
            normal.append(f"--{match[1]}")
        else:
            switched_off.append(match[1])
    options, rest = parser.parse_known_args(normal)
    for flag in switched_off:
        setattr(options, flag.replace("-", "_"), False)
    for file in options.load:
        _load(file)
    flags = [_pass_flag(argument) for argument in rest]
    if flags and options.pass_pipeline is not None:
        raise UsageError("'--pass-pipeline' cannot be combined with flags of single passes")
    options.passes = f"builtin.module({','.join(flags)})" if options.pass_pipeline is None else options.pass_pipeline
    return options


def _with_two_dashes(argument: str) -> str:
    # LLVM's tools accept one dash as well.
    return "-" + argument if re.match(r"-[a-z]{2}", argument) and not argument.startswith("-o") else argument


def _load(file: str) -> None:
    """Runs a Python file, whose decorators register passes and operations; raises UsageError if it fails."""
    try:
        runpy.run_path(file)
    except Exception as error:
        raise UsageError(f"cannot load '{file}': {type(error).__name__}: {error}") from error


def _unknown(argument: str) -> str:
    """The message for an unknown argument, with the passes whose names are similar."""
    name = argument.partition("=")[0].removeprefix("--")
    alike = similar_names(name)
    hint = f" Did you mean {' or '.join(f'--{each}' for each in alike)}?" if alike else ""
    return f"unknown command line argument '{argument}'.{hint} Try: 'nabla-opt --help'"


def _pass_flag(argument: str) -> str:
    """The text of a pass in a pipeline for a flag such as `--nabla-expand=simplify=false`; raises UsageError if there is none."""
    match = re.fullmatch(r"--([\w-]+)(?:=(.*))?", argument, re.S)
    item = match and match[1] + (f"{{{match[2].strip('{}')}}}" if match[2] else "")
    if item is None or (item.startswith("nabla-") and match[1] not in {*PASSES, *PIPELINES}):  # type: ignore[index]
        raise UsageError(_unknown(argument))
    try:
        Pipeline.parse(item)
    except PassError as error:
        if item.startswith("nabla-") or "no such option" in str(error):
            raise
        raise UsageError(_unknown(argument)) from None
    return item


# ---------------------------------------------------------------- one part of the input


def process(text: str | bytes, pipeline: Pipeline, options: argparse.Namespace) -> ir.Module:
    """The module that is parsed from a text or a file, verified, and transformed by the pipeline.

    `options` are those of the command; the results of functions that were run are added to them.

    Raises:
      NablaError: a dialect or pass of nabla_mlir refuses the module.
      MLIRError: MLIR refuses the module; the diagnostics have been reported.
    """
    with context() as ctx:
        ctx.enable_multithreading(False)  # passes are Python, and printing at module scope requires it
        # A module that is parsed from the file has locations with the file name.
        from_file = options.file != "-" and not options.split_input_file
        module = ir.Module.parseFile(options.file) if from_file else ir.Module.parse(text)
        if not options.allow_unregistered_dialect:
            _check_registered(module, ctx)
        if not options.no_verify:
            check_order(module.operation)
            VerifyPass().run(module.operation)
        manager = pipeline.manager(_with_verification if options.verify_each else None)
        manager.enable_verifier(options.verify_each)
        before, change = options.mlir_print_ir_before_all, options.mlir_print_ir_after_change
        after = options.mlir_print_ir_after_all or change
        if options.tree is not None and not before:
            after = True
        if before or after:
            manager.enable_ir_printing(
                print_before_all=before,
                print_after_all=after,
                print_after_change=change,
                print_module_scope=options.mlir_print_ir_module_scope,
                large_elements_limit=options.elide,
                enable_debug_info=options.mlir_print_debuginfo,
                print_generic_op_form=options.mlir_print_op_generic,
                tree_printing_dir_path=options.tree,
            )
        if options.mlir_timing:
            manager.enable_timing()
        entries = values.entries_of(module, options.entry, options.file) if options.run or options.check_values else []
        inputs = {entry: values.inputs_of(module, entry, options.inputs) for entry in entries}
        before = {entry: values.results_of(module, entry, inputs[entry]) for entry in entries if options.check_values}
        manager.run(module.operation)
        after = {entry: values.results_of(module, entry, inputs[entry]) for entry in entries}
        for entry in before:
            values.check_equal(before[entry], after[entry], str(pipeline))
        options.results = after
    return module


def _check_registered(module: ir.Module, ctx: ir.Context) -> None:
    """Raises ImportIRError if the module has an operation of a dialect that neither nabla_mlir nor the context `ctx` knows."""
    for op in nested(module.operation):
        if not op.name.startswith(OWN_DIALECTS) and not ctx.is_registered_operation(op.name):
            raise ImportIRError(
                f"an operation requires a dialect that is registered, got '{op.name}'.",
                where=source_of(op.location),
                help="use --allow-unregistered-dialect if this is intended.",
            )


def _with_verification(item: Pass) -> Callable[..., None]:
    """A function that runs the pass `item`, and then verifies the dialects of nabla_mlir, which MLIR's verifier does not know."""

    def run(op: Any, _: Any) -> None:
        """Runs the pass, and raises PassError if the IR is invalid afterwards."""
        with context(), ir.Location.unknown():
            run_pass(item, op.operation)
            try:
                VerifyPass().run(op.operation)
            except NablaError as error:
                raise PassError(f"{item.name} left invalid IR: {error.message}", where=error.where) from None

    return run


def diagnose(
    text: str | bytes, file: str, pipeline: Pipeline, options: argparse.Namespace
) -> tuple[ir.Module | None, list[Diagnostic]]:
    """The module that the pipeline transforms (None after an error), and all diagnostics.

    `text` is the module, `file` is its name for diagnostics, and `options` are those of the command.
    """
    with collected(file) as diagnostics:
        try:
            return process(text, pipeline, options), diagnostics
        except NablaError as error:
            if error.__cause__ is not None:  # what the code of a user's pass raised
                traceback.print_exception(error.__cause__)
            diagnostics.append(from_error(error, file))
        except ir.MLIRError as error:
            if not any(d.severity == "error" for d in diagnostics):
                diagnostics.append(Diagnostic("error", str(error)))
    return None, diagnostics


def print_module(module: ir.Module, file: str, options: argparse.Namespace) -> str:
    """The text of a module in the form that the flags request; `file` is the name of the file that locations show."""
    text = module.operation.get_asm(
        enable_debug_info=options.mlir_print_debuginfo,
        print_generic_op_form=options.mlir_print_op_generic,
        use_local_scope=options.mlir_print_local_scope,
        large_elements_limit=options.elide,
    )
    return str(text).replace(f'loc("{PARSED}":', f'loc("{file}":').rstrip("\n") + "\n"


def split(text: str) -> list[str]:
    """The parts of a text between '// -----' lines, each after as many empty lines as preserve its line numbers."""
    parts: list[str] = []
    start = 0
    lines = text.splitlines(keepends=True)
    for i, line in enumerate([*lines, _MARKER]):
        if line.strip() == _MARKER:
            parts.append("\n" * start + "".join(lines[start:i]))
            start = i + 1
    return parts


# ---------------------------------------------------------------- the command


def run(options: argparse.Namespace) -> int:
    """Runs nabla-opt with the parsed options; returns 1 if a module was refused or a diagnostic was not expected, else 0."""
    if options.list_passes:
        print(list_passes())
        return 0
    if options.list_pipelines:
        print(list_pipelines())
        return 0
    pipeline = Pipeline.parse(options.passes)
    if options.explain_batch:
        pipeline = Pipeline((*pipeline.passes, ExplainBatchPass()))
    if options.dump_pass_pipeline:
        print(f"Pass Manager with {len(pipeline.passes)} passes:\n{pipeline}", file=sys.stderr)
    source = _read(options.file)
    file = "<stdin>" if options.file == "-" else options.file
    parts = split(source) if options.split_input_file and isinstance(source, str) else [source]
    texts, failure = [], False
    for part in parts:
        module, diagnostics = diagnose(part, file, pipeline, options)
        text = "" if isinstance(part, bytes) else part
        if options.verify_diagnostics:
            diagnostics = compare(text, file, diagnostics)
            failure |= bool(diagnostics)
        else:
            failure |= module is None
        for diagnostic in diagnostics:
            print(diagnostic.render({file: text}), file=sys.stderr)
        if module is not None and options.run:
            texts.append(values.shown(options.results).encode())
        elif module is not None and options.emit_bytecode:
            texts.append(bytecode_of(module))
        elif module is not None:
            texts.append(print_module(module, file, options).encode())
    _write(options.output, f"{_MARKER}\n".encode().join(texts))
    return int(failure)


def _read(file: str) -> str | bytes:
    """The contents of a file, or of standard input for "-": text, or MLIR bytecode."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot open input file '{file}': {error.strerror}") from None
    if data.startswith(BYTECODE):
        if fault := bytecode_fault(data):
            raise ImportIRError(f"nabla-opt requires bytecode that MLIR reads, got {fault}.")
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"input file '{file}' is neither text nor bytecode") from None


def _write(file: str, data: bytes) -> None:
    """Writes data to a file, or for "-" to the standard output; raises UsageError if that fails."""
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        write_files({file: data})
    except OSError as error:
        raise UsageError(f"cannot open output file '{file}': {error.strerror}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of nabla-opt with the command line `argv`; returns the exit code, 1 after an error."""
    with contextlib.suppress(io.UnsupportedOperation):  # standard error may be no file
        faulthandler.enable()  # a fault of MLIR ends the process
    try:
        return run(parse_arguments(sys.argv[1:] if argv is None else argv))
    except UsageError as error:
        print(f"nabla-opt: {error.message}", file=sys.stderr)
    except NablaError as error:
        print(f"nabla-opt: error: {error}", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe; mlir-opt prints nothing either
    return 1


if __name__ == "__main__":
    sys.exit(main())
