"""The explanation of a program: the data, the page, and files for other tools."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import ImportIRError, TraceError, user_frame, writing
from nabla_mlir.base.figures import axes_or_new
from nabla_mlir.base.files import write_files
from nabla_mlir.base.typing import PyTree
from nabla_mlir.compiling.lowering import clone_module
from nabla_mlir.dialects.context import context
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.explorer.dispatches import dispatches_in, measure
from nabla_mlir.explorer.document import Document
from nabla_mlir.explorer.exports import chrome_trace, model_explorer
from nabla_mlir.explorer.halves import halves_of
from nabla_mlir.explorer.page import page_of
from nabla_mlir.explorer.patterns import pattern_of
from nabla_mlir.explorer.phases import document_of, phases_in
from nabla_mlir.explorer.recording import Recorder
from nabla_mlir.interop.portable import parse
from nabla_mlir.passes.pipeline import IreePipeline, LowerPipeline
from nabla_mlir.rules.copies import copies_of
from nabla_mlir.staging.compiled import Compiled
from nabla_mlir.staging.entry import Stage
from nabla_mlir.staging.interpreted import Interpreted
from nabla_mlir.staging.stages import Lowered, Traced, trace
from nabla_mlir.targets import Target
from nabla_mlir.targets import target as as_target


@dataclass(frozen=True)
class Explanation:
    """The states of a program through its passes, as data (see `docs/explorer.md`). A notebook shows it as the page.

    Attributes:
      data: the document, of JSON values.
    """

    data: dict[str, Any]

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.data, separators=(",", ":"))

    def html(self) -> str:
        """The page as one file, which loads nothing from the network."""
        return page_of(self.data)

    def chrome_trace(self) -> dict[str, Any]:
        """The times of the passes and of the kernels, for chrome://tracing and ui.perfetto.dev."""
        return chrome_trace(self.data)

    def model_explorer(self, state: int = -1) -> dict[str, Any]:
        """The graph of one state of the module (by default the last), for Google's Model Explorer."""
        return model_explorer(self.data, state)

    def plot(self, axes: Any = None) -> Any:
        """Draws the roofline: operations per second of each kernel over operations per byte, with the limits of the machine.

        Args:
          axes: axes of Matplotlib; by default new ones.

        Returns:
          The axes.

        Raises:
          TraceError: nothing was measured; give a target that runs here.
          DeployError: Matplotlib is not installed.
        """
        machine, kernels = self.data["machine"], [k for k in self.data["kernels"] if k["seconds"]]
        if machine is None or not kernels:
            raise TraceError(
                "plot requires kernels that were measured, got none.",
                where=user_frame(),
                help='give a target that runs here: nm.explain(f, *specs, target="cpu").',
            )
        axes = axes_or_new(axes)
        intensity = [max(k["flops"], 1) / max(k["bytes"], 1) for k in kernels]
        grid = np.geomspace(min(intensity) / 4, max(*intensity, machine["peak"] / machine["bandwidth"]) * 4, 100)
        axes.loglog(grid, np.minimum(grid * machine["bandwidth"], machine["peak"]), color="black")
        speed, longest = [max(k["flops"], 1) / k["seconds"] for k in kernels], max(k["seconds"] for k in kernels)
        axes.scatter(intensity, speed, s=[10 + 190 * k["seconds"] / longest for k in kernels], alpha=0.6)
        for kernel, *point in zip(kernels, intensity, speed, strict=True):
            axes.annotate(kernel["name"].rpartition("dispatch_")[2], point, fontsize=7)
        axes.set(xlabel="operations for each byte moved", ylabel="operations a second")
        axes.grid(visible=True, alpha=0.3)
        return axes

    def save(self, path: str | Path) -> Path:
        """Writes the page, or, if the name ends in .json, .trace.json or .graph.json, a file for other tools.

        Raises:
          SaveError: the folder does not exist or cannot be written.
        """
        path = Path(path)
        texts: dict[str, Callable[[], str]] = {
            ".trace.json": lambda: json.dumps(self.chrome_trace()),
            ".graph.json": lambda: json.dumps(self.model_explorer()),
            ".json": self.to_json,
            "": self.html,
        }
        text = next(text for ending, text in texts.items() if path.name.endswith(ending))
        with writing(path):
            write_files({path: text().encode()})
        return path

    def _repr_html_(self) -> str:
        title, page = html.escape(self.data["title"]), html.escape(self.html())
        return f'<iframe title="{title}" srcdoc="{page}" width="100%" height="720" style="border:0"></iframe>'

    def __repr__(self) -> str:
        rows, operations = self.data["rows"], self.data["states"][-1]["operations"]
        changes = sum(1 for row in rows if row["before"] != row["after"])
        return f"<Explanation of {self.data['title']}: {operations} operations, changed by {changes} of {len(rows)} passes>"


def explain(
    f: Any, *specs: PyTree, target: str | Target | None = None, sparsity: str = "", name: str | None = None, **kw_specs: PyTree
) -> Explanation:
    """An explanation of the effect of the passes on a function, with the user's line and the cost of each operation.

    Args:
      f: a function of pytrees of arrays, or a transform of one; or a stage (from `nm.trace`, `lower`, `compile` or
        `nm.hvp_module`).
      specs: for each argument a pytree of `nm.spec(...)` or arrays; none for a stage.
      target: a target, for which the program is compiled. The page then shows IREE's phases, and the kernel of each operation.
        Kernels are measured if the target runs here.
      sparsity: "jacobian" or "hessian" adds its pattern by the first argument, with a coloring.
      name: the name of the entry point.
      kw_specs: specs of keyword arguments.

    Raises:
      TraceError: a stage is passed together with specs, or the function uses an operation that cannot be recorded.
      CompileError: IREE refuses the module.

    Example:
      >>> import nabla_mlir as nm
      >>> page = nm.explain(nm.grad(lambda x: (x ** 3).sum()), nm.spec(4), name="cubes")
      >>> [row["name"] for row in page.data["rows"] if row["before"] != row["after"]][:3]
      ['nabla-lower', 'nabla-expand', 'ad.vjp']
    """
    if isinstance(f, Stage) and (specs or kw_specs):
        raise TraceError(
            "explain requires either a stage or a function with specs, got a stage with specs.",
            where=user_frame(),
            help="a stage knows its arguments: nm.explain(stage).",
        )
    stage = f if isinstance(f, Stage) else trace(f, *specs, name=name, **kw_specs)
    compiled = stage if isinstance(stage, Compiled) and not isinstance(stage, Interpreted) else None
    machine = as_target(compiled.target if compiled is not None else "cpu" if target is None else target)
    recorder = Recorder(clone_module(stage.module))
    is_traced = compiled is None and not isinstance(stage, Lowered)  # an interpreted stage is traced, too
    if is_traced:
        recorder.run(LowerPipeline())
    halves = halves_of(recorder)
    functions = functions_of(recorder.module.operation)
    copies = [
        {"function": name, "argument": c.argument, "bytes": c.bytes, "written": c.written, "text": str(c)}
        for name, f in functions.items()
        for c in copies_of(f)
    ]
    recorder.run(IreePipeline(target=machine.name, vector_bytes=machine.kernel_bytes()), verify_each=False)
    first = "as traced" if is_traced else "as lowered"
    builder = Document(_title([e.name for e in stage.entries]), [e.describe() for e in stage.entries], recorder, first)
    document = builder.json
    document["halves"], document["copies"] = halves, copies
    document["pattern"] = pattern_of(f, specs, sparsity) if sparsity else None
    document["target"], document["kernels"], document["machine"], document["compiler"] = machine.name, [], None, None
    document["checks"] = []
    if target is not None or compiled is not None:
        document["kernels"] = dispatches_in(recorder, machine)
        document["compiler"] = document_of(phases_in(recorder, machine), builder.texts, recorder)
        compiled = compiled or Lowered(_lowered(stage), stage.entries).compile(machine)
        document["machine"] = measure(document["kernels"], compiled)
        document["checks"] = [
            {"function": name, "status": c.status, "strategy": c.strategy, "text": str(c)} for name, c in compiled.checks.items()
        ]
    return Explanation(document)


def _title(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _lowered(stage: Stage) -> ir.Module:
    return stage.module if isinstance(stage, Lowered) else Traced(stage.module, stage.entries).lower().module


def compare(a: str | Path, b: str | Path) -> Explanation:
    """The difference between two files of IR, operation by operation.

    Args:
      a: a file of MLIR, as text or bytecode.
      b: the other one.

    Raises:
      ImportIRError: a file cannot be read, or contains no valid IR.
    """
    modules = []
    for file in map(Path, (a, b)):
        try:
            source = file.read_bytes()
        except OSError as error:
            raise ImportIRError(f"diff requires a file of MLIR, got {str(file)!r}: {error.strerror}.") from None
        modules.append(_read(source, file))
    recorder = Recorder(modules[0])
    with context():
        recorder.replace(modules[1], f"{Path(a).name} to {Path(b).name}")
    document = Document(f"{a} → {b}", [], recorder, str(a)).json
    document |= {"halves": None, "copies": [], "pattern": None, "target": "", "kernels": [], "machine": None, "compiler": None}
    document["checks"] = []
    return Explanation(document)


def _read(source: bytes, file: Path) -> ir.Module:
    """The module in `file`, whose bytes are `source`; raises ImportIRError if it has no valid IR."""
    with context():
        try:
            return ir.Module.parseFile(str(file)) if not source.startswith(b"ML\xefR") else parse(source)
        except ir.MLIRError as error:
            raise ImportIRError(f"diff requires valid IR, got {str(file)!r}: {str(error).splitlines()[0]}") from None
