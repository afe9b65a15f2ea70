"""Textual pipelines of our passes and MLIR's: parsed, printed, and run in MLIR's own PassManager."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir, passmanager  # type: ignore[attr-defined]  # not in the stubs

from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.locations import source_of
from nabla_mlir.errors import PassError
from nabla_mlir.passes import (  # each module registers its passes
    canonicalize_batch,
    dce,
    expand,
    explain_batch,
    hoist_products,
    inline_calls,
    inline_rules,
    jvp,
    remove_stop_gradient,
    stack_products,
    transform,
    verify,
    vjp,
    vmap,
)
from nabla_mlir.passes.base import PASSES, Pass
from nabla_mlir.passes.iree import legalize_for_iree
from nabla_mlir.passes.iree.faults import update_in_place
from nabla_mlir.passes.iree.kernels import fuse_chains
from nabla_mlir.passes.iree.scheduling import place_results, schedule
from nabla_mlir.passes.normalize import normalize
from nabla_mlir.passes.simplify import simplify
from nabla_mlir.passes.split import split

MODULES = (
    canonicalize_batch, dce, expand, explain_batch, fuse_chains, hoist_products, inline_calls, inline_rules, jvp,
    legalize_for_iree, normalize, place_results, remove_stop_gradient, schedule, simplify, split, stack_products, transform,
    update_in_place, verify, vjp, vmap,
)  # fmt: skip

# Everything but what ends differentiation: for modules that are called from others.
EXPAND = "builtin.module(nabla-verify,nabla-dce,nabla-canonicalize-batch,nabla-expand,nabla-simplify)"

# From a module as it is traced or imported to plain StableHLO.
LOWER = (
    "builtin.module(nabla-verify,nabla-dce,nabla-canonicalize-batch,nabla-expand,nabla-inline-rules,nabla-remove-stop-gradient,nabla-simplify,nabla-hoist-products,nabla-stack-products,nabla-verify-lowered)"
)


@dataclass(frozen=True)
class Pipeline:
    """A sequence of passes; an entry is one of ours or the text of one of MLIR's.

    Example:
      >>> str(Pipeline.parse("builtin.module(nabla-vmap,cse)"))
      'builtin.module(nabla-vmap,cse)'
    """

    passes: tuple[Pass | str, ...]

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Reads ``builtin.module(name{option=value ...},name,...)``; the outer operation may be left out.

        Raises:
          PassError: the text is not a pipeline, or names a pass or an option that does not exist.
        """
        stripped = text.strip()
        if stripped.startswith("builtin.module("):
            if not stripped.endswith(")"):
                raise PassError(f"a pipeline requires balanced parentheses, got {text!r}.")
            stripped = stripped[len("builtin.module(") : -1]
        return Pipeline(tuple(_parse_pass(item) for item in _split(stripped, text) if item))

    def __str__(self) -> str:
        return f"builtin.module({','.join(_print_pass(p) for p in self.passes)})"

    def manager(self, wrap: Callable[[Pass], Callable[..., None]] | None = None) -> passmanager.PassManager:
        """MLIR's pass manager with these passes. Must be called with the context entered."""
        pm = passmanager.PassManager("builtin.module")
        for item in self.passes:
            if isinstance(item, str):
                pm.add(item)
                continue
            pm.add(wrap(item) if wrap else _callable(item), name=type(item).__name__, argument=item.name)
        return pm

    def run(self, module: ir.Operation) -> None:
        """Runs the passes on `module`, which is verified between them.

        Raises:
          NablaError: what a pass of ours reported.
          PassError: MLIR reported an error.
        """
        with context(), ir.Location.unknown():
            try:
                self.manager().run(module.operation)
            except ir.MLIRError as error:
                raise pass_error(error, str(self)) from None


def _callable(item: Pass) -> Callable[..., None]:
    def run(op: Any, _: Any) -> None:
        with context(), ir.Location.unknown():
            item.run(op.operation)

    return run


def pass_error(error: ir.MLIRError, what: str) -> PassError:
    """MLIR's diagnostics as one of our errors."""
    diagnostics = error.error_diagnostics
    text = "; ".join(d.message for d in diagnostics) or str(error)
    where = source_of(diagnostics[0].location) if diagnostics else None
    return PassError(f"{what} requires valid IR, got an error: {text}", where=where)


def _split(text: str, whole: str) -> list[str]:
    items, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "{(" and 1) or (c in "})" and -1) or 0
        if c == "," and depth == 0:
            items.append(text[start:i].strip())
            start = i + 1
    if depth:
        raise PassError(f"a pipeline requires balanced parentheses and braces, got {whole!r}.")
    return [*items, text[start:].strip()]


def _parse_pass(text: str) -> Pass | str:
    match = re.fullmatch(r"([\w.-]+)(?:\{(.*)\})?", text, re.S)
    if match is None or match[1] not in PASSES:
        if text.startswith("nabla-"):
            raise PassError(
                f"a pipeline requires passes that exist, got {text!r}.", help=f"known: {', '.join(sorted(PASSES))}"
            )
        _check_foreign(text)
        return text
    cls = PASSES[match[1]]
    options = dict(_parse_option(cls, o) for o in (match[2] or "").split())
    return cls(**options)


def _check_foreign(text: str) -> None:
    with context():
        try:
            passmanager.PassManager.parse(f"builtin.module({text})")
        except (ValueError, ir.MLIRError) as error:
            raise PassError(f"a pipeline requires passes that exist, got {text!r}: {error}") from None


def _parse_option(cls: type[Pass], text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(cls)}
    if key not in fields or not separator:
        raise PassError(f"{cls.name} requires options among {sorted(fields)}, got {text!r}.")
    kind = str(fields[key].type)
    try:
        return fields[key].name, _READERS[kind](value)
    except (KeyError, ValueError):
        raise PassError(f"{cls.name} requires a value of type {kind} for {key}, got {value!r}.") from None


def _read_bool(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _read_ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _read_bool, "int": int, "str": str, "Target": str, "tuple[int, ...]": _read_ints,
}  # fmt: skip


def _print_pass(item: Pass | str) -> str:
    if isinstance(item, str):
        return item
    options = [
        f"{f.name.replace('_', '-')}={_print_value(getattr(item, f.name))}"
        for f in dataclasses.fields(item)
        if getattr(item, f.name) != f.default
    ]
    return item.name + (f"{{{' '.join(options)}}}" if options else "")


def _print_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
