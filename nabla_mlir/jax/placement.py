"""Functions of JAX that say where a program runs, for the one device that there is: `jit` with shardings, `pmap`, `shard_map`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import ShapeError, TraceError, check_function, user_frame
from nabla_mlir.jax.sharding import AbstractMesh, check_shardings, get_mesh
from nabla_mlir.numpy.shapes import squeeze
from nabla_mlir.staging import jit as staging
from nabla_mlir.staging.positions import bind_static
from nabla_mlir.table.narrowing import narrowing
from nabla_mlir.transforms.vectorize import vmap


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    memory_limit: int | None = None,
) -> Any:
    """A function that is compiled once for each structure, shape and dtype of its arguments: `nm.jit` with JAX's parameters.

    Args:
      fun: a function of pytrees of arrays. Without it, the result is a decorator.
      in_shardings, out_shardings: trees of shardings of the arguments and of the results; with one device they change nothing.
      static_argnums, static_argnames: arguments that are part of the code.
      donate_argnums, donate_argnames: arguments whose memory the call may use for its results.
      keep_unused, inline: accepted for programs of JAX, see `nm.jit`.
      device: a device or None; functions are computed where their arguments are.
      backend: "cpu" or None.
      compiler_options: must be empty, since they are those of JAX's compiler.
      memory_limit: the bytes that a call may allocate, see `nm.jit`.

    Raises:
      TargetError: something else than a sharding is given.
      TraceError: `compiler_options` are given, or another backend.

    Example:
      >>> float(jit(lambda x: x + 1.0, out_shardings=None)(2.0))
      3.0
    """
    if compiler_options or backend not in (None, "cpu"):
        raise TraceError(
            f"jit requires the backend 'cpu' and no compiler_options, got {backend!r} and {compiler_options!r}.",
            where=user_frame(),
            help="nm.trace(f, x).lower().compile(target, flags=...) compiles for other machines, with flags of IREE.",
        )
    for shardings in (in_shardings, out_shardings, device):
        check_shardings("jit", shardings)
    make = functools.partial(
        staging.jit,
        within=narrowing,
        static_argnums=() if static_argnums is None else static_argnums,
        static_argnames=() if static_argnames is None else static_argnames,
        donate_argnums=() if donate_argnums is None else donate_argnums,
        donate_argnames=() if donate_argnames is None else donate_argnames,
        keep_unused=keep_unused,
        inline=inline,
        memory_limit=memory_limit,
    )
    return make if fun is None else make(fun)


def pmap(
    fun: Callable[..., Any],
    axis_name: str | None = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Any = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Callable[..., Any]:
    """Maps a function over the devices. There is one device, so each mapped axis has length 1.

    Args:
      fun: a function of arrays; collectives find the axis by its name.
      axis_name: the name of the axis.
      in_axes, out_axes: the mapped axes, as in `vmap`.
      static_broadcasted_argnums: positions of arguments that are part of the code.
      devices: the device, in a list.
      backend: "cpu" or None.
      axis_size: 1, or None.
      donate_argnums: accepted for programs of JAX; no memory is donated.

    Raises:
      ShapeError: a mapped axis is longer than 1.

    Example:
      >>> import numpy as np
      >>> pmap(lambda x: 2 * x)(np.ones((1, 3))).tolist()
      [[2.0, 2.0, 2.0]]
    """
    check_function("pmap", fun)

    @functools.wraps(fun)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        """Checks that the mapped axes have length 1, and maps the function over them."""
        split = functools.partial(bind_static, "pmap", argnums=static_broadcasted_argnums, word="static_broadcasted_argnums")
        call, rest = split(fun, args)
        axes = tuple(split(fun, in_axes)[1]) if isinstance(in_axes, (tuple, list)) else in_axes
        leaves, spec = pytree.flatten((tuple(rest), kwargs))
        inner = [_only_entry(x, axis) for x, axis in zip(leaves, _axes_of(rest, axes, kwargs), strict=True)]

        def of_entry(*xs: Any) -> Any:  # a function of leaves, because a map has an axis for all arguments by name
            args_of_entry, by_name = pytree.unflatten(spec, xs)
            return call(*args_of_entry, **by_name)

        return vmap(of_entry, None, out_axes, axis_name=axis_name, axis_size=1)(*inner)

    return staging.jit(mapped, static_argnums=static_broadcasted_argnums, within=narrowing)


def _axes_of(args: Sequence[Any], in_axes: Any, kwargs: dict[str, Any]) -> list[int | None]:
    """The mapped axis of each leaf of the arguments; those by name are mapped along their first axes."""
    spec = pytree.flatten(tuple(args))[1]
    return [*pytree.broadcast_prefix(in_axes, spec, "in_axes"), *[0] * len(pytree.flatten(kwargs)[0])]


def _only_entry(leaf: Any, axis: int | None) -> Any:
    """The entry of a leaf along its mapped axis; raises ShapeError unless there is one, because there is one device."""
    if axis is None:
        return leaf
    shape = getattr(leaf, "shape", ())
    if -len(shape) <= axis < len(shape) and shape[axis] != 1:
        raise ShapeError(
            f"pmap requires an entry for each device, of which there is 1, got an axis of length {shape[axis]}.",
            where=user_frame(),
            help="jax.vmap maps over all entries on one device.",
        )
    return squeeze(leaf, axis)


def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = None,
    mesh: AbstractMesh | None = None,
    axis_names: Any = None,
    check_vma: bool = True,
) -> Any:
    """The function with the axes of a mesh as named axes for its collectives. A mesh has one device, so each shard is the
    whole array.

    Args:
      f: a function of shards. Without it, the result is a decorator.
      out_specs, in_specs: trees of `PartitionSpec` for results and arguments.
      mesh: the mesh; the default is that of `get_mesh`.
      axis_names: the axes that collectives may name; the default is all.
      check_vma: accepted for programs of JAX; nothing differs between devices.

    Raises:
      TraceError: there is no mesh.

    Example:
      >>> import nabla_mlir as nm, numpy as np
      >>> one = nm.jax.make_mesh((1,), ("x",))
      >>> shard_map(lambda x: nm.jax.lax.psum(x, "x"), mesh=one, in_specs=None, out_specs=None)(np.ones(2)).tolist()
      [1.0, 1.0]
    """
    if f is None:
        return lambda fun: shard_map(
            fun, out_specs=out_specs, in_specs=in_specs, mesh=mesh, axis_names=axis_names, check_vma=check_vma
        )
    check_function("shard_map", f)
    around = get_mesh() if mesh is None else mesh
    if around.empty:
        raise TraceError("shard_map requires a mesh, got none.", where=user_frame(), help="pass mesh=jax.make_mesh((1,), ('x',)).")

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        """Calls `f` within all named axes."""
        call = f
        for name in around.axis_names if axis_names is None else axis_names:
            call = _with_axis(call, name)
        return call(*args)

    return mapped


def _with_axis(f: Callable[..., Any], name: Any) -> Callable[..., Any]:
    """The function `f` called within an axis `name` of length 1, so that its collectives find the name."""

    def call(*args: Any) -> Any:
        leaves, spec = pytree.flatten(vmap(f, None, 0, axis_name=name, axis_size=1)(*args))
        return pytree.unflatten(spec, [squeeze(leaf, 0) for leaf in leaves])

    return call
