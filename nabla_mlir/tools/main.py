"""nabla-mlir: compiles derivatives to files, shows what a file offers, runs it, and looks after the installation."""

from __future__ import annotations

import argparse
import ast
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nabla_mlir.errors import DeployError, NablaError, is_internal
from nabla_mlir.targets import TARGETS
from nabla_mlir.tools.terminal import Progress, print_table

if TYPE_CHECKING:
    from nabla_mlir.runtime.manifest import Code, EntryPoint, Leaf, Manifest

_EXAMPLES = """examples:
  nabla-mlir compile model.py:loss --spec f32[128] --transform hvp -o hvp.vmfb
  nabla-mlir compile model.py:loss --spec '{"w": f32[3,4], "b": f32[4]}' --spec data=f32[10,3] --transform grad
  nabla-mlir compile model.mlir --transform 'hvp{wrt=0}' --target 'cpu{cpu=generic}' --emit stablehlo
  nabla-mlir compile model.py:loss --spec f32[128] --hvp-module -o hvp.vmfb
  nabla-mlir compile model.py:loss --spec f32[128] --target cuda:sm_90 --target cpu{cpu=generic} -o loss.zip
  nabla-mlir run hvp.vmfb loss --input x.npy --input v.npy
  nabla-mlir verify loss.zip
"""
_FILE = "the .zip, the folder, the .json or the .vmfb"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; `action` is the function that does the work."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--traceback", action="store_true", help="show where in the program an error came from")
    parser = argparse.ArgumentParser(
        prog="nabla-mlir",
        description=__doc__,
        epilog=_EXAMPLES,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    all_drivers = dict.fromkeys(driver for target in TARGETS.values() for driver in target.drivers)
    drivers = f"{', '.join(all_drivers)}; chosen by the manifest by default"
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    compile = commands.add_parser(
        "compile",
        parents=[common],
        help="a function, maybe transformed, to a file",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compile.add_argument("model", metavar="MODEL", help="model.py:function, or a StableHLO module model.mlir[:entry]")
    compile.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="SPEC",
        help="an argument in order, or by name: f32[128,4], data=f32[10], a Python tree of them",
    )
    compile.add_argument(
        "--transform",
        action="append",
        default=[],
        metavar="NAME{OPTION=VALUE}",
        help="grad, value_and_grad, hvp, jvp, vjp, jacfwd, jacrev, hessian, vmap; in order",
    )
    compile.add_argument(
        "--hvp-module",
        nargs="?",
        type=int,
        const=16,
        metavar="BLOCK",
        help="the prepared Hessian: update, apply, apply_block (of BLOCK vectors, 16 by default) and so on, with state",
    )
    compile.add_argument(
        "--target",
        action="append",
        metavar="NAME{OPTION=VALUE}",
        help=f"{', '.join(TARGETS)} (default: cpu), cuda:sm_90; several make one artifact, the preferred one first",
    )
    compile.add_argument(
        "--emit",
        choices=["mlir", "stablehlo", "vmfb", "static-library"],
        default="vmfb",
        help="the traced IR, plain StableHLO, the artifact (default), or machine code with C around it",
    )
    compile.add_argument("--name", help="the name of the entry point; that of the function by default")
    compile.add_argument("-o", dest="output", metavar="FILE", help="NAME.vmfb by default; text goes to standard output")
    compile.add_argument("--flag", action="append", default=[], metavar="FLAG", help="a further flag of iree-compile")
    compile.add_argument("--tune", action="store_true", help="time several forms on this machine, and keep the fastest")
    compile.add_argument("--no-cache", action="store_true", help="do not use the cache of compiled modules")
    compile.set_defaults(action=compile_command)

    info = commands.add_parser("info", parents=[common], help="what an artifact offers")
    info.add_argument("file", help=_FILE)
    info.add_argument("--json", action="store_true", help="print the manifest itself")
    info.set_defaults(action=info_command)

    run = commands.add_parser("run", parents=[common], help="call an entry point of an artifact")
    run.add_argument("file", help=_FILE)
    run.add_argument("entry", nargs="?", help="the entry point; may be left out if there is one")
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        dest="inputs",
        help="for each array in the order of `info`, or NAME=VALUE: a .npy file, 3.5, [1, 2, 3]",
    )
    run.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="FILE.npy",
        dest="outputs",
        help="where to write each result, in order; results are printed otherwise",
    )
    run.add_argument("--driver", help=drivers)
    run.add_argument("--target", help="the target to take, as `info` writes it; the first that fits by default")
    run.set_defaults(action=run_command)

    verify = commands.add_parser("verify", parents=[common], help="is an artifact whole, does it run here, is it right")
    verify.add_argument("file", help=_FILE)
    verify.add_argument("--target", help="only this target, as `info` writes it")
    verify.set_defaults(action=verify_command)

    bench = commands.add_parser("bench", parents=[common], help="what each dispatch of a call costs here, and the bound")
    bench.add_argument("file", help=_FILE)
    bench.add_argument("entry", nargs="?", help="the entry point; all of them by default")
    bench.add_argument("--driver", help=drivers)
    bench.add_argument("--json", action="store_true", help="print the numbers as JSON")
    bench.set_defaults(action=bench_command)

    doctor = commands.add_parser("doctor", parents=[common], help="versions, devices, cache, a self test")
    doctor.set_defaults(action=doctor_command)
    return parser.parse_args(argv)


# ---------------------------------------------------------------- compile


def compile_command(options: argparse.Namespace) -> int:
    """Traces, lowers and compiles; writes what `--emit` asks for."""
    progress = Progress()
    with progress.step("loading"):
        from nabla_mlir.tools.requests import (
            apply_transforms,
            imported_specs,
            load_function,
            parse_spec,
            parse_target,
        )

        targets = [parse_target(text) for text in options.target or ["cpu"]]
        specs = [parse_spec(text) for text in options.spec]
        original = load_function(options.model)
        function = apply_transforms(original, options.transform)
    if not specs:
        specs = [("", s) for s in imported_specs(original, options.transform)]
    positional, keywords = [s for name, s in specs if not name], {name: s for name, s in specs if name}
    _check_arguments(function, positional, keywords)
    with progress.step("tracing"):
        stage: Any = _traced(function, positional, keywords, options)
    if options.emit != "mlir" and options.hvp_module is None:
        with progress.step("differentiating and simplifying" if options.transform else "simplifying"):
            stage = stage.lower()
    if options.emit in ("mlir", "stablehlo"):
        return _write_text(stage, options.output)
    return _write_code(stage, targets, options, progress)


def _write_code(stage: Any, targets: list[Any], options: argparse.Namespace, progress: Progress) -> int:
    """Compiles for the targets, and writes the artifact or the static library."""
    from nabla_mlir.runtime.manifest import Code
    from nabla_mlir.staging.compiled import Bundle
    from nabla_mlir.staging.static_library import save_static_library
    from nabla_mlir.tools.requests import RequestError

    output = options.output or ("hvp" if options.hvp_module is not None else stage.entries[0].name)
    static, parts = options.emit == "static-library", []
    if static and len(targets) > 1:
        raise RequestError(f"--emit=static-library requires one --target, got {len(targets)}.")
    for target in targets:
        with progress.step(f"compiling for {Code(target.to_json()).label}"):
            if static:
                path = save_static_library(stage, output, target, flags=options.flag)
            else:
                parts.append(stage.compile(target, flags=options.flag, cache=not options.no_cache, tune=options.tune))
    path = path if static else Bundle(tuple(parts)).save(output)
    progress.say(f"{path} ({path.stat().st_size} bytes)\n{stage.describe()}")
    return 0


def _traced(function: Any, positional: list[Any], keywords: dict[str, Any], options: argparse.Namespace) -> Any:
    """The traced function, or the prepared Hessian of it, which is plain StableHLO at once."""
    import inspect

    from nabla_mlir.prepared.modules import hvp_module
    from nabla_mlir.staging.stages import trace

    if options.hvp_module is None:
        return trace(function, *positional, name=options.name, **keywords)
    arguments = inspect.signature(function).bind(*positional, **keywords).args
    return hvp_module(function, *arguments, block=options.hvp_module)


def _check_arguments(function: Any, positional: list[Any], keywords: dict[str, Any]) -> None:
    import inspect

    from nabla_mlir.tools.requests import RequestError

    try:
        signature = inspect.signature(function)
        signature.bind(*positional, **keywords)
    except ValueError:  # a builtin has no signature; the trace will tell
        return
    except TypeError as error:
        raise RequestError(
            f"compile requires one --spec for each argument of {signature}, "
            f"got {len(positional) + len(keywords)}: {error}."
        ) from None


def _write_text(stage: Any, output: str | None) -> int:
    if output is None or output == "-":
        print(stage.mlir(), end="")
    else:
        stage.save_mlir(output)
    return 0


# ---------------------------------------------------------------- info, run, doctor


def info_command(options: argparse.Namespace) -> int:
    """Prints the manifest of an artifact."""
    from nabla_mlir.runtime.storage import Artifact

    artifact = Artifact(options.file)
    manifest = artifact.manifest
    if options.json:
        print(manifest.to_json(), end="")
        return 0
    print_table(str(options.file), ["property", "value"], _properties(manifest))
    rows = [
        [c.label, _details(c), manifest.best_driver(c), str(len(artifact.vmfb(c))), _peaks(c), c.sha256] for c in manifest.code
    ]
    print_table("\ncode", ["target", "options", "driver", "bytes", "peak of a call", "sha256"], rows)
    for entry in manifest.entry_points:
        rows = [["argument", leaf.name, str(leaf)] for leaf in _inputs(entry)]
        rows += [["result", leaf.name, str(leaf)] for leaf in entry.result_leaves]
        title = f"\n{entry.name}" + (f": {entry.doc.splitlines()[0]}" if entry.doc else "")
        print_table(title, ["", "name", "type"], rows)
    return 0


def _properties(manifest: Manifest) -> list[list[str]]:
    return [
        ["compiled by", f"IREE {manifest.iree}"],
        ["written by", f"nabla_mlir {manifest.nabla_mlir}"],
        ["runs on", f"IREE runtime >= {manifest.iree_range[0]}, < {manifest.iree_range[1]}"],
        ["StableHLO", manifest.stablehlo or "not saved"],
    ]


def _details(code: Code) -> str:
    """The options of a target that its label does not hold."""
    in_label = ("name", *(TARGETS[code.kind].labelled if code.kind in TARGETS else ()))
    options = {k: v for k, v in code.target.items() if k not in in_label and v not in ("", None, [])}
    return ", ".join(f"{key}={_short(value)}" for key, value in options.items())


def _peaks(code: Code) -> str:
    """The bytes of a call of each entry point, where they are known."""
    return ", ".join(f"{name} {memory.peak:,}" for name, memory in code.memory.items())


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:30]}... ({len(text.split(','))} in --json)"


def run_command(options: argparse.Namespace) -> int:
    """Calls an entry point and prints or writes its results."""
    import numpy as np

    from nabla_mlir.runtime import load

    module = load(options.file, options.driver, target=options.target)
    entries = module.entry_points
    if options.entry is None and len(entries) > 1:
        raise DeployError(f"run requires an entry point, got none: choose among {', '.join(entries)}.")
    name = options.entry or next(iter(entries))
    call = module[name]
    entry = entries[name]
    leaves = _bind(options.inputs, _inputs(entry), entry.name)
    arguments, start = [], 0
    for argument in entry.arguments:
        stop = start + len(argument.leaves)
        arguments.append(argument.tree.unflatten(leaves[start:stop]))
        start = stop
    results = entry.result.flatten(call(*arguments), "result")
    if len(options.outputs) > len(results):
        raise DeployError(f"{name} requires at most {len(results)} --output, got {len(options.outputs)}.")
    for i, (leaf, value) in enumerate(zip(entry.result_leaves, results, strict=True)):
        if i < len(options.outputs):
            np.save(options.outputs[i], np.asarray(value))
        else:
            print(f"{leaf.name}: {leaf} =\n{np.asarray(value)}")
    return 0


def _inputs(entry: EntryPoint) -> list[Leaf]:
    return [leaf for argument in entry.arguments for leaf in argument.leaves]


def _bind(texts: Sequence[str], leaves: Sequence[Leaf], entry: str) -> list[Any]:
    """The value of each leaf: those given by name, then the others in order."""
    names = {leaf.name: i for i, leaf in enumerate(leaves)}
    values: list[Any] = [None] * len(leaves)
    for text in texts:
        name, separator, value = text.partition("=")
        has_name = bool(separator) and name in names
        free = [i for i, v in enumerate(values) if v is None]
        if not has_name and not free:
            raise DeployError(f"{entry} requires {len(leaves)} inputs, got {len(texts)}.")
        i = names[name] if has_name else free[0]
        values[i] = _read_value(value if has_name else text, leaves[i])
    missing = [leaf.name for leaf, value in zip(leaves, values, strict=True) if value is None]
    if missing:
        raise DeployError(f"{entry} requires an --input for each array, got none for {', '.join(missing)}.")
    return values


def _read_value(text: str, leaf: Leaf) -> Any:
    import numpy as np

    from nabla_mlir.conversion import rounded
    from nabla_mlir.runtime.array import dtype_named

    if text.endswith(".npy"):
        try:
            return np.load(text)
        except (OSError, ValueError) as error:
            raise DeployError(f"--input requires a NumPy file for {leaf.name}, got {text}: {error}.") from None
    try:
        array = np.asarray(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError):
        raise DeployError(
            f"--input requires a .npy file, a number or a list for {leaf.name}: {leaf}, got {text!r}."
        ) from None
    return rounded(array, dtype_named(leaf.dtype), f"--input {leaf.name}")


def verify_command(options: argparse.Namespace) -> int:
    """Checks an artifact; 1 if anything is wrong."""
    from nabla_mlir.tools.verify import verify

    with Progress().step("verifying"):
        rows = list(verify(options.file, options.target))
    print_table(str(options.file), ["what", "result", "details"], rows)
    return int(any(result == "failed" for _, result, _ in rows))


def bench_command(options: argparse.Namespace) -> int:
    """Prints how long the entry points of an artifact take, and their dispatches."""
    from nabla_mlir.tools import bench

    return bench.run(options.file, options.entry, options.driver, options.json)


def doctor_command(options: argparse.Namespace) -> int:
    """Prints versions, devices and the cache, and tests the installation."""
    from nabla_mlir.tools import doctor

    return doctor.run()


# ---------------------------------------------------------------- the command


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of the command; returns the exit code."""
    options = parse_arguments(sys.argv[1:] if argv is None else argv)
    try:
        return int(options.action(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if options.traceback:
            raise
        print(f"nabla-mlir: {_describe(error)}", file=sys.stderr)
        return 1


def _describe(error: Exception) -> str:
    """One of our errors, or what the user's own program raised, with its line."""
    if isinstance(error, NablaError):
        return f"error: {error}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).exists()]
    own = [f for f in frames if not is_internal(f.filename) and "importlib" not in f.filename]
    where = f"\n  --> {own[-1].filename}:{own[-1].lineno}\n      {own[-1].line}" if own else ""
    return f"error: {type(error).__name__}: {error}{where}\n  help: --traceback shows all of it."


if __name__ == "__main__":
    sys.exit(main())
