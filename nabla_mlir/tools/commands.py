"""The commands of nabla-mlir. A command imports the compiler or the runtime only if it needs them."""

from __future__ import annotations

import argparse
import io
import json
from typing import TYPE_CHECKING, Any

from nabla_mlir.base.errors import DeployError, writing
from nabla_mlir.base.files import write_files
from nabla_mlir.targets import TARGETS
from nabla_mlir.tools.inputs import bind
from nabla_mlir.tools.terminal import Progress, print_table

if TYPE_CHECKING:
    from nabla_mlir.runtime.manifest import Code, EntryPoint, Leaf, Manifest


def compile_command(options: argparse.Namespace) -> int:
    """Traces, lowers and compiles a function, and writes it in the form that `--emit` names; returns the exit code."""
    progress = Progress()
    with progress.step("loading"):
        from nabla_mlir.tools.requests import parse_target

        targets = [parse_target(text) for text in options.target or ["cpu"]]
        function, positional, keywords = requested(options)
    with progress.step("tracing"):
        stage: Any = traced_by(function, positional, keywords, options)
    if options.emit != "mlir" and options.hvp_module is None and options.sparse is None:
        with progress.step("differentiating and simplifying" if options.transform else "simplifying"):
            stage = stage.lower()
    if options.emit in ("mlir", "stablehlo"):
        return _write_text(stage, options)
    return _write_code(stage, targets, options, progress)


def requested(options: argparse.Namespace) -> tuple[Any, list[Any], dict[str, Any]]:
    """The transformed function of a command line, the specs of its arguments by position, and those by name."""
    from nabla_mlir.tools.requests import apply_transforms, imported_specs, load_function, parse_spec

    specs = [parse_spec(text) for text in options.spec]
    original = load_function(options.model)
    function = apply_transforms(original, options.transform)
    if not specs:  # an imported model states the types of its arguments
        specs = [("", s) for s in imported_specs(original, options.transform)]
    positional, keywords = [s for name, s in specs if not name], {name: s for name, s in specs if name}
    _check_arguments(function, positional, keywords)
    return function, positional, keywords


def _write_code(stage: Any, targets: list[Any], options: argparse.Namespace, progress: Progress) -> int:
    """Compiles a stage for the targets, and writes the artifact or the static library; returns the exit code 0.

    Raises RequestError if several targets are given for a static library. `progress` shows the current step.
    """
    from nabla_mlir.runtime.manifest import Code
    from nabla_mlir.staging.compiled import Bundle
    from nabla_mlir.staging.static_library import save_static_library
    from nabla_mlir.tools.requests import RequestError

    stem = "hvp" if options.hvp_module is not None else (options.sparse or "").partition("{")[0]
    output = options.output or stem or stage.entries[0].name
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
    if options.json:
        print(json.dumps({"file": str(path), "bytes": path.stat().st_size, "entry_points": _described(stage)}))
    progress.say(f"{path} ({path.stat().st_size} bytes)\n{stage.describe()}")
    return 0


def traced_by(function: Any, positional: list[Any], keywords: dict[str, Any], options: argparse.Namespace) -> Any:
    """The stage of a function, or of its prepared Hessian or sparse derivative if the options request one.

    `positional` and `keywords` are the specs of its arguments.
    """
    import inspect

    from nabla_mlir.prepared.modules import hvp_module
    from nabla_mlir.staging.stages import trace
    from nabla_mlir.tools.requests import sparse_module

    if options.hvp_module is None and options.sparse is None:
        return trace(function, *positional, name=options.name or transforms_of(options) or None, **keywords)
    arguments = inspect.signature(function).bind(*positional, **keywords).args
    if options.sparse is not None:
        return sparse_module(function, arguments, options.sparse)
    return hvp_module(function, *arguments, block=options.hvp_module, entry_points=entry_points_of(options.entry_points))


def entry_points_of(text: str) -> list[str] | str:
    """The entry points that a command line names."""
    return text if text == "all" else [name.strip() for name in text.split(",") if name.strip()]


def transforms_of(options: argparse.Namespace) -> str:
    """The names of the transforms, joined by "_": the name of the entry point."""
    from nabla_mlir.tools.requests import parse_options

    return "_".join(parse_options(text, "--transform")[0] for text in options.transform)


def _check_arguments(function: Any, positional: list[Any], keywords: dict[str, Any]) -> None:
    """Raises RequestError unless the function can be called with the specs `positional` and `keywords`."""
    import inspect

    from nabla_mlir.tools.requests import RequestError

    try:
        signature = inspect.signature(function)
        signature.bind(*positional, **keywords)
    except ValueError:  # a builtin has no signature; the trace checks its arguments
        return
    except TypeError as error:
        raise RequestError(
            f"{getattr(function, '__name__', 'the function')} requires one --spec for each argument of {signature}, "
            f"got {len(positional) + len(keywords)}: {error}."
        ) from None


def _write_text(stage: Any, options: argparse.Namespace) -> int:
    """Writes or prints the text of a stage; returns the exit code 0."""
    is_printed = options.output in (None, "-")
    path = None if is_printed else stage.save_mlir(options.output)
    if options.json:
        content = {"mlir": stage.mlir()} if path is None else {"file": str(path), "bytes": path.stat().st_size}
        print(json.dumps(content | {"entry_points": _described(stage)}))
    elif is_printed:
        print(stage.mlir(), end="")
    return 0


def _described(stage: Any) -> list[dict[str, str]]:
    return [{"name": e.name, "describe": e.describe()} for e in stage.entries]


def info_command(options: argparse.Namespace) -> int:
    """Prints the manifest of an artifact: versions, targets, checks and entry points; returns the exit code 0."""
    from nabla_mlir.runtime.storage import Artifact

    artifact = Artifact(options.file)
    manifest = artifact.manifest
    if options.json:
        print(manifest.to_json(), end="")
        return 0
    print_table(str(options.file), ["property", "value"], _properties(manifest))
    rows = [[c.label, _details(c), manifest.best_driver(c), str(len(artifact.vmfb(c))), _peaks(c), c.sha256] for c in manifest.code]
    print_table("\ncode", ["target", "options", "driver", "bytes", "peak of a call", "sha256"], rows)
    if checks := [[c.label, name, check.status, check.detail] for c in manifest.code for name, check in c.checks.items()]:
        print_table("\nnumbers, compared with the interpreter", ["target", "entry point", "status", "detail"], checks)
    for entry in manifest.entry_points:
        rows = [["argument", leaf.name, str(leaf)] for leaf in _inputs(entry)]
        rows += [["result", leaf.name, str(leaf)] for leaf in entry.result_leaves]
        title = f"\n{entry.name}" + (f": {entry.doc.splitlines()[0]}" if entry.doc else "")
        print_table(title, ["", "name", "type"], rows)
    return 0


def _properties(manifest: Manifest) -> list[list[str]]:
    """The rows of the table of versions and requirements of an artifact, each a name and a value.

    `manifest` is the description in the artifact.
    """
    return [
        ["compiled by", f"IREE {manifest.iree}"],
        ["written by", f"nabla_mlir {manifest.nabla_mlir}"],
        ["runs on", f"IREE runtime >= {manifest.iree_range[0]}, < {manifest.iree_range[1]}"],
        ["StableHLO", manifest.stablehlo or "not saved"],
    ]


def _details(code: Code) -> str:
    """The options of a target that are not part of its label. `code` is one compiled program of an artifact."""
    in_label = ("name", *(TARGETS[code.kind].labelled if code.kind in TARGETS else ()))
    options = {k: v for k, v in code.target.items() if k not in in_label and v not in ("", None, [])}
    return ", ".join(f"{key}={_short(value)}" for key, value in options.items())


def _peaks(code: Code) -> str:
    """The bytes that a call of each entry point needs, if they are known."""
    return ", ".join(f"{name} {memory.peak:,}" for name, memory in code.memory.items())


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:30]}... ({len(text.split(','))} in --json)"


def run_command(options: argparse.Namespace) -> int:
    """Calls an entry point of an artifact, and prints or writes its results; returns the exit code 0.

    Raises DeployError if it is not stated which of several entry points.
    """
    import numpy as np

    from nabla_mlir.runtime import load

    module = load(options.file, options.driver, target=options.target)
    entries = module.entry_points
    if options.entry is None and len(entries) > 1:
        raise DeployError(f"run requires an entry point, got none: choose among {', '.join(entries)}.")
    name = options.entry or next(iter(entries))
    call = module[name]
    entry = entries[name]
    leaves = bind(options.inputs, _inputs(entry), entry.name)
    arguments, start = [], 0
    for argument in entry.arguments:
        stop = start + len(argument.leaves)
        arguments.append(argument.tree.unflatten(leaves[start:stop]))
        start = stop
    results = entry.result.flatten(call(*arguments), "result")
    if len(options.outputs) > len(results):
        raise DeployError(f"{name} requires at most {len(results)} --output, got {len(options.outputs)}.")
    files = [path if path.endswith(".npy") else f"{path}.npy" for path in options.outputs]
    with writing(", ".join(files)):
        write_files({path: _content(value) for path, value in zip(files, results, strict=False)})
    if options.json:
        leaves = [{"name": leaf.name, "dtype": leaf.dtype, "shape": list(leaf.shape)} for leaf in entry.result_leaves]
        values = [{"value": _json_value(np.asarray(value))} for value in results[len(options.outputs) :]]
        values = [{"file": path} for path in files] + values
        print(json.dumps([leaf | value for leaf, value in zip(leaves, values, strict=True)]))
    for leaf, value in list(zip(entry.result_leaves, results, strict=True))[len(files) :]:
        if not options.json:
            print(f"{leaf.name}: {leaf} =\n{np.asarray(value)}")
    return 0


def _content(value: Any) -> bytes:
    """The content of a .npy file with the array `value`.

    It is written later by us, because NumPy does not notice a full disk when it writes a file.
    """
    import numpy as np

    file = io.BytesIO()
    np.save(file, np.asarray(value))
    return file.getvalue()


def _json_value(array: Any) -> Any:
    """An array as JSON values: a complex number is a pair, and a number that is not finite is a string."""
    if array.dtype.kind == "c":
        return _json_value(array.view(array.real.dtype).reshape(*array.shape, 2))
    return json.loads(json.dumps(array.tolist()), parse_constant=str)


def _inputs(entry: EntryPoint) -> list[Leaf]:
    return [leaf for argument in entry.arguments for leaf in argument.leaves]


def verify_command(options: argparse.Namespace) -> int:
    """Checks an artifact and prints a row for each check; returns 1 if a check fails, else 0."""
    from nabla_mlir.tools.verify import verify

    progress = Progress()
    rows: list[tuple[str, str, str]] = []
    checks = verify(options.file, options.target)
    while True:
        with progress.status(f"verifying: {rows[-1][0] if rows else options.file}"):
            row = next(checks, None)
        if row is None:
            break
        rows.append(row)
    if options.json:
        print(json.dumps([{"what": what, "result": result, "details": details} for what, result, details in rows], indent=1))
    else:
        print_table(str(options.file), ["what", "result", "details"], rows)
    return int(any(result == "failed" for _, result, _ in rows))


def bench_command(options: argparse.Namespace) -> int:
    """Prints the times of the entry points of an artifact, and of their dispatches; returns the exit code."""
    from nabla_mlir.tools import bench

    return bench.run(options.file, options.entry, options.driver, options.json)


def doctor_command(options: argparse.Namespace) -> int:
    """Prints versions, devices and the cache, and tests the installation; returns the exit code."""
    from nabla_mlir.tools import doctor

    return doctor.run(options.json)
