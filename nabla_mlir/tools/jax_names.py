"""The table of JAX's public names: writes docs/jax_names.md from the list in docs/jax_names.json.

    python -m nabla_mlir.tools.jax_names          # the page
    python -m nabla_mlir.tools.jax_names --read   # first the list, from the installed JAX

A name is present (the same path below `nabla_mlir`), here under another name, or left out for a reason.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import types
from pathlib import Path
from typing import Any

from nabla_mlir.tools.jax_left_out import ELSEWHERE, LEFT_OUT, PARAMETERS, SUFFIX

MODULES = (
    "jax",
    "jax.numpy",
    "jax.numpy.linalg",
    "jax.numpy.fft",
    "jax.lax",
    "jax.lax.linalg",
    "jax.nn",
    "jax.nn.initializers",
    "jax.random",
    "jax.scipy.linalg",
    "jax.scipy.special",
    "jax.scipy.stats",
    "jax.scipy.ndimage",
    "jax.scipy.signal",
    "jax.scipy.optimize",
    "jax.scipy.interpolate",
    "jax.scipy.integrate",
    "jax.scipy.fft",
    "jax.scipy.sparse.linalg",
    "jax.scipy.spatial.transform",
    "jax.tree",
    "jax.tree_util",
    "jax.flatten_util",
    "jax.image",
    "jax.ops",
    "jax.debug",
    "jax.ad_checkpoint",
    "jax.custom_batching",
    "jax.custom_derivatives",
    "jax.dlpack",
    "jax.typing",
    "jax.dtypes",
    "jax.test_util",
)
_MARKS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.KEYWORD_ONLY: "=",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


# ---------------------------------------------------------------- the list
def read() -> dict[str, Any]:
    """The public names of the installed JAX, with the parameters of its functions."""
    jax = importlib.import_module("jax")
    return {"version": jax.__version__, "modules": {name: _names(name) for name in MODULES}}


def _names(module: str) -> dict[str, list[str] | None]:
    """The public names of a module, each with its parameters (None if it is no function)."""
    found = importlib.import_module(module)
    names = {}
    for name in sorted(n for n in dir(found) if not n.startswith("_")):
        try:
            names[name] = parameters(getattr(found, name))
        except AttributeError:  # deprecated: the name only raises an error
            continue
    return names


def parameters(value: Any) -> list[str] | None:
    """The parameters of the function `value`, each with a mark of its kind; None for other objects.

    The marks are / for positional only, = for keyword only, and * or ** for any number.

    Example: f(x, /, y, *, z, **k) gives ["x/", "y", "z=", "k**"].
    """
    if isinstance(value, (type, types.ModuleType)) or not callable(value):
        return None
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    return [p.name + _MARKS.get(p.kind, "") for p in signature.parameters.values()]


def stored(root: Path) -> dict[str, Any]:
    """The list from the file."""
    return dict(json.loads((root / "docs" / "jax_names.json").read_text()))


# ---------------------------------------------------------------- the state of each name
def resolved(path: str) -> Any:
    """The object at a path of nabla_mlir, such as "nabla_mlir.numpy.abs"; raises AttributeError if there is none."""
    head, *rest = path.split(".")
    value: Any = importlib.import_module(head)
    for k, name in enumerate(rest):
        try:
            value = getattr(value, name)
        except AttributeError:
            if not isinstance(value, types.ModuleType):
                raise
            try:
                value = importlib.import_module(".".join([head, *rest[: k + 1]]))
            except ModuleNotFoundError:
                raise AttributeError(path) from None
    return value


def here(module: str, name: str) -> tuple[str, str]:
    """The state of a name of JAX: ("present", ""), ("elsewhere", path) or ("left out", reason); "?" if it is not listed."""
    path = f"{module}.{name}"
    if path in ELSEWHERE:
        return "elsewhere", ELSEWHERE[path]
    try:
        resolved(f"nabla_mlir.{path}")
    except AttributeError:
        return ("left out", reason) if (reason := _reason(module, name)) else ("?", "")
    return "present", ""


def _reason(module: str, name: str) -> str:
    """The reason why a name of JAX is left out; "" if none is listed."""
    for suffix, why in SUFFIX.items():
        if name.endswith(suffix):
            return why
    return next((why for why, names in LEFT_OUT.items() if name in names.get(module, "").split()), "")


# ---------------------------------------------------------------- parameters
def misfits(path: str, theirs: list[str], function: Any) -> list[str]:
    """The names of the parameters of a JAX function that ours does not accept, or accepts in another order.

    `path` is its name in JAX, `theirs` are JAX's parameters with the marks of `parameters`, and `function` is ours.
    """
    if theirs[:1] == ["args*"]:  # a ufunc of JAX, whose signature does not name its operands; `where` is left out
        return []
    parameters_of_ours = inspect.signature(function).parameters
    kinds = inspect.Parameter
    takes_any = any(p.kind == kinds.VAR_KEYWORD for p in parameters_of_ours.values())
    by_position = [p for p in parameters_of_ours.values() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    takes_many = any(p.kind == kinds.VAR_POSITIONAL for p in parameters_of_ours.values())
    absent = {*PARAMETERS["*"].split(), *PARAMETERS.get(path, "").split()}
    wrong, position = [], 0
    for mark in theirs:
        name, kind = mark.rstrip("/=*"), mark[len(mark.rstrip("/=*")) :]
        if name in absent or kind in ("*", "**"):
            continue
        if kind == "=":
            fits = takes_any or (name in parameters_of_ours and parameters_of_ours[name].kind != kinds.POSITIONAL_ONLY)
        elif kind == "/":
            fits = takes_many or position < len(by_position)
            position += 1
        else:
            names = [p.name for p in by_position]
            fits = takes_many or (
                name in names and names.index(name) >= position and parameters_of_ours[name].kind == kinds.POSITIONAL_OR_KEYWORD
            )
            position = names.index(name) + 1 if name in names else position
        wrong += [] if fits else [name]
    return wrong


# ---------------------------------------------------------------- the page
def page(root: Path) -> str:
    """The text of docs/jax_names.md: for each module of JAX, its names that are present, under another name, or left out."""
    names_of_jax = stored(root)
    rows, totals = [], {"present": 0, "elsewhere": 0, "left out": 0}
    sections = []
    for module, names in names_of_jax["modules"].items():
        states = {name: here(module, name) for name in names}
        counts = {state: [n for n, (s, _) in states.items() if s == state] for state in totals}
        for state, members in counts.items():
            totals[state] += len(members)
        rows.append(f"| [`{module}`](#{module.replace('.', '')}) | {' | '.join(str(len(m)) for m in counts.values())} |")
        sections += ["", f"## {module}", ""]
        if counts["present"]:
            sections += [_wrapped("Present: " + ", ".join(f"`{n}`" for n in counts["present"]) + "."), ""]
        sections += [f"- `{n}` is {states[n][1]}" for n in counts["elsewhere"]]
        reasons: dict[str, list[str]] = {}
        for n in counts["left out"]:
            reasons.setdefault(states[n][1], []).append(n)
        sections += [
            _wrapped(f"- Left out, {why}: " + ", ".join(f"`{n}`" for n in members) + ".", "  ") for why, members in reasons.items()
        ]
    head = _HEAD.format(version=names_of_jax["version"], **{k.replace(" ", "_"): v for k, v in totals.items()})
    table_head = ["| module | present | under another name | left out |", "|---|---|---|---|"]
    return "\n".join([head, *table_head, *rows, *sections]).rstrip() + "\n"


_HEAD = """# Names of JAX

<!-- Written by python -m nabla_mlir.tools.jax_names; do not edit. -->

This page lists, for users of JAX, which names of JAX {version} exist here. To port a program, write
`import nabla_mlir.jax as jax`, `import nabla_mlir.jax.numpy as jnp` and so on. Each path `jax.x` that is *present* is
`nabla_mlir.jax.x` here, with the same meaning. It accepts the parameters of JAX, under the same names and in the same order.

Of the public names in these modules, {present} are present, {elsewhere} exist under another name, and {left_out} are
left out.

A known index out of range is an error here, as in NumPy. JAX clamps it in `x[10]` and drops it in `x.at[10].set(v)`, and so
does this mirror in the functions that its `jit`, `grad` and `vmap` trace, and everywhere after `install()`. To clamp, write
`jnp.take(x, 10, mode="clip")`.

Parameters that are not accepted: those of sharding, of accuracy and of memory (`out`, `out_sharding`, `precision` unless
stated otherwise, `accuracy`, ...), and those listed in `nabla_mlir/tools/jax_left_out.py`.
"""


def _wrapped(text: str, indent: str = "") -> str:
    """The text in lines of at most 127 characters; further lines are indented."""
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > 126:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line.strip() else line + word
    return "\n".join([*lines, line])


def main() -> None:
    """Writes the page docs/jax_names.md; with --read, also the list of names before."""
    root = Path(__file__).resolve().parents[2]
    if "--read" in sys.argv[1:]:
        (root / "docs" / "jax_names.json").write_text(json.dumps(read(), separators=(",", ":")).replace("},", "},\n") + "\n")
    (root / "docs" / "jax_names.md").write_text(page(root))


if __name__ == "__main__":
    main()
