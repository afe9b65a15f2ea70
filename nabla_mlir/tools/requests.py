"""Parsers for arguments of the command line: specs, transforms, targets and functions."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from nabla_mlir import transforms
from nabla_mlir.base.errors import DtypeError, ImportIRError, NablaError, TargetError
from nabla_mlir.dialects.types import dtype_in_mlir
from nabla_mlir.interop.stablehlo import ImportedFunction, from_stablehlo
from nabla_mlir.prepared.sparse_modules import sparse_hessian_module, sparse_jacobian_module
from nabla_mlir.staging.positions import is_one, positions
from nabla_mlir.staging.specs import spec
from nabla_mlir.staging.stages import Lowered
from nabla_mlir.targets import TARGETS, Target


class RequestError(NablaError, ValueError):
    """An argument of the command is not valid."""


# ---------------------------------------------------------------- specs


def parse_spec(text: str) -> tuple[str, Any]:
    """The name (or "") and the pytree of specs of a text such as ``data=f32[128,4]``, with MLIR's names of dtypes. Raises
    RequestError for other texts.

    Example:
      >>> parse_spec('{"w": f32[3,4], "b": (f64, None)}')[1]["b"]
      (Spec(shape=(), dtype=dtype('float64'), weak=False), None)
    """
    name, body = "", text
    if match := re.match(r"\s*([A-Za-z_]\w*)\s*=(?!=)", text):
        name, body = match[1], text[match.end() :]
    body = re.sub(r"(?<=\w)\[\s*\]", "", body).strip()  # f32[] is f32
    try:
        return name, _spec_of(ast.parse(body, mode="eval").body)
    except DtypeError as error:
        raise RequestError(f"--spec requires a type such as f32[128,4], got {text!r}: {error.message}") from None
    except (SyntaxError, _NotASpecError):
        raise RequestError(
            f"--spec requires a type such as f32[128,4] or a tree of them, got {text!r}.",
            help="""trees are written as in Python: --spec '{"w": f32[3,4], "b": f32[4]}'""",
        ) from None


class _NotASpecError(Exception):
    pass


def _spec_of(node: ast.expr) -> Any:
    """The spec, or the pytree of specs, of a parsed expression such as f32[3]; raises _NotASpecError for others."""
    match node:
        case ast.Name(id=dtype):
            return spec((), dtype_in_mlir(dtype))
        case ast.Subscript(value=ast.Name(id=dtype), slice=ast.Tuple(elts=lengths)):
            return spec([_length(n) for n in lengths], dtype_in_mlir(dtype))
        case ast.Subscript(value=ast.Name(id=dtype), slice=length):
            return spec([_length(length)], dtype_in_mlir(dtype))
        case ast.Dict(keys=keys, values=values) if all(isinstance(k, ast.Constant) for k in keys):
            return {k.value: _spec_of(v) for k, v in zip(keys, values, strict=True)}  # type: ignore[union-attr]
        case ast.Tuple(elts=items):
            return tuple(map(_spec_of, items))
        case ast.List(elts=items):
            return list(map(_spec_of, items))
        case ast.Constant(value=None):
            return None
    raise _NotASpecError


def _length(node: ast.expr) -> int:
    """The length of an axis in a parsed expression; raises _NotASpecError if it is no integer.

    `node` is the expression, from Python's parser.
    """
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise _NotASpecError


# ---------------------------------------------------------------- names with options


def parse_options(text: str, what: str) -> tuple[str, dict[str, Any]]:
    """A name and the dict of its options, from a text such as ``name{option=value}``; raises RequestError for other texts.

    Example:
      >>> parse_options("vmap{in_axes=(0, None) out_axes=1}", "--transform")
      ('vmap', {'in_axes': (0, None), 'out_axes': 1})
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\{(.*)\})?\s*", text, re.S)
    if match is None:
        raise RequestError(f"{what} requires the form name{{option=value ...}}, got {text!r}.")
    options = {}
    # A value may contain commas and spaces; a new option begins at a name with an equals sign.
    for item in re.split(r"[,\s]\s*(?=\w+=)", match[2] or ""):
        key, separator, value = item.partition("=")
        if not separator and item.strip():
            raise RequestError(f"{what} requires options of the form name=value, got {item!r} in {text!r}.")
        if separator:
            options[key.strip()] = _value(value.strip().rstrip(","))
    return match[1], options


def _value(text: str) -> Any:
    """The value of an option: a boolean, a Python literal, or otherwise the text."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _alike(name: str, names: Iterable[str]) -> str:
    """The advice that asks for the name, among `names`, which is similar to `name`; "" if none is."""
    alike = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {alike[0]}?" if alike else ""


def parse_target(text: str) -> Target:
    """The target of a text such as ``cpu{cpu=generic}``; ``cuda:sm_90`` is short for the target's first option. Raises TargetError
    for an unknown target or option.

    Example:
      >>> parse_target("cuda{arch=sm_90}") == parse_target("cuda:sm_90")
      True
    """
    kind, separator, first = text.partition(":")
    short = bool(separator) and "{" not in kind
    name, options = parse_options(kind if short else text, "--target")
    if name not in TARGETS:
        raise TargetError(f"--target requires one of {', '.join(TARGETS)}, got {name!r}.", help=_alike(name, TARGETS))
    common = [f.name for f in dataclasses.fields(Target)]
    option_names = [f.name for f in dataclasses.fields(TARGETS[name])]
    if short:
        options[next(k for k in option_names if k not in common)] = first
    if unknown := sorted(set(options) - set(option_names)):
        raise TargetError(
            f"target {name} requires options among {', '.join(option_names)}, got {', '.join(unknown)}.",
            help=_alike(unknown[0], option_names),
        )
    if isinstance(options.get("options"), str):
        options["options"] = tuple(options["options"].split())
    return TARGETS[name](**options)


# ---------------------------------------------------------------- transforms


def jvp_of(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The function ``(*args, *tangents) -> (f(*args), tangent)``, with tangents for the arguments at `argnums`."""
    names = _names(f)
    indices = positions("jvp", argnums, len(names) or None)
    count = len(indices)

    def jvp_f(*args: Any) -> Any:
        primals, tangents = args[:-count], args[-count:]
        wrt = positions("jvp", argnums, len(primals))
        return transforms.jvp(_of_active_arguments(f, primals, wrt), [primals[i] for i in wrt], tangents)

    return _with_names_of(jvp_f, f, [f"{names[i]}_dot" for i in indices if names])


def vjp_of(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The function ``(*args, cotangent of the result) -> (f(*args), cotangents)``, for the arguments at `argnums`."""
    positions("vjp", argnums, len(_names(f)) or None)

    def vjp_f(*args: Any) -> Any:
        """The value of `f` and the cotangents of the arguments that `argnums` selects."""
        *primals, ct = args
        wrt = positions("vjp", argnums, len(primals))
        out, pull = transforms.vjp(_of_active_arguments(f, primals, wrt), *(primals[i] for i in wrt))
        return out, (pull(ct)[0] if is_one(argnums) else pull(ct))

    return _with_names_of(vjp_f, f, ["ct"])


def _of_active_arguments(f: Callable[..., Any], args: Sequence[Any], wrt: tuple[int, ...]) -> Callable[..., Any]:
    """The function `f` of only those arguments whose indices are in `wrt`; the others are constants from `args`."""

    def g(*active: Any) -> Any:
        by_position = dict(zip(wrt, active, strict=True))
        return f(*(by_position.get(i, x) for i, x in enumerate(args)))

    return g


def _names(f: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a function, or an empty list if Python does not know them."""
    try:
        return list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return []


def _with_names_of(new: Callable[..., Any], f: Callable[..., Any], more: list[str]) -> Callable[..., Any]:
    """The function `new` with the name of f, and with f's argument names followed by `more`; artifacts use these names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = dict.fromkeys([*_names(f), *more])
    signature = inspect.Signature([inspect.Parameter(n, kind) for n in names])

    def call(*args: Any, **kwargs: Any) -> Any:
        return new(*signature.bind(*args, **kwargs).args)

    call.__name__, call.__doc__ = getattr(f, "__name__", "main"), getattr(f, "__doc__", None)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


TRANSFORMS: dict[str, Callable[..., Callable[..., Any]]] = {
    "grad": transforms.grad,
    "value_and_grad": transforms.value_and_grad,
    "hvp": transforms.hvp,
    "hessian": transforms.hessian,
    "jacfwd": transforms.jacfwd,
    "jacrev": transforms.jacrev,
    "vmap": transforms.vmap,
    "jvp": jvp_of,
    "vjp": vjp_of,
}


def apply_transforms(f: Callable[..., Any], texts: Sequence[str]) -> Callable[..., Any]:
    """The function `f` with transforms such as ``hvp{argnums=0}`` applied, those in `texts` one after the other.

    Raises RequestError for an unknown transform or option.
    """
    for text in texts:
        name, options = parse_options(text, "--transform")
        if name not in TRANSFORMS:
            raise RequestError(f"--transform requires one of {', '.join(TRANSFORMS)}, got {name!r}.", help=_alike(name, TRANSFORMS))
        parameters = list(inspect.signature(TRANSFORMS[name]).parameters)[1:]
        if "wrt" in options and "argnums" in parameters:  # `wrt` is the name in the dialect and in nabla-transform
            options["argnums"] = options.pop("wrt")
        if unknown := sorted(set(options) - set(parameters)):
            raise RequestError(
                f"{name} requires options among {', '.join(parameters)}, got {', '.join(unknown)}.",
                help=_alike(unknown[0], parameters),
            )
        f = TRANSFORMS[name](f, **options)
    return f


def sparse_module(f: Callable[..., Any], specs: Sequence[Any], text: str) -> Lowered:
    """The stage of a sparse derivative of `f`, from a text such as ``hessian{format=lower}``; `specs` are the types of its
    arguments.

    Raises RequestError for an unknown derivative or option.
    """
    name, options = parse_options(text, "--sparse")
    if name not in _SPARSE:
        raise RequestError(f"--sparse requires one of {', '.join(_SPARSE)}, got {name!r}.", help=_alike(name, _SPARSE))
    parameters = [p.name for p in inspect.signature(_SPARSE[name]).parameters.values() if p.kind == p.KEYWORD_ONLY]
    if unknown := sorted(set(options) - set(parameters)):
        raise RequestError(
            f"{name} requires options among {', '.join(parameters)}, got {', '.join(unknown)}.", help=_alike(unknown[0], parameters)
        )
    return _SPARSE[name](f, *specs, **options)


_SPARSE: dict[str, Callable[..., Lowered]] = {"hessian": sparse_hessian_module, "jacobian": sparse_jacobian_module}


def imported_specs(f: Callable[..., Any], texts: Sequence[str]) -> list[Any]:
    """The specs of the arguments of an imported function `f` after the transforms `texts`; an empty list if they are not known."""
    if not isinstance(f, ImportedFunction) or any(None in shape for shape, _ in (*f.inputs, *f.outputs)):
        return []
    specs: list[Any] = [spec(shape, dtype) for shape, dtype in f.inputs]
    for k, text in enumerate(texts):
        name, options = parse_options(text, "--transform")
        argnums = options.get("wrt", options.get("argnums", 0))
        wrt = positions(name, argnums, len(specs)) if name != "vmap" else ()
        if name == "vmap" or (name == "vjp" and (k or len(f.outputs) > 1)):
            return []  # the size of the axis, or the result of another transform, is not known here
        if name == "hvp":  # (x, v, *rest)
            x = specs[wrt[0]] if is_one(argnums) else tuple(specs[i] for i in wrt)
            specs = [x, x, *(s for i, s in enumerate(specs) if i not in wrt)]
        elif name == "jvp":
            specs += [specs[i] for i in wrt]
        elif name == "vjp":
            specs += [spec(shape, dtype) for shape, dtype in f.outputs]
    return specs


# ---------------------------------------------------------------- models


def load_function(text: str) -> Callable[..., Any]:
    """The function for a text ``model.py:function`` or ``model.mlir[:entry]``; raises RequestError if there is no such file or
    function.
    """
    file, _, name = text.partition(":")
    path = Path(file)
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise RequestError(
            f"MODEL requires a file, got {file!r}, which {problem}.", help="write model.py:function or model.mlir:entry."
        )
    if path.suffix in (".mlir", ".mlirbc"):
        try:
            source = path.read_bytes()
            return from_stablehlo(source if path.suffix == ".mlirbc" else source.decode(), name or None)
        except (ImportIRError, UnicodeDecodeError, OSError) as error:
            message = getattr(error, "message", error)
            raise RequestError(
                f"MODEL requires a module that can be read, got {file}: {message}", help=getattr(error, "help", "")
            ) from None
    if not name:
        raise RequestError(f"MODEL requires a function, got {text!r}.", help=f"write {file}:function.")
    value: Any = (module := _import_file(path))
    for part in name.split("."):
        value = getattr(value, part, None)
    if not callable(value):
        function_names = [n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__]
        raise RequestError(
            f"MODEL requires a function of {file}, got {name!r}.", help=f"it has {', '.join(function_names) or 'none'}."
        )
    return value


def _import_file(path: Path) -> Any:
    """Imports a .py, .mlir or .mlirbc file as a module; raises RequestError for other files."""
    sys.path.insert(0, str(path.resolve().parent))  # for imports from the folder of the file
    loader = importlib.util.spec_from_file_location(path.stem, path)
    if loader is None or loader.loader is None:
        raise RequestError(f"MODEL requires a .py, .mlir or .mlirbc file, got {str(path)!r}.")
    module = importlib.util.module_from_spec(loader)
    sys.modules[path.stem] = module
    loader.loader.exec_module(module)
    return module
