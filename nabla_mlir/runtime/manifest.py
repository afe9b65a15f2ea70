"""The manifest: a readable JSON file with the functions of an artifact, and its requirements.

{"schema": 1, "iree": "3.13...", "code": [{"file": "hvp.vmfb", "target": {...}, "sha256": "..."}], "entry_points": [...]}

`SCHEMA_FILE`, a JSON schema that is installed with the package, describes its form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import DeployError, NablaError
from nabla_mlir.runtime.json_text import dumps
from nabla_mlir.runtime.reference import Reference
from nabla_mlir.runtime.threads import checked
from nabla_mlir.runtime.treespec import TreeSpec
from nabla_mlir.targets import TARGETS, drivers_of

SCHEMA = 1
SCHEMA_FILE = Path(__file__).with_name("manifest.schema.json")
IREE_RANGE = ("3.13", "3.14")  # versions of runtimes that run code of this release; the last one is excluded
SAVE_ANEW = "save the artifact again, or copy all of its files again."


@dataclass(frozen=True)
class Leaf:
    """One array of an argument or result: its path such as `params['w1']`, its shape and the name of its dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The number of bytes of an array with this dtype and shape."""
        bits = int("".join(c for c in self.dtype.partition("_")[0] if c.isdigit()) or 8)
        size = 1
        for extent in self.shape:
            size *= extent
        return size * bits // 8

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Argument:
    """An argument of an entry point: its name, its structure and its arrays, in the order of the leaves.

    An output is memory of the caller into which the results are written.
    """

    name: str
    tree: TreeSpec
    leaves: tuple[Leaf, ...]
    output: bool = False


@dataclass(frozen=True)
class Estimate:
    """A rough forecast of one call on a CPU: µs that threads can share, µs that they cannot, and dispatches.

    A call is bounded if no loop has a length that depends on values.
    """

    shared: float = 0.0
    serial: float = 0.0
    dispatches: int = 0
    is_bounded: bool = True

    def gain(self, cores: int) -> float:
        """The µs by which a pool of threads is faster than one thread; negative if it is slower."""
        return self.shared * (1 - 1 / cores) - thresholds.POOL_CALL - thresholds.POOL_DISPATCH * self.dispatches


@dataclass(frozen=True)
class Memory:
    """The bytes of a call: of its arguments, of its results, and of its allocations at once, which include the results.

    A device that reuses freed memory in the next call may hold somewhat more.
    """

    arguments: int
    results: int
    allocated: int

    @property
    def peak(self) -> int:
        """The bytes that are live at the same time."""
        return self.arguments + self.allocated

    @property
    def transients(self) -> int:
        """The bytes that are allocated in addition to the results."""
        return max(self.allocated - self.results, 0)


@dataclass(frozen=True)
class Check:
    """The state of the numbers of an entry point: compiled code was compared with the reference interpreter, or why it was not.

    Args:
      status: "checked", "differs" or "not checked".
      detail: on which arguments it was checked, what differs, or why it was not checked.
      ratio: the largest difference from the interpreter over what rounding explains; at most 1 where it is right.
      strategy: the name of the strategy by which the module was compiled.
      result: the number of the result that differs; -1 if none does.
      draw: the name of the random arguments on which it differs; "" for those of a call.
    """

    status: str
    detail: str = ""
    ratio: float = 0.0
    strategy: str = ""
    result: int = -1
    draw: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.detail}" if self.detail else self.status


@dataclass(frozen=True)
class Sparsity:
    """The positions of the entries of a sparse matrix that a function returns, in the order in which it returns them.

    Args:
      format: csr, csc, coo or lower.
      shape: the shape of the matrix.
      indices: arrays by name: starts and indices of csr and csc, rows and columns of coo and lower; column_colors and
        row_colors, the product of each column and row (-1 for none), if there are any; and positions, the index of each entry in
        the concatenated products, if entries are read and not substituted.
    """

    format: str
    shape: tuple[int, int]
    indices: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class EntryPoint:
    """A function that the artifact offers.

    Args:
      name: the name for the user.
      arguments: the arguments in the order of the call; the module accepts their leaves one after the other.
      result: the structure of the result.
      result_leaves: the arrays of that structure.
      doc: documentation for the user.
      function: the name of the exported function, if it is not `name`.
      estimate: the estimated time of a call, for the choice of a driver.
      sparsity: the positions of the entries, if it returns a sparse matrix.
      reference: the values that the interpreter computed; None in artifacts of older releases.
    """

    name: str
    arguments: tuple[Argument, ...]
    result: TreeSpec
    result_leaves: tuple[Leaf, ...]
    doc: str = ""
    function: str = ""
    estimate: Estimate = Estimate()
    sparsity: Sparsity | None = None
    reference: Reference | None = None

    def __str__(self) -> str:
        """The signature as text, such as ``f(x: float32[2]) -> float32[]``."""
        parts = []
        for argument in self.arguments:
            paths = argument.tree.paths(argument.name)
            one = len(paths) == 1 and paths[0] == argument.name
            parts.append(f"{argument.name}: {argument.leaves[0] if one else _in_words(argument.tree, argument.leaves)}")
        results = str(self.result_leaves[0]) if self.result.kind == "leaf" else _in_words(self.result, self.result_leaves)
        return f"{self.name}({', '.join(parts)}) -> {results}"


def _in_words(tree: TreeSpec, leaves: Sequence[Leaf]) -> str:
    """The structure of arrays as text, or for a large one only its kind and number: ``dict of 30 arrays``."""
    text = str(tree)
    return text if len(text) <= 100 else f"{tree.kind} of {len(leaves)} arrays"


@dataclass(frozen=True)
class Code:
    """The code for one target.

    Args:
      target: the JSON of its target.
      driver: the driver that runs it best; "" lets the runtime choose by the estimates.
      file: the name of its .vmfb; `save_artifact` sets it, and the next field.
      sha256: the SHA-256 of that file.
      trials: the trials of tuning before this code was chosen: form, driver, seconds, and the reason of a rejection.
      memory: the memory of a call of each entry point, if the program states it.
      checks: what is known of the numbers of each entry point; nothing in artifacts of older releases.
    """

    target: dict[str, Any]
    driver: str = ""
    file: str = ""
    sha256: str = ""
    trials: tuple[dict[str, Any], ...] = ()
    memory: Mapping[str, Memory] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The name of the target."""
        return str(self.target.get("name"))

    @property
    def threads(self) -> int:
        """The number of threads: the stated number, or the number of cores that the process may use."""
        return checked(self.target.get("threads"))

    @property
    def label(self) -> str:
        """A short name of the target, which distinguishes it from others of its kind.

        Example:
          >>> Code({"name": "cuda", "arch": "sm_80"}).label
          'cuda-sm_80'
        """
        parts = [self.kind, *(TARGETS[self.kind].label(self.target) if self.kind in TARGETS else ())]
        return re.sub(r"[^a-z0-9_]+", "-", "-".join(filter(None, parts)).lower()).strip("-")

    def is_for(self, asked: str) -> bool:
        """True if it has the name of a target, such as cuda, or the label, that a user requests."""
        return asked in (self.kind, self.label)


@dataclass(frozen=True)
class Manifest:
    """The description of an artifact.

    Args:
      entry_points: its functions.
      code: the code for each target, in the order of preference.
      iree: the version of the compiler.
      nabla_mlir: the version of this package that wrote it.
      stablehlo: the SHA-256 of the .mlirbc; "" if there is none.
      iree_range: the versions of the runtime that can run it; the second is excluded.
      state: True if its functions may share a state, so that they must run in one context.
      state_bytes: the bytes of the state; None if they are not known, as in artifacts of older releases.
      schema: the version of this file's form.
    """

    entry_points: tuple[EntryPoint, ...]
    code: tuple[Code, ...]
    iree: str = ""
    nabla_mlir: str = ""
    stablehlo: str = ""
    iree_range: tuple[str, str] = IREE_RANGE
    state: bool = True
    state_bytes: int | None = None
    schema: int = field(default=SCHEMA)

    def best_driver(self, code: Code) -> str:
        """The driver for some code: the one it states; else for a CPU the thread pool, if the longest entry point gains by it.

        Asynchronous calls need the pool.
        """
        if code.driver:
            return code.driver
        if len(drivers := drivers_of(code.kind)) == 1:
            return drivers[0]
        if code.target.get("asynchronous"):
            return "local-task"
        longest = max((e.estimate for e in self.entry_points), key=lambda e: e.shared + e.serial, default=Estimate())
        return _driver_for(longest, code.threads)

    def driver_of(self, code: Code, entry: EntryPoint) -> str:
        """The driver for one entry point. On a CPU, each has its own if they share no state."""
        shared = self.state or code.driver or len(drivers_of(code.kind)) == 1 or code.target.get("asynchronous")
        return self.best_driver(code) if shared else _driver_for(entry.estimate, code.threads)

    def to_json(self) -> str:
        """The manifest as the text of its JSON file."""
        entries = [
            {
                "name": e.name,
                "function": e.function or e.name,
                "doc": e.doc,
                "arguments": [_argument_json(a) for a in e.arguments],
                "result": {"tree": e.result.to_json(), "leaves": [_leaf_json(leaf) for leaf in e.result_leaves]},
                "estimate": _estimate_json(e.estimate),
                **({} if e.sparsity is None else {"sparsity": asdict(e.sparsity)}),
                **({} if e.reference is None else {"reference": e.reference.to_json()}),
            }
            for e in self.entry_points
        ]
        head = {"schema": self.schema, "nabla_mlir": self.nabla_mlir, "iree": self.iree}
        head |= {"iree_range": list(self.iree_range), "stablehlo": self.stablehlo, "state": self.state}
        head |= {} if self.state_bytes is None else {"state_bytes": self.state_bytes}
        return dumps(head | {"code": [asdict(c) for c in self.code], "entry_points": entries}) + "\n"

    @staticmethod
    def from_json(text: str, where: str = "the manifest") -> Manifest:
        """The manifest in the text of a JSON file, which errors call `where`."""
        try:
            data = json.loads(text)
            schema = data["schema"]
        except (ValueError, TypeError, KeyError) as error:
            raise DeployError(f"{where} requires the JSON of a manifest, got another text: {error!r}.", help=SAVE_ANEW) from None
        if not isinstance(schema, int) or schema > SCHEMA:
            raise DeployError(
                f"{where} requires schema {SCHEMA} or older, got {schema}.",
                help=f"upgrade nabla_mlir (it was written by {data.get('nabla_mlir') or 'a newer release'}).",
            )
        try:
            return Manifest(
                entry_points=tuple(map(_entry_point, data["entry_points"])),
                code=tuple(map(_code, data["code"])),
                iree=data["iree"],
                nabla_mlir=data["nabla_mlir"],
                stablehlo=data["stablehlo"],
                iree_range=_range(data["iree_range"]),
                state=data.get("state", True),
                state_bytes=data.get("state_bytes"),
                schema=schema,
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, NablaError) as error:
            message = f"{where} requires the fields of schema {SCHEMA}, got {type(error).__name__}: {error}."
            raise DeployError(message, help=SAVE_ANEW) from None


def _driver_for(estimate: Estimate, threads: int) -> str:
    """The driver of a CPU that runs a call faster: "local-task", a pool of threads, or "local-sync", the calling thread."""
    return "local-task" if estimate.gain(threads) > 0 else "local-sync"


def _argument_json(argument: Argument) -> dict[str, Any]:  # the object of the JSON; "output" only if it is true
    data = {"name": argument.name, "tree": argument.tree.to_json(), "leaves": list(map(_leaf_json, argument.leaves))}
    return data | ({"output": True} if argument.output else {})


def _argument(data: dict[str, Any]) -> Argument:
    """The argument of an entry point, from its object in the JSON of a manifest."""
    tree, leaves = TreeSpec.from_json(data["tree"]), tuple(map(_leaf, data["leaves"]))
    return Argument(data["name"], tree, leaves, data.get("output", False))


def _estimate_json(estimate: Estimate) -> dict[str, Any]:
    """The estimate as an object of the JSON."""
    data = asdict(estimate)
    if estimate.is_bounded:  # older releases did not state it; all their loops were bounded
        del data["is_bounded"]
    return data


def _leaf_json(leaf: Leaf) -> dict[str, Any]:
    return {"name": leaf.name, "shape": list(leaf.shape), "dtype": leaf.dtype}


def _leaf(data: dict[str, Any]) -> Leaf:
    return Leaf(data["name"], tuple(data["shape"]), data["dtype"])


def _range(versions: Sequence[str]) -> tuple[str, str]:
    """The first version of the runtime that fits, and the first that does not; raises ValueError unless both are versions."""
    first, last = versions
    if not all(re.match(r"\d+\.\d+", version) for version in (first, last)):
        raise ValueError(f"'iree_range' as two versions, not {first!r} and {last!r}")
    return first, last


def _code(data: dict[str, Any]) -> Code:
    """The code of one target, from its object in the JSON of a manifest; raises TypeError for a wrong form."""
    if not isinstance(data["file"], str) or not isinstance(data["target"], dict):
        raise TypeError("'code' as the name of a file and a target")
    memory = {name: Memory(**sizes) for name, sizes in data.get("memory", {}).items()}
    checks = {name: Check(**fields) for name, fields in data.get("checks", {}).items()}
    return Code(**data | {"memory": memory, "checks": checks})


def _entry_point(data: dict[str, Any]) -> EntryPoint:
    """The entry point from its object in the JSON of a manifest."""
    arguments = tuple(map(_argument, data["arguments"]))
    result = data["result"]
    leaves = tuple(map(_leaf, result["leaves"]))
    return EntryPoint(
        data["name"],
        arguments,
        TreeSpec.from_json(result["tree"]),
        leaves,
        data["doc"],
        data["function"],
        Estimate(**data["estimate"]),
        _sparsity(data["sparsity"]) if "sparsity" in data else None,
        Reference.from_json(data["reference"]) if "reference" in data else None,
    )


def _sparsity(data: dict[str, Any]) -> Sparsity:  # the sparsity from its object in the JSON
    rows, columns = data["shape"]
    return Sparsity(data["format"], (rows, columns), {name: tuple(positions) for name, positions in data["indices"].items()})
