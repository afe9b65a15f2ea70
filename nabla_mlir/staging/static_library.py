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
from nabla_mlir.staging.artifact import entry_point
from nabla_mlir.staging.stages import Lowered
from nabla_mlir.targets import CPU, Target
from nabla_mlir.targets import target as as_target

_C_TYPES = {
    "bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double",
    "complex64": "float", "complex128": "double",
}  # fmt: skip
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
        own = dumps.flags(folder, code)
        module = clone_module(lowered.module)
        with context():
            module.operation.attributes["sym_name"] = ir.StringAttr.get(name)  # the compiler derives its symbols from this name
        compile_lowered(module, replace(cpu, link_embedded=False), flags=[*own, *flags], cache=False)
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
    """The C name of each array, and True if the function writes it."""
    parameters: list[tuple[str, Leaf, bool]] = []
    leaves = [(leaf, False) for argument in entry.arguments for leaf in argument.leaves if not argument.output]
    for leaf, is_result in leaves + [(leaf, True) for leaf in entry.result_leaves]:
        name = re.sub(r"\W+", "_", leaf.name).strip("_") or "result"
        name = f"{name}_" if _KEYWORDS.fullmatch(name) else name
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
    items = []
    for parameter, leaf, is_result in _parameters(entry):
        type = _C_TYPES.get(leaf.dtype) or (f"{leaf.dtype}_t" if "int" in leaf.dtype else "uint8_t")
        items.append(f"{'' if is_result else 'const '}{type} *{parameter}")
    return f"int {name}_{entry.name}({', '.join(items) or 'void'})"


def _header(name: str, entries: list[EntryPoint], cpu: CPU) -> str:
    lines = [
        f"/* {name}: made by nabla_mlir for {cpu.resolve().cpu}, {cpu.resolve().triple}.",
        f"   Link {name}.o and {name}.c into a program, with -lm. Arrays are dense, in row-major order; those at a multiple",
        "   of 64 bytes are read where they are, others are copied first. A result that is NULL is not written. */",
        f"#ifndef {name.upper()}_H", f"#define {name.upper()}_H", "", "#include <stdint.h>", "", "#ifdef __cplusplus",
        'extern "C" {', "#endif", "", "/* What the functions return. */",
        "enum { NABLA_OK = 0, NABLA_NO_MEMORY = 1, NABLA_STATE = 2, NABLA_DISPATCH = 3, NABLA_VERSION = 4 };",
    ]  # fmt: skip
    for entry in entries:
        lines += ["", f"/* {entry}".replace("*/", "* /")]
        lines += [f"   {entry.doc}"] if entry.doc else []
        lines += [f"     {n}: {leaf}{' (written)' if w else ''}" for n, leaf, w in _parameters(entry)]
        lines[-1] += " */"
        lines.append(_declaration(name, entry) + ";")
        lines += _declared_indices(name, entry)
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _cmake(name: str, files: list[str]) -> str:
    """The text of a CMake package: a library that the project compiles with its own compiler."""
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


def _declared_indices(name: str, entry: EntryPoint) -> list[str]:
    """The positions of the entries of a sparse matrix, as constants of the library."""
    if entry.sparsity is None:
        return []
    form = entry.sparsity
    shape, count = "x".join(map(str, form.shape)), entry.result_leaves[0].shape[0]
    lines = [f"/* The matrix is {shape}; its entries in the order of {form.format}, all indices from 0. */"]
    lines.append(f"enum {{ {name}_{entry.name}_nnz = {count} }};")
    return lines + [f"extern const int32_t {name}_{entry.name}_{key}[{max(1, len(x))}];" for key, x in form.indices.items()]


def _defined_indices(name: str, entry: EntryPoint) -> list[str]:
    indices = {} if entry.sparsity is None else entry.sparsity.indices
    return [
        f"const int32_t {name}_{entry.name}_{key}[{max(1, len(x))}] = {{{', '.join(map(str, x or (0,)))}}};\n"
        for key, x in indices.items()
    ]


def _source(name: str, header: str, entries: list[EntryPoint], program: HostProgram, query: str) -> str:
    """The text of the C source file."""
    parts = [f'#include "{header}"', _MEMORY, *program.globals, ""]
    if program.dispatches and query:
        names = ", ".join(f'"{dispatch}"' for dispatch in program.dispatches)
        parts.append(_DISPATCHES.replace("QUERY", query).replace("NAMES", names))
    else:
        parts.append("static int find_dispatches(void) { return NABLA_OK; }\n")
    state = ", ".join(f"&{name}" for name in program.state) or "0"
    parts.append(_STATE.replace("STATE", state).replace("COUNT", str(len(program.state))))
    bodies = [_BODY.replace("BODY", body).replace("ARENA", "static ") for body in program.initializers]
    parts += [_function(f"static int initialize_{i}(void)", [], [], [], body) for i, body in enumerate(bodies)]
    calls = "".join(f"  if (!status) status = initialize_{i}();\n" for i in range(len(bodies)))
    parts.append(_INITIALIZE.replace("CALLS", calls))
    for entry in entries:
        parts += _defined_indices(name, entry)
        arguments = [f"(void *){n}" for n, _, is_result in _parameters(entry) if not is_result]
        results = [n for n, _, is_result in _parameters(entry) if is_result]
        sizes = [leaf.nbytes for leaf in entry.result_leaves]
        # The results are written to memory of the caller, so arguments for this memory are not needed.
        arguments += results[: sum(len(argument.leaves) for argument in entry.arguments if argument.output)]
        body = _BODY.replace("BODY", program.functions[entry.function or entry.name]).replace("ARENA", "")
        parts.append(_function(_declaration(name, entry), arguments, results, sizes, _PROLOGUE + body + _EPILOGUE))
    return "\n".join(parts)


def _function(declaration: str, arguments: list[str], results: list[str], sizes: list[int], body: str) -> str:
    lists = f"  void *args[] = {{{', '.join([*arguments, '0'])}}};\n"
    # A function with state returns an additional last result, the number of writes, which is ignored here.
    lists += f"  void *results[] = {{{', '.join([*results, '0'])}}};\n"
    lists += f"  const size_t sizes[] = {{{', '.join(map(str, [*sizes, 0]))}}};\n"
    return f"{declaration} {{\n{lists}  (void)args; (void)results; (void)sizes;\n{body}  return status;\n}}\n"


_MEMORY = """#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Memory at multiples of 64 bytes, as the machine code expects it; the blocks of one call are linked. */
struct block { struct block *next; void *start, *memory; };

static void *take(struct block **arena, size_t size) {
  struct block *block = malloc(sizeof(struct block));
  char *start = malloc(size + 64);
  if (!block || !start) { free(block); free(start); return 0; }
  block->next = *arena;
  block->start = start;
  block->memory = start + (64 - (uintptr_t)start % 64);
  *arena = block;
  return block->memory;
}

static inline void give(struct block **arena, void *memory) {
  for (struct block **link = arena; *link; link = &(*link)->next) {
    struct block *block = *link;
    if (block->memory == memory) {
      *link = block->next;
      free(block->start);
      free(block);
      return;
    }
  }
}

static void give_all(struct block **arena) {
  while (*arena) {
    struct block *block = *arena;
    *arena = block->next;
    free(block->start);
    free(block);
  }
}

static inline void *aligned(struct block **arena, char *memory, size_t size) {
  if (memory && (uintptr_t)memory % 64 == 0) return memory;
  void *copy = take(arena, size);
  if (copy && memory) memcpy(copy, memory, size);
  return copy;
}

/* A global array: where it is now, where it was before the call, and memory of its own. */
struct memory { char *now, *before, *storage; size_t size, room; };
"""

_DISPATCHES = """/* IREE's interface of executable libraries, version 6. */
struct environment { const uint32_t *constants; void *imports[3]; uint64_t processor[8]; };
struct dispatch {
  uint32_t size_x, size_y; uint16_t size_z, constant_count;
  uint32_t count_x, count_y; uint16_t count_z; uint8_t max_concurrency, binding_count;
  const uint32_t *constants; void *const *bindings; const size_t *lengths;
};
struct workgroup { uint32_t x, y; uint16_t z, reserved; uint32_t processor; void *memory; uint32_t memory_size; };
typedef int (*function)(const struct environment *, const struct dispatch *, const struct workgroup *);
struct attributes {
  uint64_t flags; uint16_t memory_pages; uint8_t constant_count, binding_count;
  uint32_t size_x, size_y; uint16_t size_z, parameter_count; uint64_t reserved[5];
};
struct library {
  const struct { uint32_t version; const char *name; } *header;
  uint32_t import_count; const char *const *imports;
  uint32_t count; const function *functions; const struct attributes *attributes;
  const void *parameters, *occupancy; const char *const *names;
};
extern const struct library *QUERY(uint32_t version, const struct environment *environment);

static const char *const dispatch_names[] = {NAMES};
enum { DISPATCHES = sizeof(dispatch_names) / sizeof(*dispatch_names) };
static const struct environment environment;
static function functions[DISPATCHES];
static struct attributes attributes[DISPATCHES];

static int find_dispatches(void) {
  const struct library *library = QUERY(6, &environment);
  if (!library || library->header->version != 6 || !library->names) return NABLA_VERSION;
  for (int i = 0; i < DISPATCHES; ++i)
    for (uint32_t k = 0; k < library->count; ++k)
      if (!strcmp(dispatch_names[i], library->names[k])) {
        functions[i] = library->functions[k];
        attributes[i] = library->attributes[k];
      }
  for (int i = 0; i < DISPATCHES; ++i)
    if (!functions[i]) return NABLA_VERSION;
  return NABLA_OK;
}

static int run(int i, const uint32_t *constants, uint16_t constant_count, void **bindings, const size_t *lengths,
               uint8_t binding_count, uint32_t x, uint32_t y, uint32_t z) {
  struct dispatch state = {
    attributes[i].size_x, attributes[i].size_y, attributes[i].size_z, constant_count, x, y, (uint16_t)z, 1, binding_count,
    constants, bindings, lengths,
  };
  struct workgroup group = {0};
  struct block *arena = 0;
  int status = NABLA_OK;
  group.memory_size = attributes[i].memory_pages * 4096u;
  if (group.memory_size && !(group.memory = take(&arena, group.memory_size))) return NABLA_NO_MEMORY;
  for (uint32_t c = 0; c < z && !status; ++c)
    for (uint32_t b = 0; b < y && !status; ++b)
      for (uint32_t a = 0; a < x && !status; ++a) {
        group.x = a; group.y = b; group.z = (uint16_t)c;
        if (functions[i](&environment, &state, &group)) status = NABLA_DISPATCH;
      }
  give_all(&arena);
  return status;
}
"""

_STATE = """static struct memory *const memories[] = {STATE};

/* After a call: arrays that it changed move into memory of their own, or go back to what they were. */
static int keep(int status, struct block **arena) {
  for (int i = 0; i < COUNT && !status; ++i) {
    struct memory *m = memories[i];
    if (m->now == m->before) continue;
    char *copy = take(arena, m->size);  /* first aside: it may lie in another's memory */
    if (!copy) status = NABLA_NO_MEMORY;
    else m->now = memcpy(copy, m->now, m->size);
  }
  for (int i = 0; i < COUNT; ++i) {
    struct memory *m = memories[i];
    if (status || m->now == m->before) { m->now = m->before; continue; }
    if (m->room < m->size) {
      char *room = realloc(m->storage, m->size + 64);
      if (!room) { status = NABLA_NO_MEMORY; m->now = m->before; continue; }
      m->storage = room;
      m->room = m->size;
    }
    m->now = memcpy(m->storage + (64 - (uintptr_t)m->storage % 64), m->now, m->size);
  }
  return status;
}
"""

_BODY = """  int status = NABLA_OK;
  ARENAstruct block *arena = 0;
BODY
  goto no_memory;
no_memory:
  status = NABLA_NO_MEMORY;
done:;
"""

_INITIALIZE = """static int initialize(void) {
  static int ready = 0;
  if (ready) return NABLA_OK;
  int status = find_dispatches();
CALLS  ready = !status;
  return status;
}
"""

_PROLOGUE = """  int failed = initialize();
  if (failed) return failed;
  for (int i = 0; i < (int)(sizeof(memories) / sizeof(*memories)) && memories[i]; ++i) memories[i]->before = memories[i]->now;
"""

_EPILOGUE = """  status = keep(status, &arena);
  give_all(&arena);
"""
