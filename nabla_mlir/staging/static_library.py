"""Static libraries: entry points as plain C functions, linked into a program without any runtime.

hvp.o    the machine code, for the target's CPU
hvp.c    C functions that call it; they use no threads and no files, and get memory from malloc
hvp.h    one function for each entry point, for C and C++
hvp-config.cmake   the same for CMake: find_package(hvp), and the target hvp::hvp

IREE calls its machine code through a small interface: tables of functions, and two structures that name a part of the work.
The C code declares version 6 of this interface, and checks the version.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from iree.compiler import ir

from nabla_mlir.base.errors import TargetError, writing
from nabla_mlir.base.files import write_files
from nabla_mlir.compiling.internals import dumps
from nabla_mlir.compiling.internals.host_program import HostProgram
from nabla_mlir.compiling.lowering import clone_module, compile_lowered
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.dialects.regions import functions_of
from nabla_mlir.runtime.manifest import EntryPoint, Leaf
from nabla_mlir.staging import c_text
from nabla_mlir.staging.artifact import entry_point
from nabla_mlir.staging.stages import Lowered
from nabla_mlir.targets import CPU, Target
from nabla_mlir.targets import target as as_target

_C_TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float",
    "complex128": "double",
}
# Complex numbers are pairs, and narrow floats are stored as bits, because C++ and older compilers lack types for them.


def save_static_library(lowered: Lowered, path: str | Path, target: str | Target = "cpu", *, flags: Sequence[str] = ()) -> Path:
    """Compiles a module to machine code and C functions, and returns the path of the header.

    A function is named NAME_ENTRY, after the file and the entry point. It takes a pointer for each array, in the order of the
    leaves, with the results last. It returns 0, or an error number that NAME.h explains. Two threads must not call the
    functions at once. State, for example of `nm.hvp_module`, belongs to the program.

    Args:
      lowered: the module.
      path: the path of the four files, with or without a suffix.
      target: a `CPU`, also one of another machine.
      flags: additional flags of iree-compile.

    Raises:
      CompileError: the compiler refused the module, or the part for the host has an operation without a form in C.
      TargetError: the target is not a CPU, or is one for asynchronous calls.

    Example:
      >>> import nabla_mlir as nm, tempfile
      >>> lowered = nm.trace(lambda x: x * x, nm.spec(3), name="square").lower()
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     header = save_static_library(lowered, folder + "/model")
      ...     print(re.search(r"int model_square.*;", header.read_text())[0])
      int model_square(const float *x, float *result);
    """
    cpu = as_target(target)
    if not isinstance(cpu, CPU):
        raise TargetError(f"a static library requires a CPU as its target, got {cpu}.")
    if cpu.asynchronous:
        raise TargetError("a static library requires calls that return when they are done, got asynchronous=True.")
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".o", ".c", ".h") else path
    with writing(stem):
        stem.parent.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W", "_", stem.name)
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "code.o")
        dump_flags = dumps.flags(folder, code)
        module = clone_module(lowered.module)
        with context():
            module.operation.attributes["sym_name"] = ir.StringAttr.get(name)  # the compiler derives its symbols from this name
        compile_lowered(module, replace(cpu, link_embedded=False), flags=[*dump_flags, *flags], cache=False)
        machine_code = code.read_bytes() if code.exists() else b""
        query = dumps.query_of(code) if machine_code else ""
        module = parse_module(dumps.text_in(folder))
    with context():
        program = HostProgram(module)
    functions = functions_of(lowered.module.operation)
    entries = [entry_point(entry, functions[entry.name]) for entry in lowered.entries]
    header = stem.with_name(stem.name + ".h")
    cmake = stem.with_name(f"{name}-config.cmake")
    with writing(stem):
        write_files(
            {
                cmake: _cmake(name, [f"{stem.name}.c", *([f"{stem.name}.o"] if machine_code else [])]).encode(),
                header: _header(name, entries, cpu).encode(),
                stem.with_name(stem.name + ".c"): _source(name, header.name, entries, program, query).encode(),
                stem.with_name(stem.name + ".o"): machine_code,
            }
        )
    return header


def _parameters(entry: EntryPoint) -> list[tuple[str, Leaf, bool]]:
    """The parameters of the C function of an entry point: the name in C, the description, and True if the function writes it."""
    parameters: list[tuple[str, Leaf, bool]] = []
    leaves = [(leaf, False) for argument in entry.arguments for leaf in argument.leaves if not argument.output]
    for leaf, is_result in leaves + [(leaf, True) for leaf in entry.result_leaves]:
        name = re.sub(r"\W+", "_", leaf.name).strip("_") or "result"
        name = f"{name}_" if _KEYWORDS.fullmatch(name) else name  # a keyword of C or C++ is no name
        while any(name == other for other, _, _ in parameters):
            name += "_"
        parameters.append((name, leaf, is_result))
    return parameters


# Keywords that are names in Python.
_KEYWORDS = re.compile(
    "auto|case|char|const|default|do|double|enum|extern|float|goto|inline|int|long|register|restrict|short|signed|sizeof|"
    "static|struct|switch|typedef|union|unsigned|void|volatile|delete|new|private|public|template|this|virtual|"
    "alignas|alignof|asm|bitand|bitor|bool|catch|compl|concept|constexpr|decltype|explicit|export|false|friend|mutable|namespace|"
    "noexcept|nullptr|operator|protected|requires|throw|true|typeid|typename|using|xor"
)


def _declaration(name: str, entry: EntryPoint) -> str:
    """The declaration of the C function of an entry point, without a semicolon."""
    items = []
    for parameter, leaf, is_result in _parameters(entry):
        type = _C_TYPES.get(leaf.dtype) or (f"{leaf.dtype}_t" if "int" in leaf.dtype else "uint8_t")
        items.append(f"{'' if is_result else 'const '}{type} *{parameter}")
    return f"int {name}_{entry.name}({', '.join(items) or 'void'})"


def _header(name: str, entries: list[EntryPoint], cpu: CPU) -> str:
    """The text of the C header: the error codes, and a comment and a prototype for each entry point.

    `name` is the name of the library, and `cpu` is the CPU for which its machine code was compiled. `entries` are the entry points
    with the names and types of their arrays.
    """
    lines = [
        f"/* {name}: made by nabla_mlir for {cpu.resolve().cpu}, {cpu.resolve().triple}.",
        f"   Link {name}.o and {name}.c into a program, with -lm. Arrays are dense, in row-major order; those at a multiple",
        "   of 64 bytes are read where they are, others are copied first. A result that is NULL is not written. */",
        f"#ifndef {name.upper()}_H",
        f"#define {name.upper()}_H",
        "",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/* What the functions return. */",
        "enum { NABLA_OK = 0, NABLA_NO_MEMORY = 1, NABLA_STATE = 2, NABLA_DISPATCH = 3, NABLA_VERSION = 4 };",
    ]
    for entry in entries:
        lines += ["", f"/* {entry}".replace("*/", "* /")]
        lines += [f"   {entry.doc}"] if entry.doc else []
        lines += [f"     {n}: {leaf}{' (written)' if w else ''}" for n, leaf, w in _parameters(entry)]
        lines[-1] += " */"
        lines.append(_declaration(name, entry) + ";")
        lines += _declare_indices(name, entry)
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _cmake(name: str, files: list[str]) -> str:
    """The text of a CMake package `name`: a library of the source and object `files`, which the user's project compiles."""
    paths = " ".join(f'"${{CMAKE_CURRENT_LIST_DIR}}/{file}"' for file in files)
    return (
        f"# find_package({name}), with this folder as {name}_DIR or in CMAKE_PREFIX_PATH, or include() of this file.\n"
        f"if(NOT TARGET {name}::{name})\n"
        f"  enable_language(C)\n"
        f"  add_library({name} STATIC {paths})\n"
        f"  add_library({name}::{name} ALIAS {name})\n"
        f'  target_include_directories({name} PUBLIC "${{CMAKE_CURRENT_LIST_DIR}}")\n'
        f"  target_compile_features({name} PRIVATE c_std_99)\n"
        f"  set_target_properties({name} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE C)\n"
        f"  if(UNIX)\n"
        f"    target_link_libraries({name} PUBLIC m)\n"
        f"  endif()\n"
        f"endif()\n"
    )


def _declare_indices(name: str, entry: EntryPoint) -> list[str]:
    """The lines of the header that declare the rows and columns of the entries of a sparse matrix; none for another result.

    `name` is the name of the library, and `entry` is the entry point that returns the matrix.
    """
    if entry.sparsity is None:
        return []
    form = entry.sparsity
    shape, count = "x".join(map(str, form.shape)), entry.result_leaves[0].shape[0]
    lines = [f"/* The matrix is {shape}; its entries in the order of {form.format}, all indices from 0. */"]
    lines.append(f"enum {{ {name}_{entry.name}_nnz = {count} }};")
    return lines + [f"extern const int32_t {name}_{entry.name}_{key}[{max(1, len(x))}];" for key, x in form.indices.items()]


def _define_indices(name: str, entry: EntryPoint) -> list[str]:
    """The lines of the source that define the rows and columns of the entries of a sparse matrix; none for another result.

    `name` is the name of the library, and `entry` is the entry point that returns the matrix.
    """
    indices = {} if entry.sparsity is None else entry.sparsity.indices
    return [
        f"const int32_t {name}_{entry.name}_{key}[{max(1, len(x))}] = {{{', '.join(map(str, x or (0,)))}}};\n"
        for key, x in indices.items()
    ]


def _source(name: str, header: str, entries: list[EntryPoint], program: HostProgram, query: str) -> str:
    """The text of the C source of a static library.

    Args:
      name: the name of the library, with which its functions begin.
      header: the name of the header that it includes.
      entries: the entry points.
      program: the C code of the host's part: globals, functions, initializers, and the names of the dispatches.
      query: the symbol with which the machine code lists its dispatches, or "".
    """
    parts = [f'#include "{header}"', c_text.MEMORY, *program.globals, ""]
    if program.dispatches and query:
        names = ", ".join(f'"{dispatch}"' for dispatch in program.dispatches)
        parts.append(c_text.DISPATCHES.replace("QUERY", query).replace("NAMES", names))
    else:
        parts.append("static int find_dispatches(void) { return NABLA_OK; }\n")
    state = ", ".join(f"&{name}" for name in program.state) or "0"
    parts.append(c_text.STATE.replace("STATE", state).replace("COUNT", str(len(program.state))))
    bodies = [c_text.BODY.replace("BODY", body).replace("ARENA", "static ") for body in program.initializers]
    parts += [_function(f"static int initialize_{i}(void)", [], [], [], body) for i, body in enumerate(bodies)]
    calls = "".join(f"  if (!status) status = initialize_{i}();\n" for i in range(len(bodies)))
    parts.append(c_text.INITIALIZE.replace("CALLS", calls))
    for entry in entries:
        parts += _define_indices(name, entry)
        arguments = [f"(void *){n}" for n, _, is_result in _parameters(entry) if not is_result]
        results = [n for n, _, is_result in _parameters(entry) if is_result]
        sizes = [leaf.nbytes for leaf in entry.result_leaves]
        # The results are written to memory of the caller, so arguments for this memory are not needed.
        arguments += results[: sum(len(argument.leaves) for argument in entry.arguments if argument.output)]
        body = c_text.BODY.replace("BODY", program.functions[entry.function or entry.name]).replace("ARENA", "")
        parts.append(_function(_declaration(name, entry), arguments, results, sizes, c_text.PROLOGUE + body + c_text.EPILOGUE))
    return "\n".join(parts)


def _function(declaration: str, arguments: list[str], results: list[str], sizes: list[int], body: str) -> str:
    """The text of a C function.

    Args:
      declaration: its name and parameters.
      arguments, results: the C expressions of the arrays that it reads and writes.
      sizes: the bytes of each result.
      body: the statements.
    """
    lists = f"  void *args[] = {{{', '.join([*arguments, '0'])}}};\n"
    # A function with state returns an additional last result, the number of writes, which is ignored here.
    lists += f"  void *results[] = {{{', '.join([*results, '0'])}}};\n"
    lists += f"  const size_t sizes[] = {{{', '.join(map(str, [*sizes, 0]))}}};\n"
    return f"{declaration} {{\n{lists}  (void)args; (void)results; (void)sizes;\n{body}  return status;\n}}\n"
