"""Addresses at which other projects document their names, for intersphinx. They are stored, so that a build needs no network.

A name in code font on a page is a link if it stands here. Addresses are those of each project's generated pages.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

_SPHINX = {  # project: its site, and the page of a name
    "python": ("https://docs.python.org/3/", ""),
    "numpy": ("https://numpy.org/doc/stable/", "reference/generated/{name}.html#{name}"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "reference/generated/{name}.html#{name}"),
    "jax": ("https://docs.jax.dev/en/latest/", "_autosummary/{name}.html#{name}"),
}
_SHORT = {"np.": "numpy.", "jnp.": "jax.numpy."}
_NAMES = {
    "numpy": "asarray einsum from_dlpack frombuffer fromfile fromiter fromstring isclose sum trapezoid",
    "scipy": "integrate.solve_bvp integrate.solve_ivp optimize.Bounds optimize.NonlinearConstraint optimize.SR1 optimize.curve_fit "
    "optimize.least_squares optimize.minimize optimize.root sparse.linalg.LinearOperator sparse.linalg.cg sparse.linalg.eigsh",
    "jax": "checkpoint custom_jvp custom_vjp grad hessian jacfwd jacrev jit jvp lax.custom_linear_solve lax.scan lax.stop_gradient "
    "linearize nn.relu numpy.linalg.solve vjp vmap",
}
_PAGES = {  # names on pages of their own
    "python": {"logging": "library/logging.html#module-logging", "json": "library/json.html#module-json"},
    "scipy": {
        f"scipy.{module}": f"reference/{module}.html#module-scipy.{module}"
        for module in ("fft", "integrate", "linalg", "optimize", "signal", "sparse", "sparse.linalg", "special", "stats")
    },
    "jax": {
        f"jax.{module}": f"jax.{module}.html"
        for module in (
            "lax",
            "nn",
            "nn.initializers",
            "numpy",
            "ops",
            "random",
            "scipy",
            "tree",
            "tree_util",
            "flatten_util",
            "export",
        )
    },
}
PAGE_OF: dict[str, tuple[str, str]] = {  # of each name: the project and the page
    **{
        f"{project}.{name}": (project, _SPHINX[project][1].format(name=f"{project}.{name}"))
        for project, names in _NAMES.items()
        for name in names.split()
    },
    **{name: (project, page) for project, pages in _PAGES.items() for name, page in pages.items()},
}
_CODE_OR_LINK = re.compile(r"\[[^\]]*\]\([^)]*\)|(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")


def write_all(folder: Path) -> dict[str, tuple[str, str]]:
    """Writes the inventories, in Sphinx's form, and returns what `intersphinx_mapping` is."""
    folder.mkdir(exist_ok=True)
    mapping = {}
    for project, (site, _) in _SPHINX.items():
        lines = [f"{name} py:obj 1 {page} -\n" for name, (owner, page) in PAGE_OF.items() if owner == project]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# The remainder is compressed using zlib.\n"
        path = folder / f"{project}.inv"
        path.write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
        mapping[project] = (site, str(path))
    return mapping


def linked(page: str) -> str:
    """A page of Markdown in which names of others are links, but for headings, code, and what is one already."""
    parts = re.split(r"(^ *```.*?^ *```$|^#[^\n]*$)", page, flags=re.M | re.S)
    return "".join(part if i % 2 else _CODE_OR_LINK.sub(_link, part) for i, part in enumerate(parts))


def _link(match: re.Match[str]) -> str:
    name = match[1] or ""
    for short, whole in _SHORT.items():
        name = whole + name.removeprefix(short) if name.startswith(short) else name
    if name not in PAGE_OF:
        return match[0]
    return f"[{match[0]}](inv:{PAGE_OF[name][0]}:py:obj#{name})"
