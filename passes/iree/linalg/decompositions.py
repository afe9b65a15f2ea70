"""QR factors, eigenvalues and singular values of stacked real matrices on a CPU, by kernels of nabla_mlir.

The kernels work on rows, which are contiguous in memory. If a decomposition works on columns, they get and return
transposed matrices.
"""

from __future__ import annotations

from nabla_mlir.dialects import builder as b
from nabla_mlir.dialects.builder import Val
from nabla_mlir.passes.iree.kernels.call import call, form_of
from nabla_mlir.passes.iree.kernels.eigh import eigh_text
from nabla_mlir.passes.iree.kernels.qr import q_text, qr_text
from nabla_mlir.passes.iree.kernels.reflections import reflection_step
from nabla_mlir.passes.iree.kernels.svd import svd_text
from nabla_mlir.passes.iree.kernels.text import Form, round_up
from nabla_mlir.passes.iree.linalg.dense import cut


def qr_kernel(a: Val) -> list[Val]:
    """The QR factors of stacked matrices, packed as by LAPACK's geqrf, and the scalar factors tau of the reflections."""
    form = form_of(a)
    batch, m, n = a.shape
    rows = _padded(b.swap(a), form)
    name = f"qr_{batch}x{m}x{n}_{form.element}"
    text, results = qr_text(name, batch, (rows.shape[1], rows.shape[2]), (n, m), form)
    factors, taus, _ = call(name, text, [rows], results)
    return [b.swap(cut(factors, n, m)), taus]


def q_kernel(a: Val, taus: Val) -> Val:
    """The first columns of Q, as many as `a` has, where Q is the product of the reflections in the packed factors `a` and `taus`.

    Both are results of `qr_kernel`.
    """
    form = form_of(a)
    batch, m, n = a.shape
    count = taus.shape[1]
    rows = _padded(b.swap(a), form)
    name = f"q_{batch}x{m}x{n}x{count}_{form.element}"
    text, results = q_text(name, batch, (rows.shape[1], rows.shape[2]), count, form)
    (q, _) = call(name, text, [b.cut(rows, 1, 0, count), taus], results)
    return b.swap(cut(q, n, m))


def eigh_kernel(a: Val) -> tuple[Val, Val]:
    """The eigenvalues of stacked symmetric matrices in ascending order, and their eigenvectors as columns, by a kernel."""
    form = form_of(a)
    batch, n, _ = a.shape
    rows = _padded(a, form)
    name = f"eigh_{batch}x{n}_{form.element}"
    text, results = eigh_text(name, batch, rows.shape[2], n, form)
    values, vectors, *_ = call(name, text, [rows], results)
    return values, b.swap(cut(vectors, n, n))


def svd_kernel(a: Val) -> tuple[Val, Val, Val]:
    """The factors (u, s, v) of stacked square matrices, by a kernel: singular values s in descending order, vectors as columns."""
    form = form_of(a)
    batch, n, _ = a.shape
    rows = _padded(a, form)
    name = f"svd_{batch}x{n}_{form.element}"
    text, results = svd_text(name, batch, rows.shape[2], n, form)
    values, left, right, *_ = call(name, text, [rows], results)
    return b.swap(cut(left, n, n)), values, b.swap(cut(right, n, n))


def _padded(rows: Val, form: Form) -> Val:
    """The stacked matrices with zero rows added up to whole tiles of the `form`, and zero columns up to whole vectors."""
    _, n, m = rows.shape
    size = round_up(n, form.rows if n != m else reflection_step(form)), round_up(m, reflection_step(form))
    return b.pad(rows, [0, 0, 0], [0, size[0] - n, size[1] - m])
