"""Makes the pages of the site that are not written by hand: the gallery, by running its programs, and the reference."""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import error_pages

import nabla_mlir as nm
from nabla_mlir.base import errors
from nabla_mlir.tools.arguments import parser

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
OUT = DOCS / "generated"
# Pages that lie beside the code, and their names on the site.
COPIES = {
    "passes/README.md": "passes",
    "dialects/README.md": "dialects",
    "nabla_mlir/ops/README.md": "operations",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
}
_RUN = """
import matplotlib, runpy, sys
matplotlib.use("Agg")
import matplotlib.pyplot as plt
plt.rcParams.update({"figure.figsize": (7, 4), "figure.dpi": 110, "axes.spines.top": False, "axes.spines.right": False})
runpy.run_path(sys.argv[1], run_name="__main__")
plt.savefig(sys.argv[2], bbox_inches="tight")
"""


def write_all() -> None:
    """Writes every page below `generated`."""
    OUT.mkdir(exist_ok=True)
    write_gallery()
    for source, name in COPIES.items():
        (OUT / f"{name}.md").write_text(copied(ROOT / source))
    for name, text in reference().items():
        (OUT / f"{name}.md").write_text(text)


# ---------------------------------------------------------------- the gallery


def write_gallery() -> None:
    """Runs the programs, two at a time; one that fails stops the build."""
    programs = sorted((DOCS / "gallery").glob("*.py"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(run_program, programs))
    cards = []
    for program, output in zip(programs, outputs, strict=True):
        text = program.read_text()
        _, doc, code = text.split('"""', 2)
        title, _, words = doc.strip().partition("\n")
        (OUT / f"gallery_{program.stem}.md").write_text(
            f"# {title}\n\n{words.strip()}\n\n![{title}]({program.stem}.png)\n\nIt prints:\n\n```text\n{output}```\n\n"
            f"The program, which ran when the site was built:\n\n```python\n{code.strip()}\n```\n"
        )
        cards.append(
            f":::{{grid-item-card}} {title}\n:link: gallery_{program.stem}\n:link-type: doc\n:img-top: {program.stem}.png\n:::\n"
        )
    toctree = "\n".join(f"gallery_{program.stem}" for program in programs)
    (OUT / "gallery.md").write_text(
        "# Gallery\n\nEach program solves a real problem, checks the result, and draws it. All run when the site is built.\n\n"
        f"::::{{grid}} 1 2 3 3\n:gutter: 3\n\n{''.join(cards)}::::\n\n```{{toctree}}\n:hidden:\n\n{toctree}\n```\n"
    )


def run_program(program: Path) -> str:
    """What a program prints; its picture lies beside the page.

    Raises:
      RuntimeError: the program fails.
    """
    command = [sys.executable, "-c", _RUN, str(program), str(OUT / f"{program.stem}.png")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{program.name} failed:\n{done.stderr}")
    return done.stdout


# ---------------------------------------------------------------- pages that lie elsewhere


def copied(source: Path) -> str:
    """A page beside the code, with its links led to the site; what is not on it stays as text."""

    def link(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if target.startswith("http"):
            return match[0]
        if not target:
            return match[0] if re.search(rf"^#+ {re.escape((anchor or '#')[1:])}$", text, re.M) else words
        path = (source.parent / target).resolve()
        if path.suffix == ".md" and path.is_relative_to(DOCS):
            return f"[{words}](../{path.relative_to(DOCS).as_posix()}{anchor})"
        name = COPIES.get(path.relative_to(ROOT).as_posix()) if path.is_relative_to(ROOT) else None
        return f"[{words}]({name}.md{anchor})" if name else words

    text = source.read_text()
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


# ---------------------------------------------------------------- the reference


def reference() -> dict[str, str]:
    """The pages of names, errors, commands and environment variables."""
    groups: dict[str, list[str]] = {}
    for name, home in nm._HOMES.items():
        groups.setdefault(_group(home), []).append(name)
    parts = ["# Names of `nm`\n\nThis page lists every public name of `import nabla_mlir as nm`, with its docstring.\n"]
    for title, names in sorted(groups.items()):
        if title:
            parts += [f"## {title}\n", *(entry(f"nm.{name}", getattr(nm, name), 3) for name in sorted(names))]
    pages = {"api": "\n".join(parts)}
    for module in ("numpy", "nn", "random", "sparse", "interop.scipy", "jax.lax"):
        pages[f"api_{module.replace('.', '_')}"] = module_page(module)
    own = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.NablaError)]
    words = (
        "This page lists all messages of errors, for those who got one. A message says what an operation requires and what it got, "
        "then shows your line, then says what to do. The messages are sorted by class, with dots for names and values. Search the "
        "page (Ctrl-F) for words of your message."
    )
    found = error_pages.messages()
    pages["errors"] = f"# Errors\n\n{words}\n\n" + "".join(
        entry(f"nm.errors.{cls.__name__}", cls) + error_pages.table(found.get(cls.__name__, [])) for cls in own
    )
    pages["commands"] = commands_page()
    return pages


def _group(home: str) -> str:
    """The heading for names that a module defines; empty for modules themselves."""
    titles = {
        "transforms": "Transforms",
        "staging": "Stages and calls",
        "prepared": "Prepared products and sums over data",
        "interop": "Other systems and solvers",
        "jax": "Machine and settings",
        "targets": "Targets",
        "numpy": "Segments",
        "runtime": "Running artifacts",
        "explorer": "The explorer",
    }
    return "" if home == "nabla_mlir" else titles.get(home.split(".")[1], "Others")


def module_page(name: str) -> str:
    """All public functions of a module."""
    module = importlib.import_module(f"nabla_mlir.{name}")
    public = {n: getattr(module, n) for n in sorted(dir(module)) if not n.startswith("_") and callable(getattr(module, n))}
    public = {n: f for n, f in public.items() if getattr(f, "__module__", "").startswith("nabla_mlir")}
    title = (inspect.getdoc(module) or name).split("\n")[0].rstrip(".")
    return f"# nm.{name}\n\n{prose(title)}.\n\n" + "".join(entry(f"nm.{name}.{n}", f) for n, f in public.items())


def entry(name: str, value: Any, level: int = 2) -> str:
    """A name with its signature and its documentation."""
    doc = inspect.getdoc(value) or ""
    try:
        parameters = [
            str(p).split(":")[0].split("=")[0].strip() + (" = ..." if p.default is not p.empty else "")
            for p in inspect.signature(value).parameters.values()
        ]
        signature = f"{name}({', '.join(parameters)})" if callable(value) else name
    except (TypeError, ValueError):
        signature = name
    return f"{'#' * level} {name}\n\n```text\n{signature}\n```\n\n{documentation(doc)}\n"


def documentation(doc: str) -> str:
    """A docstring as Markdown: sections as lists, examples as code."""
    parts = []
    for block in re.split(r"\n\n(?=\S)|\n(?=(?:Args|Returns|Raises|Attributes|Example|Yields):\n)", doc):
        head, _, rest = block.partition("\n")
        if head in ("Example:", "Examples:"):
            parts.append(f"```python\n{inspect.cleandoc(rest)}\n```")
        elif head in ("Args:", "Returns:", "Raises:", "Attributes:", "Yields:"):
            items = re.split(r"\n(?=\S)", inspect.cleandoc(rest))
            parts.append(f"**{head[:-1]}**\n\n" + "\n".join(f"- {prose(' '.join(item.split()))}" for item in items))
        elif re.search(r"^( {2,}|[=+]{3,}|- )", block, re.M):
            parts.append(f"```text\n{block.rstrip()}\n```")
        else:
            parts.append(prose(block))
    return "\n\n".join(parts) + "\n"


def prose(text: str) -> str:
    """Words of a docstring as Markdown: code as code, and nothing else as markup."""
    pieces = re.split(r"(``.+?``|`[^`]+`)", text, flags=re.S)
    return "".join(
        f"`{piece.strip('`')}`" if i % 2 else re.sub(r"([\\*_<>\[\]$#|])", r"\\\1", piece) for i, piece in enumerate(pieces)
    )


def commands_page() -> str:
    """The help of each command."""
    os.environ["COLUMNS"] = "110"
    whole = parser()
    parts = [f"# Commands\n\nThis page shows the help of each command.\n\n## nabla-mlir\n\n```text\n{whole.format_help()}```\n"]
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                parts.append(f"## nabla-mlir {name}\n\n```text\n{command.format_help()}```\n")
    done = subprocess.run([sys.executable, "-m", "nabla_mlir.tools.opt", "--help"], capture_output=True, text=True, check=True)
    parts.append(f"## nabla-opt\n\n```text\n{done.stdout}```\n")
    return "\n".join(parts)
