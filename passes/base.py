"""The classes of passes and of named pipelines: frozen dataclasses with textual names, whose fields are their options."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from iree.compiler import ir

from nabla_mlir.base.errors import PassError
from nabla_mlir.targets import TARGETS


@dataclass(frozen=True)
class Pass:
    """A transformation of a module.

    The first line of the docstring is the summary in `nabla-opt --list-passes`, the rest its description;
    fields are options (``nabla-vmap{innermost-only=true}``), and the line ``Example: FILE`` names the test that
    the reference page shows. Valid IR in, valid IR out.
    """

    name: ClassVar[str] = ""

    def run(self, module: ir.Operation) -> None:
        """Transforms `module` in place, as the docstring of the pass says."""
        raise NotImplementedError


PASSES: dict[str, type[Pass]] = {}
P = TypeVar("P", bound=type[Pass])


def register(cls: P) -> P:
    """The pass class itself, after it is registered under its textual name. Passes of other projects have their own prefix.

    Raises:
      PassError: the name exists already, or has no prefix.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", cls.name) or cls.name in PASSES:
        raise PassError(f"a pass requires a new name with a prefix, such as 'nabla-vmap', got {cls.name!r}.")
    PASSES[cls.name] = cls
    return cls


def similar_names(name: str) -> list[str]:
    """The registered passes and pipelines whose names are similar to `name`, apart from the prefix of nabla_mlir."""
    names = {known.removeprefix("nabla-"): known for known in (*PASSES, *PIPELINES)}
    return [names[each] for each in difflib.get_close_matches(name.removeprefix("nabla-"), names, n=3)]


def require_target(item: Pass | NamedPipeline, target: str) -> None:
    """Raises PassError unless `target` is the name of a target."""
    if target not in TARGETS:
        raise PassError(f"{item.name} requires a target of {', '.join(TARGETS)}, got {target!r}.")


@dataclass(frozen=True)
class Step:
    """An entry of a named pipeline: one of our passes, another named pipeline, or the text of an MLIR pass.

    `why` says in one sentence why the entry has this position. `unless` names a field of `Codegen`: the step is left
    out if IREE does this correctly. `needs` names an option of the pipeline: the step is left out if the option is not
    set.
    """

    item: type[Pass] | type[NamedPipeline] | str
    why: str
    unless: str = ""
    needs: str = ""

    @property
    def targets(self) -> tuple[str, ...]:
        """The kinds of targets that run the step, if not all do."""
        if not self.unless:
            return ()
        return tuple(name for name, cls in TARGETS.items() if not getattr(cls.codegen, self.unless))

    @property
    def name(self) -> str:
        """The name of the pass or pipeline."""
        return self.item if isinstance(self.item, str) else self.item.name


@dataclass(frozen=True)
class NamedPipeline:
    """An order of passes with a name, which can be written wherever a pass can.

    The docstring has the form of that of a pass. An option of the pipeline is given to the passes that have an option
    of this name.
    """

    name: ClassVar[str] = ""
    steps: ClassVar[tuple[Step, ...]] = ()

    def passes(self) -> tuple[Pass | str, ...]:
        """The passes in order, each as an object or as the text of an MLIR pass; an inner pipeline is replaced by its passes."""
        parts: list[Pass | str] = []
        for _, item in self.items():
            parts += item.passes() if isinstance(item, NamedPipeline) else [item]
        return tuple(parts)

    def items(self) -> Iterator[tuple[Step, Pass | NamedPipeline | str]]:
        """The steps that run with these options, each with the configured pass or pipeline.

        A step is left out if the code generator of the target needs no such step (`unless`), or if the option that asks for it is
        off (`needs`).
        """
        options = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        for step in self.steps:
            if step.unless and getattr(TARGETS[options["target"]].codegen, step.unless):
                continue
            if step.needs and not options[step.needs]:
                continue
            if isinstance(step.item, str):
                yield step, step.item
                continue
            yield step, step.item(**{f.name: options[f.name] for f in dataclasses.fields(step.item) if f.name in options})


PIPELINES: dict[str, type[NamedPipeline]] = {}
N = TypeVar("N", bound=type[NamedPipeline])


def register_pipeline(cls: N) -> N:
    """The pipeline class itself, after it is registered under its textual name. Raises PassError as `register` does."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", cls.name) or cls.name in {*PASSES, *PIPELINES}:
        raise PassError(f"a pipeline requires a new name with a prefix, such as 'nabla-lower', got {cls.name!r}.")
    PIPELINES[cls.name] = cls
    return cls
