"""Public names that are imported when they are first used."""

from __future__ import annotations

import contextlib
import importlib
import re
import types
from pathlib import Path
from typing import Any


def public_names(file: str) -> dict[str, str]:
    """The module that defines each public name of a package, read from the package's file `__init__.pyi`.

    Type checkers read that file, too. It is a list of lines `from nabla_mlir.transforms import grad as grad`.

    Args:
      file: the path of `__init__.py` of the package.

    Example:
      >>> import nabla_mlir
      >>> public_names(nabla_mlir.__file__)["grad"]
      'nabla_mlir.transforms'
    """
    lines = Path(file).with_suffix(".pyi").read_text()
    return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", lines, re.M)}


def explained(who: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error of a missing package, with advice if an installation of only the runtime lacks this package.

    Args:
      who: the name that needs the package.
      error: the error of the import.
    """
    if error.name == "scipy":
        message = f"{who} requires SciPy, got an environment without it: pip install scipy."
    elif error.name in ("iree.compiler", "optree"):
        message = (
            f"{who} requires the compiler, got an installation of the runtime alone (no {error.name}): "
            "install nabla_mlir from the repository or its wheel, as docs/learn/install.md says."
        )
    else:
        return error
    return ModuleNotFoundError(message, name=error.name)


_PACKAGE = Path(__file__).parents[1]
# Where a name may be that somebody looks for elsewhere, by the file that lists the names of the module.
_MODULES = {
    "nm": "__init__.pyi",
    "nm.numpy": "numpy/__init__.py",
    "nm.numpy.linalg": "numpy/linalg.py",
    "nm.numpy.fft": "numpy/fft.py",
    "nm.nn": "nn/__init__.py",
    "nm.random": "random/__init__.py",
    "nm.sparse": "sparse/__init__.py",
    "nm.interop.scipy": "interop/scipy/__init__.py",
    "nm.jax.scipy.special": "jax/scipy/special.py",
    "nm.jax.scipy.stats": "jax/scipy/stats.py",
    "nm.jax.lax": "jax/lax/__init__.py",
}
# Words of other packages, and what does that here.
_WORDS = {
    ("backward", "derivative", "grad", "gradient", "requires_grad", "autograd"): "nm.grad(f)(x) is the derivative of f at x",
    ("detach", "no_grad"): "nm.stop_gradient(x) has no derivative",
    ("Tensor", "as_tensor", "from_numpy", "tensor"): "nm.numpy.asarray(x) makes an array",
    ("Linear", "Module", "Sequential", "functional", "BatchNorm2d", "batch_norm"): "a layer is a function of nm.nn and nm.numpy "
    "whose weights are arguments",
    ("Embedding", "embedding"): "table[indices] reads rows of a table",
    ("Conv1d", "Conv2d", "conv1d", "conv2d"): "nm.nn.conv(x, kernel) is the convolution, with the kernel as an argument",
    ("Dropout", "dropout"): "nm.random.bernoulli(key, p, x.shape) draws which elements stay",
    ("MaxPool2d", "max_pool2d", "AvgPool2d", "avg_pool2d"): "nm.nn.max_pool and nm.nn.avg_pool are the pooling layers",
    ("optim", "Adam", "AdamW", "SGD", "adam", "sgd"): "nm.jax.install() makes optax work, and nm.minimize calls SciPy",
    ("compile",): "nm.jit(f) compiles at the first call, and nm.trace(f, *specs).lower().compile(target) to a file",
    ("manual_seed", "seed"): "nm.random.key(seed) makes a key, the first argument of the functions of nm.random",
    ("randn",): "nm.random.normal(key, shape) draws normal numbers",
    ("rand",): "nm.random.uniform(key, shape) draws uniform numbers",
    ("mse_loss",): "nm.nn.mse is the loss",
    ("cross_entropy",): "nm.nn.softmax_cross_entropy and softmax_cross_entropy_with_integer_labels are the losses",
    ("cat",): "nm.numpy.concatenate joins arrays",
    ("unsqueeze",): "nm.numpy.expand_dims(x, axis) adds an axis",
    ("bfloat16", "double", "float", "half", "int", "long"): "x.astype(dtype) converts",
    ("cpu", "cuda"): "x.to_device(device) moves an array",
    ("save",): "save_mlir(path) writes the IR of a stage, and stage.lower().compile(target).save(path) an artifact",
    ("toarray", "todense"): "to_dense() is the matrix",
}


def no_attribute(owner: str, name: str, obj: Any) -> AttributeError:
    """The error for the name that `obj` does not have: with advice, or with the similar names of `obj`.

    Args:
      owner: the words for `obj` in the message, such as "module 'nabla_mlir'".
      name: the name.
      obj: the module or the object.
    """
    import difflib  # which programs without a wrong name never need

    message = missing(owner, name)
    if ";" not in message and not name.startswith("_"):
        known = [each for each in dir(obj) if not each.startswith("_")]
        begins = [each for each in known if len(name) > 2 and each.startswith(name)]
        if alike := difflib.get_close_matches(name, known, n=1) or begins[:3]:
            # Without the object, Python does not add a name of its own.
            return AttributeError(f"{message}; did you mean {' or '.join(alike)}?", name=name)
    return AttributeError(message, name=name, obj=obj)


def missing(owner: str, name: str) -> str:
    """The message for a name that a module or an object does not have, with the name that the user may have meant.

    Example:
      >>> missing("module 'nabla_mlir'", "sin")
      "module 'nabla_mlir' has no attribute 'sin'; nm.numpy.sin and nm.jax.lax.sin exist"
      >>> missing("'Array' object", "detach")
      "'Array' object has no attribute 'detach'; nm.stop_gradient(x) has no derivative"
    """
    message = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return message
    for words, advice in _WORDS.items():
        if name in words:
            return f"{message}; {advice}"
    paths = [f"{module}.{name}" for module, file in _MODULES.items() if _lists(_PACKAGE / file, name)]
    for folder in ("", "scipy"):
        path = _PACKAGE / "jax" / folder / name
        if path.is_dir() or path.with_suffix(".py").is_file():
            paths.append(f"nm.jax.{folder and folder + '.'}{name}")
    return f"{message}; {' and '.join(paths[:3])} exist{'s' if len(paths) == 1 else ''}" if paths else message


def _lists(file: Path, name: str) -> bool:
    return file.is_file() and re.search(rf"\bas {name}\b|^(?:def|class) {name}\b|^{name} = ", file.read_text(), re.M) is not None


def imported(package: str, home: str, name: str) -> Any:
    """The value of a public name of a package, which the module `home` defines, or the submodule of `home` with this name."""
    if home != package and hasattr(module := importlib.import_module(home), name):
        return getattr(module, name)
    return importlib.import_module(f"{home}.{name}")


def installed_version() -> str:
    """The version of the installed distribution, which is the whole package or its runtime alone.

    Raises:
      AttributeError: nabla_mlir is not installed, but for example copied.
    """
    from importlib import metadata  # which takes ten milliseconds to import

    for distribution in ("nabla-mlir", "nabla-mlir-runtime"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    raise AttributeError("module 'nabla_mlir' has no attribute '__version__': it is not installed, but imported from a folder.")


def module_named(path: str) -> types.ModuleType:
    """The module of a dotted path, imported now."""
    return importlib.import_module(path)
