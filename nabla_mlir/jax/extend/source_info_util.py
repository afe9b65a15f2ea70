"""Names of parts of a program, under the names of `jax.extend.source_info_util`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nabla_mlir.base import errors


def register_exclusion(path: str) -> None:
    """Counts a file as part of the library: errors then show the line that called it, as the user's line.

    Args:
      path: the path of the file, or the beginning of the paths of a package.
    """
    errors.exclude(path)


@contextlib.contextmanager
def transform_name_stack(name: str) -> Iterator[None]:
    """A context that names a transform in JAX's profiles. It changes nothing, because the IR names the transforms."""
    yield
