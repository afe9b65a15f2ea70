"""QR factorisations of stacked matrices as kernels: reflections of columns, which are stored as rows."""

from __future__ import annotations

from nabla_mlir.passes.iree.internals.executables import workgroup
from nabla_mlir.passes.iree.kernels.numbers import Number
from nabla_mlir.passes.iree.kernels.reflections import Reflections, reflection_step
from nabla_mlir.passes.iree.kernels.text import Form, Memory, Text


def qr_text(name: str, batch: int, shape: tuple[int, int], true: tuple[int, int], form: Form) -> tuple[str, list[Memory]]:
    """A kernel for the factors of Aᵀ, packed as by LAPACK's geqrf: row j is column j of the packed matrix.

    A tile of rows is reflected by the vectors of all earlier rows (left-looking), then by the vectors of the rows in the tile.

    Args:
      name: the name of the kernel.
      batch: the number of matrices; each has one workgroup.
      shape: the number of rows of Aᵀ, a multiple of `form.rows`, and of columns, a multiple of `reflection_step(form)`.
      true: the number of rows and columns without padding; the padding is zero.
      form: the form of vectors and tiles.

    Returns:
      The text, and the buffers of the results: the factors, tau, and memory that the kernel needs.
    """
    (n, m), t, count = shape, Text(form), min(true)
    a = Memory("%a", (batch, n, m), form.element, read_only=True)
    factors = Memory("%factors", (batch, n, m), form.element)
    taus = Memory("%taus", (batch, count), form.element)
    vectors = Memory("%vectors", (batch, count, m), form.element)
    b = t.result(workgroup())
    reflections = Reflections(t, vectors, b, reflection_step(form))
    with t.loop(0, n, form.rows) as start:
        rows = [t.add(start, i) for i in range(form.rows)]
        with t.loop(0, m, form.lanes) as j:
            for i in rows:
                t.put(t.vector(a, b, i, j), factors, b, i, j)
        # The rows of a tile are reflected by all earlier vectors, then one after another become vectors themselves.
        before = t.of_indices("minsi", start, count)
        with t.loop(0, before) as k:
            reflections.apply(k, k, Number(t, t.load(taus, b, k)), factors, start, form.rows)
        with t.loop(start, t.of_indices("minsi", t.add(start, form.rows), count)) as k:
            tau, beta = reflections.make(k, (factors, k), k)
            t.store(tau.name, taus, b, k)
            with t.loop(t.add(k, 1), t.add(start, form.rows)) as row:
                reflections.apply(k, k, tau, factors, row, 1)
            _pack(t, reflections, factors, k, beta)
    return t.kernel(name, [a, factors, taus, vectors], (batch, 1, 1)), [factors, taus, vectors]


def _pack(t: Text, reflections: Reflections, factors: Memory, k: str, beta: Number) -> None:
    """Writes row k of the packed factors from the diagonal on: `beta`, then reflection vector k without its first entry, 1."""
    b = reflections.group
    # The first vector after the diagonal that begins at a multiple of lanes; the entries before it are copied singly.
    whole = t.multiple(t.add(k, t.form.lanes), t.form.lanes)
    with t.loop(t.add(k, 1), whole) as j:
        t.store(t.load(reflections.vectors, b, k, j), factors, b, k, j)
    with t.loop(whole, factors.shape[2], t.form.lanes) as j:
        t.put(t.vector(reflections.vectors, b, k, j), factors, b, k, j)
    t.store(beta.name, factors, b, k, k)


def q_text(name: str, batch: int, shape: tuple[int, int], count: int, form: Form) -> tuple[str, list[Memory]]:
    """A kernel for Qᵀ, the product of reflections, from packed factors, as LAPACK's orgqr computes it.

    Args:
      name: the name of the kernel.
      batch: the number of matrices; each has one workgroup.
      shape: the number of rows and of columns of Qᵀ, padded as for `qr_text`; the packed factors have `count` rows of as many
        columns, and zeros in the padding.
      count: the number of reflections.
      form: the form of vectors and tiles.

    Returns:
      The text, and the buffers of the results: Qᵀ, and memory that the kernel needs.
    """
    (n, m), t = shape, Text(form)
    packed = Memory("%packed", (batch, count, m), form.element, read_only=True)
    taus = Memory("%taus", (batch, count), form.element, read_only=True)
    q = Memory("%q", (batch, n, m), form.element)
    vectors = Memory("%vectors", (batch, count, m), form.element)
    b = t.result(workgroup())
    reflections = Reflections(t, vectors, b, reflection_step(form))
    with t.loop(0, count) as k:
        with t.loop(0, m, form.lanes) as j:
            t.put(t.vector(packed, b, k, j), vectors, b, k, j)
        # The packed row has R before the diagonal; vector k has zeros there, and 1 on the diagonal.
        with t.loop(t.multiple(k, reflections.step), k) as j:
            t.store(t.number(0), vectors, b, k, j)
        t.store(t.number(1), vectors, b, k, k)
    reflections.multiply_identity(q, count, 0, lambda k: Number(t, t.load(taus, b, k)))
    return t.kernel(name, [packed, taus, q, vectors], (batch, 1, 1)), [q, vectors]
