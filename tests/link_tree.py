"""Builds build/typecheck/nabla_mlir, a tree of links in which the three folders stand as one package.

Type checkers do not run import hooks, so they need it; `PYTHONPATH=build/typecheck` also runs a second checkout
without installing it.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def link_tree(root: Path = ROOT) -> Path:
    """Makes the links anew and returns the folder that belongs on the path."""
    package = root / "build" / "typecheck" / "nabla_mlir"
    package.mkdir(parents=True, exist_ok=True)
    for link in package.iterdir():
        if link.is_symlink():
            link.unlink()
    sources = [p for p in (root / "nabla_mlir").iterdir() if p.name != "__pycache__"]
    for source in [*sources, root / "dialects", root / "passes"]:
        (package / source.name).symlink_to(source)
    return package.parent


if __name__ == "__main__":
    print(link_tree())
