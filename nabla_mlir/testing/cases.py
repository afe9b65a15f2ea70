"""The samples of records, as calls with operands."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nabla_mlir.dialects.types import is_differentiable
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.samples import Case, Domain
from nabla_mlir.table.tensor import Tensor


@dataclass(frozen=True)
class LawCase:
    """One record with one sample."""

    record: OpDef
    case: Case
    number: int

    @property
    def name(self) -> str:
        """The name of the record and the number of the sample."""
        return f"{self.record.name.replace('.', '_')}_{self.number}"

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the call."""
        return {**self.record.defaults, **self.case.params}

    def draw(self, seed: int = 0) -> list[np.ndarray]:
        """Random operands in f64; equal seeds give equal operands."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return self.case.draw(rng, np.dtype(np.float64))

    def apply(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """The results of the operation on the tensors `xs` with the sample's parameters, inside a trace."""
        params = dict(self.params)
        if params.get("dtype", 0) is None:  # the dtype of a product is that of its factors
            params["dtype"] = xs[0].dtype
        return self.record.apply(xs, params)

    def reference(self, xs: Sequence[np.ndarray]) -> Any:
        """The results of the record's reference for the arrays `xs`, usually a function of NumPy; None if it has none."""
        function = self.case.numpy or self.record.numpy
        if isinstance(function, str):
            function = pkgutil.resolve_name(function)
        return None if function is None else function(*xs)


def law_cases(records: Iterable[OpDef] | None = None) -> list[LawCase]:
    """One case for each sample of the records; the default is all registered records.

    Elementwise records are sampled at rank 2, as scalars, and with an axis of size 0 and one of size 1.
    """
    cases = []
    for record in REGISTRY.values() if records is None else records:
        samples = record.sample
        if not samples:
            continue
        if all(isinstance(s, Domain) for s in samples):
            samples = [Case((shape,) * len(samples), domains=tuple(samples)) for shape in ((3, 2), (), (1, 0))]
        cases += [LawCase(record, sample, i) for i, sample in enumerate(samples)]
    return cases


def active_operands(law: LawCase, xs: Sequence[np.ndarray]) -> list[int]:
    """The indices of the differentiable operands of a sample; `xs` are the operands. None are if the sample is not smooth."""
    if not law.case.smooth:
        return []
    kinds = [domain.kind if domain is not None else "real" for domain in law.case.domains]
    return [
        i
        for i, x in enumerate(xs)
        if is_differentiable(x.dtype)
        and not (i < len(kinds) and kinds[i] not in ("real", "complex"))
        and not (i < len(law.case.values) and law.case.values[i] is not None)
    ]
