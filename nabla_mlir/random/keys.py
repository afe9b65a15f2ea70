"""Arrays of keys: pytrees of two words with the interface of arrays, and checks of keys that users pass."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from nabla_mlir.base import pytree
from nabla_mlir.base.array_methods import AnyArray
from nabla_mlir.base.errors import DtypeError, ShapeError, TraceError, user_frame
from nabla_mlir.base.typing import ArrayLike
from nabla_mlir.numpy.axes import shape_of
from nabla_mlir.numpy.joining import stack
from nabla_mlir.ops.shape import reshaped
from nabla_mlir.runtime.array import Array
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.tensor import Tensor

IMPLEMENTATION = "threefry2x32"
WORD = np.dtype(np.uint32)


class extended(np.generic):  # noqa: N801  # the names of JAX
    """The kind of the dtypes that hold no numbers, for `issubdtype`."""


class prng_key(extended):  # noqa: N801
    """The kind of the dtypes of keys: ``issubdtype(keys.dtype, prng_key)`` is True."""


class KeyDtype:
    """The dtype of arrays of keys. The only one is that of the generator threefry2x32.

    Example:
      >>> KeyDtype()
      key<fry>
    """

    name = "key<fry>"
    type = prng_key
    itemsize = 8

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDtype)

    def __hash__(self) -> int:
        return hash(self.name)


class KeyArray(AnyArray):
    """An array of keys, each of two 32-bit words. `nm.random.key` makes one key; `nm.random.split` splits it into several.

    It is a pytree with the leaves `high` and `low` of the same shape, so that `vmap`, `scan`, `jit` and artifacts accept it like
    an array. It can be indexed and reshaped like an array, but has no arithmetic.

    Args:
      high: the first words, an array of uint32.
      low: the second words, an array of uint32.

    Example:
      >>> import nabla_mlir as nm
      >>> keys = nm.random.split(nm.random.key(0), 3)
      >>> keys.shape, keys[0].shape, keys.dtype
      ((3,), (), key<fry>)
    """

    __slots__ = ("high", "low")
    __array_ufunc__ = None
    high: Any
    low: Any

    def __init__(self, high: Any, low: Any):
        self.high, self.low = high, low

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of keys, without the axis of their words."""
        return tuple(np.shape(self.high))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of keys."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> KeyDtype:
        """The dtype of keys."""
        return KeyDtype()

    @property
    def itemsize(self) -> int:
        """The number of bytes of one key."""
        return KeyDtype.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all keys."""
        return self.size * self.itemsize

    def __repr__(self) -> str:
        """The shape and dtype of the keys, and, outside a trace, their words."""
        text = f"KeyArray({self.shape}, dtype={self.dtype})"
        if isinstance(self.high, Tensor):
            return text
        return f"{text} of the words\n{np.stack([np.asarray(self.high), np.asarray(self.low)], -1)}"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a single key")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration requires keys with an axis, got a single key; nm.random.split makes several of it.")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> KeyArray:
        return self._each(operator.itemgetter(index))

    def __eq__(self, other: Any) -> Any:
        return (self.high == other.high) & (self.low == other.low) if isinstance(other, KeyArray) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return (self.high != other.high) | (self.low != other.low) if isinstance(other, KeyArray) else NotImplemented

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # == compares key by key

    def __bool__(self) -> bool:
        raise TypeError("a truth value requires numbers, got keys.")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raises DtypeError, because keys are no numbers."""
        raise DtypeError(
            f"an array of numbers requires numbers, got keys of shape {self.shape}.",
            where=user_frame(),
            help="nm.random.key_data(keys) has their words, nm.random.wrap_key_data makes keys of those.",
        )

    def reshape(self, *shape: Any) -> KeyArray:
        """The same keys with another shape, which is given as one tuple or as numbers; one length may be -1."""
        return self._each(lambda x: x.reshape(*shape))

    def ravel(self) -> KeyArray:
        """The keys as a vector."""
        return self.reshape(-1)

    flatten = ravel

    def squeeze(self, axis: Any = None) -> KeyArray:
        """Drops all axes of size 1, or only the given axes."""
        return self._each(lambda x: x.squeeze(axis))

    def swapaxes(self, axis1: int, axis2: int) -> KeyArray:
        """Exchanges two axes."""
        return self._each(lambda x: x.swapaxes(axis1, axis2))

    def transpose(self, *axes: Any) -> KeyArray:
        """Permutes the axes; the default order is reversed."""
        return self._each(lambda x: x.transpose(*axes))

    @property
    def T(self) -> KeyArray:  # noqa: N802
        """The axes in reversed order."""
        return self.transpose()

    def take(self, indices: Any, axis: int | None = None) -> KeyArray:
        """The keys at `indices` along `axis`, or of the flattened array."""
        return self._each(lambda x: x.take(indices, axis))

    def copy(self) -> KeyArray:
        """A separate array with the same keys."""
        return self._each(lambda x: x.copy())

    def _each(self, f: Callable[[Any], Any]) -> KeyArray:
        """Applies a function to both words; words on the host use the function of NumPy.

        `f` is a function of an array of words, such as a reshape.
        """
        words = [x.numpy() if type(x) is Array and x.device.is_host else x for x in (self.high, self.low)]
        return KeyArray(*(np.asarray(y) if isinstance(y, np.generic) else y for y in map(f, words)))


pytree.register_node(KeyArray, lambda keys: ((keys.high, keys.low), None, ("high", "low")), lambda _, words: KeyArray(*words))


def check_implementation(name: str, implementation: Any) -> None:
    """Raises TraceError unless the generator is threefry2x32 or None."""
    if implementation is not None and implementation != IMPLEMENTATION and not isinstance(implementation, KeyDtype):
        raise TraceError(f"{name} requires the generator {IMPLEMENTATION!r}, got {implementation!r}.", where=user_frame())


def keys_of(name: str, keys: Any) -> Any:
    """The keys of a user: a `KeyArray`, or an array with the words of keys along its last axis. `name` is the caller, for errors.

    Raises:
      DtypeError: the argument is neither; ShapeError: the last axis does not have two words.
    """
    if isinstance(keys, KeyArray):
        words = (keys.high, keys.low)
        if any(np.shape(x) != keys.shape or getattr(x, "dtype", None) != WORD for x in words):
            raise DtypeError(f"{name} requires keys of two words of uint32, got {words[0]!r} and {words[1]!r}.", where=user_frame())
        return keys
    help = "make a key with nm.random.key(seed)."
    if not pytree.is_array(keys):
        raise DtypeError(f"{name} requires a key, got {keys!r}.", where=user_frame(), help=help)
    if keys.dtype != WORD:
        raise DtypeError(
            f"{name} requires a key, or its words in uint32, got an array of {keys.dtype}.", where=user_frame(), help=help
        )
    if tuple(keys.shape[-1:]) != (2,):
        raise ShapeError(
            f"{name} requires the two words of a key in the last axis, got shape {tuple(keys.shape)}.",
            where=user_frame(),
            help=help,
        )
    return keys


def key_of(name: str, key: Any) -> Any:
    """The argument `key` of the function `name`, after a check that it is a single key: a `KeyArray` or an array of two words.

    Raises ShapeError for several keys, and the errors of `keys_of`.
    """
    shape = keys_of(name, key).shape
    axes_of_words = 0 if isinstance(key, KeyArray) else 1  # an array has its words along the last axis
    if len(shape) > axes_of_words:
        raise ShapeError(
            f"{name} requires a single key, got keys of shape {tuple(shape)}.", where=user_frame(), help="use nm.vmap for several."
        )
    return key


def words_of(keys: Any) -> KeyArray:
    """The keys of a user, a `KeyArray` or an array with two words in its last axis, as tensors of the current trace."""
    if isinstance(keys, KeyArray):
        return KeyArray(as_tensor(keys.high), as_tensor(keys.low))
    x = as_tensor(keys)
    return KeyArray(x[..., 0], x[..., 1])


def in_form_of(source: Any, keys: KeyArray) -> Any:
    """Converts new keys to the form of `source`: a `KeyArray`, or one array of words."""
    return keys if isinstance(source, KeyArray) else words_in(keys)


def words_in(keys: KeyArray) -> Tensor:
    """Converts keys to one array with the words along its last axis."""
    return stack([keys.high, keys.low], -1)


def key_shape(name: str, num: Any) -> tuple[int, ...]:
    """The requested shape of keys, from a number or a shape."""
    return shape_of(name, tuple(num) if isinstance(num, Sequence) else num)


def reshaped_keys(keys: KeyArray, shape: tuple[int, ...]) -> KeyArray:
    """Reshapes keys of tensors."""
    return KeyArray(reshaped(keys.high, shape), reshaped(keys.low, shape))


Key: TypeAlias = KeyArray | ArrayLike  # a key, or its words
