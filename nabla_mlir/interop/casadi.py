"""Functions of nabla_mlir as external functions of CasADi: C symbols that `casadi.external` loads, with sparse derivatives.

CasADi loads from a shared library the function NAME and its derivatives by their names: the Jacobian, the products with one forward
and one backward seed, and the Jacobian of the backward product, from which it computes Hessians of Lagrangians. Matrices are stored
by columns.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DeployError, DtypeError, ShapeError, user_frame, writing
from nabla_mlir.base.files import write_files
from nabla_mlir.prepared.sparse_modules import form_of
from nabla_mlir.sparse import Pattern, cheapest, color, hessian, hessian_pattern, jacobian, jacobian_pattern
from nabla_mlir.sparse.matrix import read
from nabla_mlir.staging.specs import Spec, as_spec, spec
from nabla_mlir.staging.stages import module, trace
from nabla_mlir.staging.static_library import save_static_library
from nabla_mlir.transforms import grad, jvp, vjp

Shape = tuple[int, int]


@dataclass(frozen=True)
class Output:
    """A matrix that a symbol returns: its shape, and its pattern (None if it is dense). One without entries is not computed."""

    name: str
    shape: Shape
    pattern: Pattern | None = None

    @property
    def is_empty(self) -> bool:
        """True if all entries are zero."""
        return self.pattern is not None and not self.pattern.nnz


@dataclass(frozen=True)
class Symbol:
    """A function of CasADi.

    Attributes:
      inputs: the names and shapes of the arguments from CasADi.
      read: the indices of the inputs that are arguments of `function`, as vectors.
      outputs: the matrices that CasADi requires.
      function: returns the entries of the outputs that have entries.
    """

    name: str
    inputs: Sequence[tuple[str, Shape]]
    read: Sequence[int]
    outputs: Sequence[Output]
    function: Callable[..., Any]


def save_external(f: Callable[..., Any], *specs: Any, path: str | Path, target: Any = "cpu") -> Path:
    """Writes the machine code and the C code of an external function of CasADi, and returns the path of the C file.

    NAME.o, NAME.c and NAME.h are a static library as in `nm.save_static_library`. NAME_casadi.c has the symbols NAME, jac_NAME,
    fwd1_NAME, adj1_NAME and jac_adj1_NAME. `cc -shared -fPIC NAME.c NAME_casadi.c NAME.o -lm -o NAME.so` makes the library that
    `casadi.external("NAME", "NAME.so")` loads, and to which code that CasADi generates links. acados' `external_function_casadi`
    uses the symbols of a library that was compiled with `-Dcasadi_int=int`.

    Args:
      f: a function of arrays with at most two axes, which returns one or several such arrays.
      specs: the specs of its arguments, of float64; a shape means a spec.
      path: the path of the files; its last part is NAME.
      target: a `CPU`, also of another machine.

    Raises:
      DtypeError: an argument or a result is not float64.
      ShapeError: one has more than two axes.

    Example:
      >>> import nabla_mlir as nm, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = save_external(lambda x: (x ** 2).sum(), nm.spec(3, "f64"), path=folder + "/energy")
      ...     "int jac_energy(const double **arg" in path.read_text(), path.name
      (True, 'energy_casadi.c')
    """
    path = Path(path)
    name = re.sub(r"\W", "_", path.name)
    symbols = _symbols(name, f, [as_spec(s) if hasattr(s, "dtype") else spec(s, "f64") for s in specs])
    stages = {s.name: trace(s.function, *(spec(_size(s.inputs[i][1]), "f64") for i in s.read)) for s in symbols if _has_entries(s)}
    header = save_static_library(module(**stages).lower(), path.with_name(name), target)
    text = path.with_name(f"{name}_casadi.c")
    lines = [_HEAD.replace("HEADER", header.name), *(_source(name, s) for s in symbols)]
    with writing(text):
        write_files({text: "\n".join(lines).encode()})
    return text


def external(f: Callable[..., Any], *specs: Any, name: str = "f", folder: str | Path | None = None) -> Any:
    """A `casadi.Function` of a function of nabla_mlir, compiled for this CPU, for NLPs, integrators and graphs.

    nabla_mlir computes its derivatives. The Jacobian and the Hessians of Lagrangians are sparse if f is. Only one thread at a time
    may call it.

    Args:
      f, specs: as in `save_external`.
      name: the name of the function in CasADi.
      folder: the folder of the library and its sources; None means a new temporary folder.

    Raises:
      DeployError: CasADi or a C compiler is not installed, or the latter fails.

    Example:
      >>> F = nm.interop.casadi.external(lambda x: x[1:] - x[:-1] ** 2, nm.spec(5, "f64"))  # doctest: +SKIP
      >>> x = casadi.MX.sym("x", 5)  # doctest: +SKIP
      >>> solver = casadi.nlpsol("s", "ipopt", {"x": x, "f": casadi.sumsqr(F(x)) + casadi.sumsqr(1 - x)})  # doctest: +SKIP
    """
    try:
        import casadi
    except ImportError:
        raise DeployError("an external function requires casadi, got none.", help='pip install "nabla-mlir[casadi]"') from None
    cc = shutil.which(os.environ.get("CC", "cc"))
    if cc is None:
        raise DeployError("an external function requires a C compiler, got none.", help="install gcc or clang, or set CC.")
    directory = Path(tempfile.mkdtemp(prefix="nabla_mlir_casadi_")) if folder is None else Path(folder)
    source = save_external(f, *specs, path=directory / name)
    library = directory / f"{name}.so"
    stems = [directory / f"{name}.c", source, directory / f"{name}.o"]
    run = subprocess.run([cc, "-O2", "-shared", "-fPIC", *stems, "-lm", "-o", library], capture_output=True, text=True)
    if run.returncode:
        raise DeployError(f"an external function requires a library, got an error of {cc}: {run.stderr.strip()[-400:]}")
    return casadi.external(name, str(library))


# ---------------------------------------------------------------- the functions of the symbols


def _symbols(name: str, f: Callable[..., Any], specs: Sequence[Spec]) -> list[Symbol]:
    """The symbols that CasADi looks for: the function `f` and its derivatives, with the name `name` in their own names.

    Their arguments are vectors with the columns of matrices, and `specs` are those of `f`. Raises DtypeError for other dtypes than
    float64, and ShapeError for more than two axes.
    """
    outs = trace(f, *specs).entries[0].outputs
    for s in (*specs, *outs):
        if s.dtype != np.float64:
            raise DtypeError(f"an external function requires float64, got {s}.", where=user_frame(), help="CasADi has no other.")
        if len(s.shape) > 2:
            raise ShapeError(f"an external function requires arrays with at most two axes, got {s}.", where=user_frame())
    m, k = len(specs), len(outs)
    inputs = [(n, _shape(s)) for n, s in zip(_names(f, m), specs, strict=True)]
    results = [(f"o{i}", _shape(s)) for i, s in enumerate(outs)]

    def flat(*vectors: Any) -> list[Any]:
        """The results of f as vectors, from its arguments as vectors."""
        leaves = pytree.flatten(f(*(_matrix(v, s) for v, s in zip(vectors, specs, strict=True))))[0]
        return [_vector(leaf, s) for leaf, s in zip(leaves, outs, strict=True)]

    def forward(*vectors: Any) -> Any:
        """The products of the Jacobians with one forward seed, from the arguments and the seeds."""
        return jvp(lambda *xs: flat(*xs), vectors[:m], vectors[m:])[1]

    def backward(*vectors: Any) -> Any:
        """The products of one backward seed with the Jacobians, from the arguments and the seeds."""
        return list(vjp(lambda *xs: flat(*xs), *vectors[:m])[1](list(vectors[m:])))

    def weighed(*vectors: Any) -> Any:
        """The sum of the results, each multiplied by its weights u: the scalar of which CasADi needs the Hessian."""
        return sum((y * u).sum() for y, u in zip(flat(*vectors[:m]), vectors[m:], strict=True))

    xs = [spec(_size(shape), "f64") for _, shape in inputs]
    us = [spec(_size(shape), "f64") for _, shape in results]
    blocks = [_block(f"jac_{o}_{i}", lambda *v, o=o: flat(*v)[o], xs, i) for o in range(k) for i in range(m)]
    second = []  # the blocks of the Jacobian of the backward products: by the arguments, by the results, by the seeds
    for i in range(m):
        slope = grad(weighed, argnums=i)
        second += [_block(f"jac_adj_{i}_{j}", slope if i != j else weighed, [*xs, *us], j, is_hessian=i == j) for j in range(m)]
        second += [(_zero_output(f"jac_adj_{i}_o{o}", _size(inputs[i][1]), _size(results[o][1])), None) for o in range(k)]
        second += [_block(f"jac_adj_{i}_u{o}", slope, [*xs, *us], m + o) for o in range(k)]
    seeds = [(f"fwd_{n}", shape) for n, shape in inputs], [(f"adj_{n}", shape) for n, shape in results]
    values = [(f"out_{n}", shape) for n, shape in results]
    # The inputs that are read: the arguments, and the forward or the backward seeds; results are inputs that nothing reads.
    ends = [*range(m), *range(m + k, m + k + m)], [*range(m), *range(m + k, m + k + k)]
    sensitivities = [Output(f"adj_{n}", shape) for n, shape in inputs]
    known = [*inputs, *values, *seeds[1], *((f"out_{s.name}", s.shape) for s in sensitivities)]
    return [
        Symbol(name, inputs, range(m), [Output(*r) for r in results], flat),
        Symbol(f"jac_{name}", [*inputs, *values], range(m), *_join_blocks(blocks)),
        Symbol(f"fwd1_{name}", [*inputs, *values, *seeds[0]], ends[0], [Output(f"fwd_{n}", s) for n, s in results], forward),
        Symbol(f"adj1_{name}", [*inputs, *values, *seeds[1]], ends[1], sensitivities, backward),
        Symbol(f"jac_adj1_{name}", known, ends[1], *_join_blocks(second)),
    ]


Block = tuple[Output, Callable[..., Any] | None]


def _block(name: str, g: Callable[..., Any], specs: Sequence[Spec], i: int, is_hessian: bool = False) -> Block:
    """One block of the Jacobian: its output, and a function that computes its entries by columns, or None if it has no entries.

    Args:
      name: the name of the output for CasADi.
      g: a function of vectors.
      specs: the specs of its arguments.
      i: the index of the argument by which g is differentiated.
      is_hessian: True for the Hessian of a scalar g by this argument.
    """
    find = hessian_pattern if is_hessian else jacobian_pattern
    pattern = find(g, *specs, argnums=i)
    output = Output(name, pattern.shape, pattern)
    if not pattern.nnz:
        return output, None
    order = form_of(pattern, "csc").order
    coloring = color(pattern, "star") if is_hessian else cheapest(pattern)
    matrix = (hessian if is_hessian else jacobian)(g, argnums=i, coloring=coloring)
    return output, lambda *vectors: read(matrix(*vectors).data, order)


def _zero_output(name: str, rows: int, columns: int) -> Output:
    """An output without entries, which CasADi knows to be zero."""
    return Output(name, (rows, columns), Pattern.of(np.zeros((rows, columns), bool)))


def _join_blocks(blocks: Sequence[Block]) -> tuple[list[Output], Callable[..., Any]]:
    """The outputs of several blocks, and one function that computes the entries of all blocks that have some."""
    functions = [function for _, function in blocks if function is not None]
    return [output for output, _ in blocks], lambda *vectors: [function(*vectors) for function in functions]


def _names(f: Callable[..., Any], count: int) -> list[str]:
    """The names of the arguments of f if its signature has them all, and i0, i1, ... otherwise."""
    names = list(inspect.signature(f).parameters)[:count]
    return names if len(names) == count and not any(n.startswith("_") for n in names) else [f"i{i}" for i in range(count)]


def _shape(s: Spec) -> Shape:
    """The shape of an array as a matrix of CasADi, in which vectors are columns. `s` is the shape and dtype of the array."""
    rows, columns = (*s.shape, 1, 1)[:2]
    return rows, columns


def _size(shape: Shape) -> int:
    return shape[0] * shape[1]


def _matrix(vector: Any, s: Spec) -> Any:
    return vector.reshape(s.shape[::-1]).T if len(s.shape) == 2 else vector.reshape(s.shape)


def _vector(array: Any, s: Spec) -> Any:
    return (array.T if len(s.shape) == 2 else array).reshape(-1)


# ---------------------------------------------------------------- C


def _has_entries(symbol: Symbol) -> bool:
    return any(not output.is_empty for output in symbol.outputs)


def _source(library: str, symbol: Symbol) -> str:
    """The C code of a symbol, which calls the function of the static library."""
    name, n, k = symbol.name, len(symbol.inputs), len(symbol.outputs)
    patterns = {f"{name}_in_{i}": _dense_pattern_numbers(shape) for i, (_, shape) in enumerate(symbol.inputs)}
    patterns |= {f"{name}_out_{i}": _pattern_numbers(output) for i, output in enumerate(symbol.outputs)}
    lines = [f"static const casadi_int {table}[] = {{{', '.join(map(str, numbers))}}};" for table, numbers in patterns.items()]
    zeros = max((_size(symbol.inputs[i][1]) for i in symbol.read), default=1)
    arguments = [f"arg[{i}] ? arg[{i}] : zeros" for i in symbol.read]
    arguments += [f"res[{i}]" for i, output in enumerate(symbol.outputs) if not output.is_empty]
    call = f"{library}_{name}({', '.join(arguments)})" if _has_entries(symbol) else "0"
    names = [", ".join(f'"{x}"' for x in xs) for xs in ([i[0] for i in symbol.inputs], [o.name for o in symbol.outputs])]
    parts = {
        "NAME": name,
        "ZEROS": str(zeros),
        "CALL": call,
        "COUNT_IN": str(n),
        "COUNT_OUT": str(k),
        "NAMES_IN": names[0],
        "NAMES_OUT": names[1],
        "TABLES_IN": ", ".join(list(patterns)[:n]),
        "TABLES_OUT": ", ".join(list(patterns)[n:]),
    }
    return "\n".join(lines) + re.sub(r"\b(" + "|".join(parts) + r")\b|NAME(?=_)", lambda match: parts.get(match[0], name), _SYMBOL)


def _dense_pattern_numbers(shape: Shape) -> list[int]:
    """The pattern of a dense matrix in CasADi's format."""
    return [*shape, 1]


def _pattern_numbers(output: Output) -> list[int]:
    """The pattern of an output in CasADi's format: rows, columns, and the indices by columns, or 1 for a dense matrix."""
    if output.pattern is None:
        return _dense_pattern_numbers(output.shape)
    starts, rows = form_of(output.pattern, "csc").positions
    return [*output.shape, *starts.tolist(), *rows.tolist()]


_HEAD = """/* What CasADi calls; made by nabla_mlir. */
#include "HEADER"

#ifndef casadi_int  /* as in CasADi's own code: acados defines it as int */
#define casadi_int long long int
#endif
"""

_SYMBOL = """
casadi_int NAME_n_in(void) { return COUNT_IN; }
casadi_int NAME_n_out(void) { return COUNT_OUT; }
const char *NAME_name_in(casadi_int i) {
  static const char *const names[] = {NAMES_IN};
  return i >= 0 && i < COUNT_IN ? names[i] : 0;
}
const char *NAME_name_out(casadi_int i) {
  static const char *const names[] = {NAMES_OUT};
  return i >= 0 && i < COUNT_OUT ? names[i] : 0;
}
const casadi_int *NAME_sparsity_in(casadi_int i) {
  static const casadi_int *const tables[] = {TABLES_IN};
  return i >= 0 && i < COUNT_IN ? tables[i] : 0;
}
const casadi_int *NAME_sparsity_out(casadi_int i) {
  static const casadi_int *const tables[] = {TABLES_OUT};
  return i >= 0 && i < COUNT_OUT ? tables[i] : 0;
}
int NAME_work(casadi_int *sz_arg, casadi_int *sz_res, casadi_int *sz_iw, casadi_int *sz_w) {
  if (sz_arg) *sz_arg = COUNT_IN;
  if (sz_res) *sz_res = COUNT_OUT;
  if (sz_iw) *sz_iw = 0;
  if (sz_w) *sz_w = 0;
  return 0;
}
int NAME(const double **arg, double **res, casadi_int *iw, double *w, int mem) {
  static const double zeros[ZEROS];
  (void)arg; (void)res; (void)iw; (void)w; (void)mem; (void)zeros;
  return CALL;
}
"""
