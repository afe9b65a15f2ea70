"""Weights in files of safetensors: pytrees of arrays, named by the path of their keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import DeployError, ShapeError, TreeError, user_frame, writing
from nabla_mlir.base.exchange import readable
from nabla_mlir.base.files import write_files
from nabla_mlir.staging.specs import as_spec


def save(tree: Any, path: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Writes the arrays of a pytree, each under the path of its keys: ``layers.0.kernel``.

    Args:
      tree: a pytree of arrays.
      path: of the file.
      metadata: additional texts.

    Raises:
      DeployError: safetensors is not installed.
      TreeError: two arrays have the same name, because a key has dots; or the tree is a bare array, which has no name.
      SaveError: the file cannot be written.

    Example:
      >>> import nabla_mlir as nm  # doctest: +SKIP
      >>> nm.interop.safetensors.save({"w": [x, y]}, "weights.safetensors")  # doctest: +SKIP
      >>> nm.interop.safetensors.load("weights.safetensors", like={"w": [x, y]})  # doctest: +SKIP
    """
    _package()
    leaves, spec = pytree.flatten(tree)
    # The writer copies memory without strides, so a transposed array would be wrong in the file.
    arrays = [np.array(np.asarray(readable(leaf)), order="C") for leaf in leaves]
    content = dict(zip(_names(spec), arrays, strict=True))
    with writing(path):
        write_files({path: lambda destination: _write(destination, content, dict(metadata or {}))})


def _write(path: Path, content: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Writes the arrays `content` by name to the file; an error of safetensors, for example a full disk, becomes an OSError.

    `metadata` are texts by name, which the file stores too.
    """
    from safetensors import SafetensorError

    try:
        _package().save_file(content, path, metadata=metadata)
    except SafetensorError as error:  # for example, the disk is full
        raise OSError(str(error)) from None


def load(path: str | os.PathLike[str], like: Any = None) -> Any:
    """The arrays of a file of safetensors.

    Args:
      path: of the file.
      like: a pytree of arrays or specs with the names of the file; without it, the result is a dict by names.

    Raises:
      DeployError: safetensors is not installed.
      TreeError: the file has other names.
      ShapeError: an array has another shape. (Dtypes are those of the file.)
    """
    arrays = _package().load_file(path)
    if like is None:
        return arrays
    leaves, spec = pytree.flatten(like)
    names = _names(spec)
    if set(names) != set(arrays):
        raise TreeError(
            f"load requires a file with the names of like, got one without {sorted(set(names) - set(arrays))} and with "
            f"{sorted(set(arrays) - set(names))}.",
            where=user_frame(),
        )
    for name, leaf in zip(names, leaves, strict=True):
        shape = as_spec(readable(leaf)).shape
        if arrays[name].shape != shape:
            raise ShapeError(f"load requires {name} of shape {shape}, got {arrays[name].shape}.", where=user_frame())
    return pytree.unflatten(spec, [arrays[name] for name in names])


def _names(spec: pytree.TreeSpec) -> list[str]:
    """The name of each leaf of a pytree: the keys of its path, joined by dots; raises TreeError if two leaves have the same name.

    `spec` is the structure of the pytree.
    """
    names = pytree.names(spec)
    if len(set(names)) < len(names) or "" in names:
        twice = sorted({name for name in names if names.count(name) > 1 or not name})
        raise TreeError(
            f"a file of safetensors requires a name for each array, got {twice}.",
            where=user_frame(),
            help="a dict around a bare array, and keys without dots.",
        )
    return names


def _package() -> ModuleType:
    """The module `safetensors.numpy`; raises DeployError if it is not installed."""
    try:
        import safetensors.numpy
    except ImportError:
        raise DeployError(
            "weights in files require safetensors, got an environment without it.",
            where=user_frame(),
            help="pip install 'nabla-mlir[safetensors]'",
        ) from None
    return safetensors.numpy
