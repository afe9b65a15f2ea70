"""The manifest: a readable JSON file beside a .vmfb that says what the artifact offers and what it needs.

hvp.vmfb    what IREE runs
hvp.json    {"schema": 1, "iree": "3.13...", "target": {...}, "sha256": "...", "entry_points": [...]}
hvp.mlirbc  the StableHLO it was compiled from, if it was saved: for other targets and transforms
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nabla_mlir.errors import DeployError, NablaError
from nabla_mlir.treespec import TreeSpec

SCHEMA = 1
IREE_RANGE = ("3.13", "3.14")  # of runtimes that run what this release compiles: from the first to before the second
# What the thread pool costs, in µs: once in a call, and for each dispatch.
_POOL_CALL, _POOL_DISPATCH = 5.0, 2.5


@dataclass(frozen=True)
class Leaf:
    """One array of an argument or result: its path such as `params['w1']`, its shape and the name of its dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        bits = int("".join(c for c in self.dtype.partition("_")[0] if c.isdigit()) or 8)
        size = 1
        for extent in self.shape:
            size *= extent
        return size * bits // 8

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Argument:
    """An argument of an entry point: its name, its structure and its arrays in the order of the structure's leaves.

    One that is an output is memory of the caller's that the results are written to.
    """

    name: str
    tree: TreeSpec
    leaves: tuple[Leaf, ...]
    output: bool = False


@dataclass(frozen=True)
class Estimate:
    """A rough forecast of one call on a CPU: µs that threads can share, µs that they cannot, and dispatches."""

    shared: float = 0.0
    serial: float = 0.0
    dispatches: int = 0

    def gain(self, cores: int) -> float:
        """The µs by which a pool of threads is faster than one thread; negative if it is slower."""
        return self.shared * (1 - 1 / cores) - _POOL_CALL - _POOL_DISPATCH * self.dispatches


@dataclass(frozen=True)
class EntryPoint:
    """A function that the artifact offers.

    Args:
      name: what the user calls it.
      arguments: in the order of the call; the module takes their leaves one after another.
      result: the structure of what it returns.
      result_leaves: the arrays of that structure.
      doc: a sentence or more for the user.
      function: the name of the exported function, if it is not `name`.
      estimate: how long a call takes, for the choice of a driver.
    """

    name: str
    arguments: tuple[Argument, ...]
    result: TreeSpec
    result_leaves: tuple[Leaf, ...]
    doc: str = ""
    function: str = ""
    estimate: Estimate = Estimate()

    def __str__(self) -> str:
        shown = []
        for argument in self.arguments:
            paths = argument.tree.paths(argument.name)
            one = len(paths) == 1 and paths[0] == argument.name
            shown.append(f"{argument.name}: {argument.leaves[0]}" if one else f"{argument.name}: {argument.tree}")
        results = str(self.result_leaves[0]) if self.result.kind == "leaf" else str(self.result)
        return f"{self.name}({', '.join(shown)}) -> {results}"


@dataclass(frozen=True)
class Manifest:
    """All that is known of an artifact.

    Args:
      entry_points: its functions.
      target: the JSON of the target it was compiled for.
      iree: the version of the compiler.
      nabla_mlir: the version of this package that wrote it.
      driver: the driver that runs it best; "" lets the runtime choose by the estimates.
      sha256: of the .vmfb; `save_artifact` fills it in.
      stablehlo: the SHA-256 of the .mlirbc; "" if there is none.
      iree_range: versions of the runtime that can run it, the second excluded.
      schema: the version of this file's form.
    """

    entry_points: tuple[EntryPoint, ...]
    target: dict[str, Any]
    iree: str = ""
    nabla_mlir: str = ""
    driver: str = ""
    sha256: str = ""
    stablehlo: str = ""
    iree_range: tuple[str, str] = IREE_RANGE
    schema: int = field(default=SCHEMA)

    def best_driver(self) -> str:
        """The driver to run it with: the stated one, or for a CPU the thread pool if the longest entry point gains."""
        if self.driver:
            return self.driver
        if self.target.get("name") != "cpu":
            return str(self.target.get("name"))
        longest = max((e.estimate for e in self.entry_points), key=lambda e: e.shared + e.serial, default=Estimate())
        return "local-task" if longest.gain(os.cpu_count() or 1) > 0 else "local-sync"

    def to_json(self) -> str:
        """The text of the file."""
        entries = [
            {
                "name": e.name,
                "function": e.function or e.name,
                "doc": e.doc,
                "arguments": [_argument_json(a) for a in e.arguments],
                "result": {"tree": e.result.to_json(), "leaves": [_leaf_json(leaf) for leaf in e.result_leaves]},
                "estimate": asdict(e.estimate),
            }
            for e in self.entry_points
        ]
        head = {"schema": self.schema, "nabla_mlir": self.nabla_mlir, "iree": self.iree}
        head |= {"iree_range": list(self.iree_range), "target": self.target, "driver": self.driver}
        return _dumps(head | {"sha256": self.sha256, "stablehlo": self.stablehlo, "entry_points": entries}) + "\n"

    @staticmethod
    def from_json(text: str, where: str = "the manifest") -> Manifest:
        """The manifest of a file's text.

        Raises:
          DeployError: it is no manifest, or a newer release wrote it.
        """
        try:
            data = json.loads(text)
            schema = data["schema"]
        except (ValueError, TypeError, KeyError):
            raise DeployError(
                f"{where} requires the JSON of a manifest, got something else.", help=_SAVE_AGAIN
            ) from None
        if schema > SCHEMA:
            raise DeployError(
                f"{where} requires schema {SCHEMA} or older, got {schema}.",
                help=f"upgrade nabla_mlir (it was written by {data.get('nabla_mlir') or 'a newer release'}).",
            )
        try:
            return Manifest(
                entry_points=tuple(map(_entry_point, data["entry_points"])),
                target=data["target"],
                iree=data["iree"],
                nabla_mlir=data["nabla_mlir"],
                driver=data["driver"],
                sha256=data["sha256"],
                stablehlo=data["stablehlo"],
                iree_range=(data["iree_range"][0], data["iree_range"][1]),
                schema=schema,
            )
        except (KeyError, TypeError, IndexError, NablaError) as error:
            message = f"{where} requires the fields of schema {SCHEMA}, got {type(error).__name__}: {error}."
            raise DeployError(message, help=_SAVE_AGAIN) from None


_SAVE_AGAIN = "save the artifact again, or copy both of its files again."


def artifact_paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The .vmfb and the .json of an artifact, whichever of the two or their common stem is named."""
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".vmfb", ".json") else path
    return stem.with_name(stem.name + ".vmfb"), stem.with_name(stem.name + ".json")


def save_artifact(
    path: str | os.PathLike[str], vmfb: bytes, manifest: Manifest, stablehlo: bytes = b""
) -> tuple[Path, Path]:
    """Writes NAME.vmfb and NAME.json; returns their paths. The checksums in the manifest are filled in.

    `stablehlo`, if given, is the bytecode of the module it was compiled from, and becomes NAME.mlirbc. Each file appears
    whole or not at all; a mixture of two artifacts fails the checksum when it is loaded.
    """
    code, text = artifact_paths(path)
    code.parent.mkdir(parents=True, exist_ok=True)
    manifest = replace(manifest, sha256=_sha256(vmfb), stablehlo=_sha256(stablehlo) if stablehlo else "")
    files = {code: vmfb, text: manifest.to_json().encode()}
    if stablehlo:
        files[code.with_suffix(".mlirbc")] = stablehlo
    for file, data in files.items():
        temporary = file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    return code, text


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_stablehlo(path: str | os.PathLike[str], manifest: Manifest) -> bytes:
    """The StableHLO of a saved artifact as bytecode.

    Raises:
      DeployError: it was not saved, or is missing or damaged.
    """
    file = artifact_paths(path)[0].with_suffix(".mlirbc")
    if not manifest.stablehlo:
        raise DeployError(f"lower requires the StableHLO of an artifact, got {file.stem}, which was saved without.")
    if not file.exists():
        raise DeployError(f"lower requires the StableHLO beside the artifact, got no {file}.", help=_SAVE_AGAIN)
    data = file.read_bytes()
    if _sha256(data) != manifest.stablehlo:
        raise DeployError(f"{file} requires the content that its manifest names, got another SHA-256.", help=_SAVE_AGAIN)
    return data


def read_artifact(path: str | os.PathLike[str]) -> tuple[bytes, Manifest]:
    """The code and the manifest of a saved artifact, checked against each other.

    Raises:
      DeployError: a file is missing or damaged, or they do not belong together.
    """
    code, text = artifact_paths(path)
    if not code.exists():
        raise DeployError(f"load requires an artifact, got {code}, which does not exist.", help="check the path.")
    if not text.exists():
        raise DeployError(
            f"load requires the manifest beside the artifact, got {code} without {text.name}.",
            help=f"copy {text.name} too, or use Executable.load for a module without a manifest.",
        )
    try:
        manifest = Manifest.from_json(text.read_text(), str(text))
    except UnicodeDecodeError:
        raise DeployError(f"{text} requires the JSON of a manifest, got binary data.", help=_SAVE_AGAIN) from None
    vmfb = code.read_bytes()
    if _sha256(vmfb) != manifest.sha256:
        raise DeployError(
            f"{code} requires the content that its manifest names, got another SHA-256 ({len(vmfb)} bytes).",
            help=f"the file is damaged or belongs to another manifest: {_SAVE_AGAIN}",
        )
    return vmfb, manifest


def _argument_json(argument: Argument) -> dict[str, Any]:
    data = {"name": argument.name, "tree": argument.tree.to_json(), "leaves": list(map(_leaf_json, argument.leaves))}
    return data | ({"output": True} if argument.output else {})


def _argument(data: dict[str, Any]) -> Argument:
    tree, leaves = TreeSpec.from_json(data["tree"]), tuple(map(_leaf, data["leaves"]))
    return Argument(data["name"], tree, leaves, data.get("output", False))


def _leaf_json(leaf: Leaf) -> dict[str, Any]:
    return {"name": leaf.name, "shape": list(leaf.shape), "dtype": leaf.dtype}


def _leaf(data: dict[str, Any]) -> Leaf:
    return Leaf(data["name"], tuple(data["shape"]), data["dtype"])


def _entry_point(data: dict[str, Any]) -> EntryPoint:
    arguments = tuple(map(_argument, data["arguments"]))
    result = data["result"]
    leaves = tuple(map(_leaf, result["leaves"]))
    return EntryPoint(
        data["name"], arguments, TreeSpec.from_json(result["tree"]), leaves, data["doc"], data["function"],
        Estimate(**data["estimate"]),
    )  # fmt: skip


def _dumps(value: Any, indent: str = "", key: str = "") -> str:
    """JSON with one line for what fits into one, so that people can read it."""
    line = json.dumps(value)
    if len(indent) + len(key) + len(line) <= 99 or not isinstance(value, (dict, list)):
        return line
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {_dumps(item, inner, json.dumps(key) + ': ')}" for key, item in value.items()]
    else:
        items = [_dumps(item, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(inner + item for item in items) + f"\n{indent}{closing}"
