"""Modules from the files of other systems: MLIR text, bytecode, and portable artifacts (VHLO)."""

from __future__ import annotations

import re

from iree.compiler import ir

from nabla_mlir.base.errors import ImportIRError, user_frame
from nabla_mlir.dialects.context import BYTECODE, context, parse_module
from nabla_mlir.dialects.regions import check_order, nested
from nabla_mlir.passes.inline_calls import remade
from nabla_mlir.targets.toolchain import bytecode_fault, run_compiler


def parse(source: str | bytes) -> ir.Module:
    """A module of StableHLO from text, bytecode or a portable artifact; raises ImportIRError if MLIR cannot read the source."""
    if not isinstance(source, (str, bytes)):
        raise ImportIRError(
            f"importing requires the text or the bytes of a module, got {type(source).__name__} {source!r:.60}.",
            where=user_frame(),
            help="read a file with pathlib.Path(name).read_bytes().",
        )
    try:
        if isinstance(source, bytes) and source.startswith(BYTECODE) and (fault := bytecode_fault(source)):
            raise ImportIRError(f"importing requires bytecode that MLIR reads, got {fault}.")
        module = parse_module(source)
        with context():
            check_order(module.operation)
        return from_portable(module)
    except ImportIRError as error:
        if isinstance(source, bytes) and "'sdy'" in error.message:
            raise ImportIRError(
                error.message,
                help="shardings of JAX (sdy) have no portable form that the compiler reads; export with "
                "jax.config.update('jax_use_shardy_partitioner', False), or use nm.from_jax.",
            ) from None
        version = re.search(rb"StableHLO_v[\d.]+", source) if isinstance(source, bytes) else None
        if version is not None:
            raise ImportIRError(
                error.message, help=f"the artifact was written as {version[0].decode()}: is it whole, or is that version too new?"
            ) from None
        raise


def from_portable(module: ir.Module) -> ir.Module:
    """The StableHLO module of a portable artifact (VHLO), converted by IREE's compiler; other modules are returned unchanged.
    Raises ImportIRError if it does not convert.
    """
    operations = [op.operation for op in module.body.operations]
    if not any(op.name.startswith("vhlo.") for op in operations):
        return module
    # Composite operations become calls of the functions that define them.
    with context():
        for function in operations:
            for op in nested(function):
                if op.name.startswith("vhlo.composite_"):
                    remade(op, "vhlo.call_v1", {"callee": op.attributes["decomposition"]})
    process = run_compiler(
        [
            "--iree-input-type=auto",
            "--compile-to=input",
            "--mlir-print-ir-after-all",
            "--mlir-print-ir-module-scope",
            "--mlir-disable-threading",
            "-",
            "-o",
            "-",
        ],
        str(module).encode(),
    )
    match = re.search(r"IR Dump After VhloLegalizeToStablehloPass(.*)\n", process.stderr)
    if match is None or "Failed" in match[1]:
        first = next((line for line in process.stderr.splitlines() if "error:" in line), "no conversion took place")
        raise ImportIRError(f"importing requires a portable artifact that converts to StableHLO, got {first}")
    text = process.stderr[match.end() :]
    return parse_module(text[: text.index("\n}\n") + 3])  # the module; what follows are other dumps
