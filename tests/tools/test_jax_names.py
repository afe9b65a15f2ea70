"""The table of JAX's names says what is: each has a state, what is present resolves, and takes JAX's parameters."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import nabla_mlir as nm
from nabla_mlir.tools import jax_names

ROOT = Path(__file__).resolve().parents[2]
TABLE = jax_names.stored(ROOT)
NAMES = [(module, name) for module, names in TABLE["modules"].items() for name in names]


def test_the_page_is_that_of_the_table() -> None:
    assert (ROOT / "docs" / "jax_names.md").read_text() == jax_names.page(ROOT), "run python -m nabla_mlir.tools.jax_names"


def test_every_name_is_accounted_for() -> None:
    assert [f"{m}.{n}" for m, n in NAMES if jax_names.here(m, n)[0] == "?"] == []


def test_functions_take_the_parameters_of_jax() -> None:
    wrong = []
    for module, name in NAMES:
        theirs, path = TABLE["modules"][module][name], f"{module}.{name}"
        if theirs is None or jax_names.here(module, name)[0] != "present":
            continue
        function = jax_names.resolved(f"nabla_mlir.{path}")
        if callable(function) and not isinstance(function, type):
            wrong += [f"{path}: {p}" for p in jax_names.misfits(path, theirs, function)]
    assert wrong == []


def test_misfits_are_found() -> None:
    assert jax_names.misfits("f", ["a", "b", "c="], lambda a, c: None) == ["b"]
    assert jax_names.misfits("f", ["a", "b"], lambda b, a: None) == ["b"]
    assert jax_names.misfits("f", ["a/", "b/"], lambda x: None) == ["b"]
    assert jax_names.misfits("f", ["a", "out"], lambda a: None) == []


def test_the_list_is_that_of_the_installed_jax() -> None:
    jax = pytest.importorskip("jax")
    if jax.__version__ != TABLE["version"]:
        pytest.skip(f"the list is of JAX {TABLE['version']}")
    for module, names in TABLE["modules"].items():
        found = {n for n in dir(importlib.import_module(module)) if not n.startswith("_")}
        assert set(names) <= found
        unsaid = {n for n in found - set(names) if hasattr(importlib.import_module(module), n)}
        # Submodules are attributes once somebody has imported them.
        assert all(type(getattr(importlib.import_module(module), n)).__name__ == "module" for n in unsaid), unsaid


def test_no_reason_without_a_name() -> None:
    listed = {f"{m}.{n}" for m, n in NAMES}
    left_out = {f"{m}.{n}" for names in jax_names.LEFT_OUT.values() for m, text in names.items() for n in text.split()}
    assert left_out - listed == set()
    assert set(jax_names.ELSEWHERE) - listed == set()
    assert set(jax_names.PARAMETERS) - listed == {"*"}


def test_names_of_jax_are_not_those_of_the_framework() -> None:
    with pytest.raises(AttributeError, match=r"module 'nabla_mlir' has no attribute 'lax'; nm\.jax\.lax exists"):
        nm.lax  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'nabla_mlir' has no attribute 'no_name'$"):
        nm.no_name  # noqa: B018
