"""Loops that update arrays in place, and what else needs these arrays: IREE against XLA, and that IREE needs the pass."""

from __future__ import annotations

import re

import numpy as np
import pytest
from legalize_support import legalized
from xla import run_module

from nabla_mlir.base.errors import PassError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.passes.iree.faults.update_in_place import UpdateInPlacePass
from nabla_mlir.passes.iree.internals.buffers import TOPOLOGY
from nabla_mlir.runtime import Executable
from nabla_mlir.targets import CPU

T, ROW = "tensor<20x64xf32>", "tensor<1x64xf32>"
rng = np.random.default_rng(8)
X, V = rng.normal(size=(20, 64)).astype(np.float32), rng.normal(size=(1, 64)).astype(np.float32)


def write(result: str, rows: str, row: str, at: str = "%i") -> str:
    return f"%{result} = stablehlo.dynamic_update_slice %{rows}, %{row}, {at}, %c : ({T}, {ROW}, tensor<i32>, tensor<i32>) -> {T}\n"


def read(result: str, rows: str) -> str:
    return f"%{result} = stablehlo.dynamic_slice %{rows}, %i, %c, sizes = [1, 64] : ({T}, tensor<i32>, tensor<i32>) -> {ROW}\n"


def plus(result: str, a: str, b: str, type: str = T) -> str:
    return f"%{result} = stablehlo.add %{a}, %{b} : {type}\n"


def loop(carries: str, inits: list[str], body: str, returned: list[str], name: str = "r", i: str = "i") -> str:
    """A loop over the 20 rows with carries of one letter each."""
    given = ", ".join(f"%{c} = %{v}" for c, v in zip(carries, inits, strict=True))
    types = ", ".join(["tensor<i32>", *[T] * len(carries)])
    return f"""%{name}:{len(carries) + 1} = stablehlo.while(%{i} = %c, {given}) : {types}
    cond {{
      %p{i} = stablehlo.compare LT, %{i}, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p{i} : tensor<i1>
    }} do {{
      {body}
      %next{i} = stablehlo.add %{i}, %one : tensor<i32>
      stablehlo.return %next{i}, {", ".join("%" + v for v in returned)} : {types}
    }}
    """


def program(text: str, *results: str) -> str:
    """A function of X and V; %t is zero, and %y computed from X."""
    types = ", ".join([T] * len(results))
    return f"""func.func @main(%x: {T}, %v: {ROW}) -> ({types}) {{
    %t = stablehlo.constant dense<0.0> : {T}
    %c = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<20> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %y = stablehlo.add %x, %x : {T}
    {text}
    return {", ".join("%" + r for r in results)} : {types}
    }}"""


CHOICE = f"""%q = stablehlo.compare LT, %i, %seven : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %d = "stablehlo.if"(%q) ({{
    {write("e", "a", "v")}
    stablehlo.return %e : {T}
  }}, {{
    stablehlo.return %b : {T}
  }}) : (tensor<i1>) -> {T}
  """
PROGRAMS = {
    "an argument": program(loop("a", ["x"], write("b", "a", "v"), ["b"]), "r#1", "x"),
    "one constant twice": program(
        loop("ab", ["t", "t"], read("q", "x") + write("d", "a", "v") + write("e", "b", "q"), ["d", "e"]), "r#1", "r#2"
    ),
    "what is needed after": program(loop("a", ["y"], write("b", "a", "v"), ["b"]), "r#1", "y"),
    "one value twice": program(loop("ab", ["y", "y"], write("d", "a", "v"), ["d", "b"]), "r#1", "r#2"),
    "the old value": program(
        loop("ab", ["t", "x"], write("d", "a", "v") + plus("s", "a", "b") + plus("u", "s", "d"), ["d", "u"]), "r#1", "r#2"
    ),
    "the old value as a carry": program(loop("ab", ["t", "x"], write("d", "a", "v"), ["d", "a"]), "r#1", "r#2"),
    "a swap": program(loop("ab", ["t", "x"], write("d", "a", "v"), ["b", "d"]), "r#1", "r#2"),
    "two updates of one": program(
        loop("ab", ["t", "x"], read("q", "b") + write("d", "a", "v") + write("e", "a", "q"), ["d", "e"]), "r#1", "r#2"
    ),
    "one result twice": program(loop("ab", ["t", "x"], read("q", "b") + write("d", "a", "q"), ["d", "d"]), "r#1", "r#2"),
    "a capture": program(loop("a", ["x"], write("d", "y", "v") + plus("s", "a", "d"), ["s"]), "r#1"),
    "a capture that is a carry": program(
        loop("a", ["y"], read("q", "y") + plus("w", "q", "q", ROW) + write("d", "a", "w") + plus("s", "d", "y"), ["s"]), "r#1"
    ),
    "a loop inside": program(
        loop("ab", ["y", "x"], loop("e", ["a"], write("f", "e", "v", "%j"), ["f"], "k", "j") + plus("u", "a", "b"), ["k#1", "u"]),
        "r#1",
        "r#2",
    ),
    "a loop inside from a capture": program(
        loop(
            "b",
            ["x"],
            loop("e", ["y"], plus("w", "v", "v", ROW) + write("f", "e", "w", "%j"), ["f"], "k", "j")
            + read("q", "k#1")
            + write("g", "b", "q"),
            ["g"],
        ),
        "r#1",
        "y",
    ),
    "a view": program(
        loop("ab", ["t", "x"], f"%h = stablehlo.reshape %a : ({T}) -> {T}\n" + write("d", "h", "v"), ["d", "a"]), "r#1", "r#2"
    ),
    "a choice": program(
        "%seven = stablehlo.constant dense<7> : tensor<i32>\n" + loop("ab", ["t", "y"], CHOICE + write("g", "d", "v"), ["g", "b"]),
        "r#1",
        "r#2",
        "y",
    ),
}


def modules() -> tuple[str, dict[str, list[np.ndarray]]]:
    texts = [text.replace("@main", f"@f{i}") for i, text in enumerate(PROGRAMS.values())]
    return "\n".join(texts), {name: run_module(text, [X, V]) for name, text in PROGRAMS.items()}


def wrong(text: str, wanted: dict[str, list[np.ndarray]]) -> set[str]:
    """The programs whose numbers IREE gets wrong; or which change their arguments."""
    executable = Executable.load(compile_module(text, CPU(), cache=False), "local-sync")
    found = set()
    for i, (name, want) in enumerate(wanted.items()):
        arguments = [X.copy(), V.copy()]
        got = executable.function(f"f{i}")(arguments)
        equal = all(np.allclose(np.asarray(a), b, rtol=1e-5, atol=1e-5) for a, b in zip(got, want, strict=True))
        if not equal or not np.array_equal(arguments[0], X):
            found.add(name)
    return found


def test_each_array_is_written_where_nothing_else_needs_it() -> None:
    text, wanted = modules()
    assert wrong(legalized(text), wanted) == set()
    # When these are empty with a newer IREE, the copies can go.
    assert "a capture" in wrong(text, wanted)
    assert wrong(f"module attributes {{stream.topology = {TOPOLOGY}}} {{\n{text}\n}}", wanted) > {
        "an argument",
        "one constant twice",
        "what is needed after",
        "the old value as a carry",
        "a loop inside",
    }


@pytest.mark.parametrize("pass_", [False, True])
def test_nothing_but_the_row_is_copied(pass_: bool) -> None:
    """And that IREE still copies the whole array without the pass."""
    text = program(loop("ab", ["t", "x"], read("q", "b") + write("d", "a", "q"), ["d", "b"]), "r#1")
    text = legalized(text) if pass_ else text
    stream = compile_module(text, CPU(), flags=["--compile-to=stream"], cache=False).decode()
    body = re.split(r"\^bb2:", stream)[1]
    sizes = {int(n) for n in re.findall(r"stream.cmd.copy [^\n]*, %c(\d+) :", body)}
    assert (20 * 64 * 4 in sizes) != pass_
    assert 64 * 4 in sizes


def test_a_target_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(PassError, match=r"nabla-update-in-place requires a target of cpu, vulkan, cuda, got 'tpu'"):
        UpdateInPlacePass(target="tpu")  # type: ignore[arg-type]
    assert "stream.topology" not in legalized(PROGRAMS["a swap"], "vulkan")
