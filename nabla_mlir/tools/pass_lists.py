"""The passes and the pipelines with their options, for the help of nabla-opt and for the reference."""

from __future__ import annotations

import dataclasses
import inspect
import re

from nabla_mlir.passes.base import PASSES, PIPELINES, NamedPipeline, Pass, Step


def list_passes() -> str:
    """The name, the summary and the options of each pass."""
    lines = ["Passes of nabla_mlir (passes of MLIR, such as cse, canonicalize and symbol-dce, can be used, too):", ""]
    for name, cls in sorted(PASSES.items()):
        lines.append(f"  --{name:28} - {summary_of(cls)}")
        lines += [f"    --{o.name:28} - {o.help} ({o.type}, default {o.default})" for o in options_of(cls)]
    return "\n".join(lines)


def list_pipelines() -> str:
    """The name, the summary, the options and the steps of each named pipeline."""
    lines = ["Named pipelines. The name of a pipeline is used like that of a pass, and stands for its passes in this order:", ""]
    for name, cls in sorted(PIPELINES.items()):
        lines.append(f"  --{name:28} - {summary_of(cls)}")
        lines += [f"    --{o.name:28} - {o.help} ({o.type}, default {o.default})" for o in options_of(cls)]
        lines += [f"      {step.name:28} {step.why}{f' ({where})' if (where := condition_of(step)) else ''}" for step in cls.steps]
    return "\n".join(lines)


def condition_of(step: Step) -> str:
    """The targets or the option for which a step of a pipeline exists; "" if it always exists."""
    return " or ".join(step.targets) or step.needs.replace("_", "-")


def summary_of(cls: type[Pass | NamedPipeline]) -> str:
    """The first sentence of the documentation of a pass or a pipeline."""
    return (inspect.getdoc(cls) or "").split("\n")[0].rstrip(".")


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a pass as the documentation shows it."""

    name: str
    type: str
    default: str
    help: str


def options_of(cls: type[Pass | NamedPipeline]) -> list[Option]:
    """The options of a pass or a pipeline: its fields; the comment after a field is its help."""
    source = "\n".join(inspect.getsource(c) for c in cls.__mro__[:-1])  # the last class is `object`
    options = []
    for f in dataclasses.fields(cls):
        comment = re.search(rf"^    {f.name}: [^#\n]*#\s*(.*)$", source, re.M)
        default = str(f.default).lower() if isinstance(f.default, bool) else str(f.default)
        options.append(Option(f.name.replace("_", "-"), str(f.type), default, comment[1] if comment else ""))
    return options
