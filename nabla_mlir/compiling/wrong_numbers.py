"""Reports for wrong compiled code: the first operation with a wrong value, and files that reproduce it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import NablaError
from nabla_mlir.base.files import write_files
from nabla_mlir.compiling import cache as disk
from nabla_mlir.compiling.lowering import clone_module, compile_lowered, legalize
from nabla_mlir.compiling.reference_check import DIFFERS, check_artifact
from nabla_mlir.compiling.reference_runs import Examples, ReferenceRuns
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.dialects.regions import functions_of, last_of
from nabla_mlir.dialects.types import is_static_tensor
from nabla_mlir.runtime.drawn import DRAWS
from nabla_mlir.runtime.manifest import Check
from nabla_mlir.table.traits import CONSTANT
from nabla_mlir.targets import Target

_MOST = 400  # the largest number of intermediate values that are returned


def culprit(module: ir.Module, target: Target, flags: Sequence[str], name: str, examples: Examples | None) -> str:
    """The first operation of an entry point with a wrong value, as text with its line; "" if it is not found.

    The module is compiled again so that all intermediate values are results, which may make the values right. `name` is the entry
    point, `examples` has arguments by entry point, and `flags` are additional flags of iree-compile.
    """
    copy = clone_module(module)  # its entry point is changed
    ops = _return_all(copy, name)
    try:
        vmfb = compile_lowered(copy, target, flags=flags, cache=False)
        check = check_artifact(copy, target, vmfb, examples)[name]
    except NablaError:
        return ""
    if check.status != DIFFERS:
        return ""
    op = ops[check.result]
    line = source_of(op.location)
    return f"{op.name} at {line.filename}:{line.line}" if line else op.name


def _return_all(module: ir.Module, name: str) -> list[ir.Operation]:
    """The operations whose results the function `name` now returns, instead of its own results.

    They are the first `_MOST` operations, except constants, that have a first result of a known shape.
    """
    function = functions_of(module.operation)[name]
    block = function.regions[0].blocks[0]
    ops = [o.operation for o in block.operations if o.operation.name != CONSTANT and len(o.operation.results)]
    ops = [op for op in ops if is_static_tensor(op.results[0].type)][:_MOST]
    end = last_of(block)
    values = [op.results[0] for op in ops]
    with context(), ir.InsertionPoint(end), ir.Location.unknown():
        ir.Operation.create("func.return", operands=values)
    end.erase()
    inputs = [argument.type for argument in block.arguments]
    kind = ir.FunctionType.get(inputs, [v.type for v in values], context=context())
    function.attributes["function_type"] = ir.TypeAttr.get(kind, context=context())
    if "res_attrs" in function.attributes:  # they describe the old results
        del function.attributes["res_attrs"]
    return ops


def save_reproducer(
    module: ir.Module, target: Target, flags: Sequence[str], name: str, check: Check, examples: Examples | None
) -> str:
    """The folder with files that reproduce wrong numbers; "" if it cannot be written.

    It has the lowered program, the legalised program, and the arguments on which compiled code differs.

    Args:
      module: the lowered module.
      target, flags: what it was compiled for, and additional flags of iree-compile.
      name: the entry point.
      check: the check that found the difference.
      examples: arguments by entry point, if it was checked on them.
    """
    text = str(module)
    folder = disk.cache_dir() / "reproducers" / f"wrong-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    about = {"entry": name, "difference": check.detail, "target": target.to_json(), "flags": [*target.flags(), *flags]}
    arguments = ReferenceRuns(module, None if check.draw else examples, check.draw or DRAWS[0]).inputs(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_files(
            {
                folder / "lowered.mlir": text.encode(),
                folder / "legal.mlir": str(legalize(module, target)).encode(),
                folder / "about.json": json.dumps(about, indent=2, default=str).encode(),
            }
        )
        np.savez(folder / "arguments.npz", *map(_writable, arguments))
    except OSError:
        return ""
    return str(folder)


def _writable(x: np.ndarray) -> np.ndarray:
    """The array in a dtype that NumPy's files support: narrow floats of ml_dtypes become float32."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x
