"""Makes keys from seeds and from other keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from nabla_mlir.base.errors import DtypeError, ShapeError, user_frame
from nabla_mlir.base.pytree import is_array
from nabla_mlir.numpy.operands import convert
from nabla_mlir.ops import logic as lg
from nabla_mlir.random.generator import fold, split_keys
from nabla_mlir.random.keys import (
    IMPLEMENTATION,
    WORD,
    Key,
    KeyArray,
    KeyDtype,
    check_implementation,
    in_form_of,
    key_of,
    key_shape,
    keys_of,
    words_in,
    words_of,
)
from nabla_mlir.staging.eager import Static, library
from nabla_mlir.table.promotion import Defaults, as_tensor
from nabla_mlir.table.tensor import full_like

_BITS = 32  # the bits of a word


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Makes the key of a seed. Equal seeds give equal keys, and the same numbers as in JAX.

    Args:
      seed: an integer. A Python integer has the default integer dtype; if that has 32 bits, only the low 32 bits are used.
      impl: the generator; only "threefry2x32" exists.
      dtype: the generator, given as the dtype of its keys.

    Raises:
      DtypeError: the seed is not an integer; ShapeError: the seed is an array of several.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.random.key_data(key(7)).tolist()
      [0, 7]
    """
    check_implementation("key", impl)
    check_implementation("key", dtype)
    return _key("key", seed)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:  # noqa: N802
    """The key of a seed as an array of two words of uint32, which all functions accept, too; see `key`.

    Raises:
      DtypeError: the seed is no integer; ShapeError: it is an array of several.

    Example:
      >>> PRNGKey(7).tolist()
      [0, 7]
    """
    check_implementation("PRNGKey", impl)
    return key_data(_key("PRNGKey", seed))


def _key(name: str, seed: Any) -> KeyArray:
    """The key of a seed: a Python integer, whose words are known, or an array with one integer."""
    if isinstance(seed, int):
        if not -(2**63) <= seed < 2**63:
            raise DtypeError(f"{name} requires a seed of at most 64 bits, got {seed}.", where=user_frame())
        high = seed >> _BITS if Defaults.int.itemsize > 4 else 0
        return KeyArray(*(np.array(x & 0xFFFFFFFF, WORD) for x in (high, seed)))
    _check_integer(name, seed, "an integer as seed", "seed")
    return _words_of_seed(seed)


def _check_integer(name: str, x: Any, what: str, word: str) -> None:
    """Raises an error unless `x` is an array with one integer; `what` and `word` name it in the message."""
    if not is_array(x) or isinstance(x, KeyArray) or x.dtype.kind not in "biu":
        got = f"an array of {x.dtype}" if is_array(x) else repr(x)
        raise DtypeError(f"{name} requires {what}, got {got}.", where=user_frame())
    if x.shape:
        raise ShapeError(
            f"{name} requires a single {word}, got an array of shape {tuple(x.shape)}.",
            where=user_frame(),
            help="use nm.vmap for several.",
        )


@library
def _words_of_seed(seed: Any) -> KeyArray:
    """The key whose words are the high and the low bits of an integer."""
    x = as_tensor(seed)
    low = convert(x, WORD)
    if x.dtype.itemsize < 8 or Defaults.int.itemsize < 8:  # as for a Python integer
        return KeyArray(full_like(low, 0), low)
    return KeyArray(convert(lg.shift_right_logical(x, full_like(x, _BITS)), WORD), low)


def split(key: Key, num: Any = 2) -> Any:
    """Splits a key into new keys; the old key must not be used again.

    Args:
      key: a key.
      num: the number of new keys, or the shape of their array.

    Raises:
      ShapeError: several keys are given; DtypeError: the argument is not a key.

    Example:
      >>> import nabla_mlir as nm
      >>> first, second = split(nm.random.key(0))
      >>> nm.random.key_data(first).tolist()
      [1797259609, 2579123966]
    """
    return _split(key_of("split", key), key_shape("split", num))


@library
def _split(key: Any, shape: Static[Any]) -> Any:
    """New keys of a shape, in the form of the old key."""
    return in_form_of(key, split_keys(words_of(key), shape))


def fold_in(key: Key, data: Any) -> Any:
    """Combines a key and a number, such as a step, to a new key; different numbers give different keys.

    Args:
      key: a key.
      data: an integer of 32 bits.

    Raises:
      DtypeError: the number is not an integer, or negative, or above 2**32 - 1; ShapeError: several numbers or keys are given.

    Example:
      >>> import nabla_mlir as nm
      >>> nm.random.key_data(fold_in(nm.random.key(0), 1)).tolist()
      [928981903, 3453687069]
    """
    key = key_of("fold_in", key)
    if isinstance(data, int):
        if not 0 <= data < 2**_BITS:
            raise DtypeError(f"fold_in requires a number of uint32, got {data}.", where=user_frame())
        data = np.array(data, WORD)
    _check_integer("fold_in", data, "an integer", "number")
    return _fold_in(key, data)


@library
def _fold_in(key: Any, data: Any) -> Any:
    """The combination of a key and a number, in the form of the key."""
    return in_form_of(key, fold(words_of(key), convert(as_tensor(data), WORD)))


def clone(key: Key) -> Any:
    """The key itself, because nabla_mlir does not track the use of keys.

    Raises:
      DtypeError: it is no key.
    """
    return keys_of("clone", key)


def key_data(keys: Any) -> Any:
    """The words of keys as an array of uint32; the last axis has the two words.

    Raises:
      DtypeError: they are no keys.

    Example:
      >>> import nabla_mlir as nm
      >>> key_data(nm.random.split(nm.random.key(0), 3)).shape
      (3, 2)
    """
    return _key_data(keys_of("key_data", keys))


@library
def _key_data(keys: Any) -> Any:
    """The words of keys along the last axis; an array of words is returned unchanged."""
    return words_in(keys) if isinstance(keys, KeyArray) else keys


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    """Makes keys from their words.

    Args:
      key_bits_array: an array of uint32 with the two words along its last axis.
      impl: the generator; there is "threefry2x32".
      dtype: the same, as the dtype of the keys.

    Raises:
      DtypeError, ShapeError: the array does not contain words of keys.

    Example:
      >>> import numpy as np
      >>> wrap_key_data(np.zeros((3, 2), np.uint32)).shape
      (3,)
    """
    check_implementation("wrap_key_data", impl)
    check_implementation("wrap_key_data", dtype)
    return _wrap_key_data(keys_of("wrap_key_data", key_bits_array))


@library
def _wrap_key_data(words: Any) -> KeyArray:
    """The array of keys with these words."""
    return words_of(words)


def key_impl(keys: Any) -> str:
    """The name of the generator of keys.

    Raises:
      DtypeError: they are no keys.
    """
    keys_of("key_impl", keys)
    return IMPLEMENTATION


def key_dtype(impl_spec: Any = None) -> KeyDtype:
    """The dtype of the keys of a generator; only "threefry2x32" exists.

    Raises:
      TraceError: the generator is unknown.

    Example:
      >>> key_dtype()
      key<fry>
    """
    check_implementation("key_dtype", impl_spec)
    return KeyDtype()
