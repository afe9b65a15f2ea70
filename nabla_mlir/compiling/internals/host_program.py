"""The host program of a compiled module as C, so that it runs without IREE's virtual machine.

IREE divides a module into dispatches, which are machine code, and a host program that runs them in order: allocations,
copies, branches, a little arithmetic. Before it becomes bytecode, this program is IR of the dialects stream, util,
arith and cf. All shapes are static and everything runs in order, so each operation becomes one or two lines of C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling.internals.c_scalars import (
    arithmetic,
    c_type,
    constant_bytes,
    global_name,
    is_memory,
    is_time,
    number,
    stored,
)

# Operations that need no code in a program that runs in order, on arrays whose shapes the caller guarantees.
_SILENT = {
    "hal.element_type",
    "hal.encoding_type",
    "hal.buffer_view.assert",
    "hal.devices.get",
    "hal.device.allocator",
    "hal.memory_type",
    "hal.buffer_usage",
    "stream.timepoint.immediate",
    "stream.timepoint.join",
    "stream.timepoint.export",
    "stream.cmd.flush",
    "stream.cmd.invalidate",
    "stream.cmd.discard",
    "stream.yield",
}


class HostProgram:
    """A module of IREE, after translation of its executables, as C.

    Attributes:
      dispatches: the names of the machine code functions, in the order of their numbers in the C code.
      globals: the declarations of state and constants.
      state: the names of the memory globals that a call may change.
      initializers, functions: the C code of each body. It reads `args`, writes to the memory at `results` (of the sizes
        in `sizes`), and jumps to `done`.
    """

    def __init__(self, module: ir.Module):
        """Translates the globals, initializers and functions of the module to C, and stores the texts as attributes."""
        self.dispatches: list[str] = []
        self.globals: list[str] = []
        self.state: list[str] = []
        self.initializers: list[str] = []
        self.functions: dict[str, str] = {}
        self._counts: dict[str, ir.Operation] = {}
        self._data = 0
        operations = [op.operation for op in module.body.operations]
        for op in operations:
            if op.name == "hal.executable":
                self._find_exports(op)
        for op in operations:
            if op.name == "util.global":
                self._global(op)
        for op in operations:
            if op.name == "util.initializer":
                self.initializers.append(_Function(self, op).text())
            elif op.name == "util.func":
                self.functions[op.attributes["sym_name"].value] = _Function(self, op).text()

    def _find_exports(self, executable: ir.Operation) -> None:
        """Stores, for each kernel of an executable, the operation that computes its number of workgroups."""
        name = executable.attributes["sym_name"].value
        for variant in _inside(executable, "hal.executable.variant"):
            for export in _inside(variant, "hal.executable.export"):
                self._counts[f"@{name}::@{export.attributes['sym_name'].value}"] = export

    def export(self, symbol: str) -> tuple[int, ir.Operation]:
        """The number of a kernel (``@executable::@variant::@kernel``) in C, and the operation that computes its workgroups."""
        parts = symbol.split("::")
        name = parts[-1][1:]  # without the "@"
        if name not in self.dispatches:
            self.dispatches.append(name)
        return self.dispatches.index(name), self._counts[f"{parts[0]}::{parts[-1]}"]

    def _global(self, op: ir.Operation) -> None:
        """Adds the C declaration of a global of the module; devices and time points need none."""
        name, type = global_name(op.attributes["sym_name"].value), str(op.attributes["type"].value)
        if type.startswith("!hal.device") or is_time(type):
            return
        if is_memory(type):
            self.globals.append(f"static struct memory {name};")
            self.state += [name] if "is_mutable" in op.attributes else []
            return
        start = number(op.attributes["initial_value"]) if "initial_value" in op.attributes else "0"
        self.globals.append(f"static {c_type(type, name)} {name} = {start};")

    def constant(self, value: ir.Attribute) -> str:
        """The name of a new C array with constant data, whose declaration is added to the globals."""
        name = f"data_{self._data}"
        self._data += 1
        data = constant_bytes(value)
        words = np.frombuffer(data + b"\0" * (-len(data) % 8), "<u8")
        lines = [", ".join(f"0x{w:x}" for w in words[i : i + 8]) for i in range(0, len(words), 8)]
        self.globals.append(f"static _Alignas(64) uint64_t {name}[] = {{\n  " + ",\n  ".join(lines or ["0"]) + "};")
        return name


class _Function:
    """The C code of a function or an initializer. The method `_cf_br` writes the code of the operation `cf.br`, and so on."""

    def __init__(self, program: HostProgram, op: ir.Operation):
        """Stores the function or initializer `op`; `text` translates it."""
        self._program, self._op = program, op
        self._names: dict[ir.Value, str] = {}
        self._declared: list[str] = []
        self._lines: list[str] = []
        self._sizes: dict[str, str] = {}  # the sizes of memory, by its C expression
        self._blocks = list(op.regions[0].blocks)

    def text(self) -> str:
        """The C code of the body. `args` are pointers to the arguments, and `results` pointers to memory for the results."""
        first, *others = self._blocks
        for i, argument in enumerate(first.arguments):
            self._names[argument] = f"((char *)args[{i}])"
        for block in others:
            for argument in block.arguments:
                name = self._declare(argument)
                if is_memory(str(argument.type)):
                    self._declared.append(f"  int64_t {name}_size = 0; (void){name}_size;")
                    self._sizes[name] = f"{name}_size"
        self._block(first)
        for i, block in enumerate(others, 1):
            self._emit(f"block_{i}:;")
            self._block(block)
        return "\n".join([*self._declared, *self._lines])

    def _declare(self, value: ir.Value) -> str:
        """The name of a new C variable for a value; time points get a name without a variable."""
        name = f"v{len(self._declared)}"  # each variable has a line or two in `_declared`
        self._names[value] = name
        type = str(value.type)
        if not is_time(type):
            self._declared.append(f"  {c_type(type, self._op.name)} {name} = 0; (void){name};")
        return name

    def _emit(self, line: str) -> None:
        """Adds a line of C code; labels of blocks are not indented."""
        self._lines.append(line if line.startswith("block_") else f"  {line}")

    def _set(self, op: ir.Operation, text: str) -> None:
        """Adds a line that sets a new variable for the result of an operation to a C expression."""
        self._emit(f"{self._declare(op.results[0])} = {text};")

    def _alias(self, result: ir.Value, value: ir.Value) -> None:
        """Gives a result the C expression of another value, without code."""
        self._names[result] = self._names[value]

    def _names_of(self, values: Sequence[ir.Value]) -> list[str]:
        """The C expressions of the values."""
        return [self._names[v] for v in values]

    def _block(self, block: ir.Block) -> None:
        """Adds the code of all operations of a block."""
        for op in block.operations:
            self._operation(op.operation)

    def _operation(self, op: ir.Operation) -> None:
        """Adds the code of one operation: by its own method, or as arithmetic. Raises CompileError for unknown operations."""
        name = op.name
        handler: Callable[[ir.Operation], None] | None = getattr(self, "_" + name.replace(".", "_"), None)
        if name in _SILENT:
            self._names.update(dict.fromkeys(op.results, "0"))
        elif handler is not None:
            handler(op)
        elif (text := arithmetic(op, self._names)) is not None:
            self._set(op, text)
        else:
            raise CompileError(
                f"a static library requires a program of known operations, got {name}.",
                help="load the module with IREE's runtime instead.",
            )

    # ------------------------------------------------------------ scalars and branches

    def _arith_constant(self, op: ir.Operation) -> None:
        self._names[op.results[0]] = number(op.attributes["value"])

    def _arith_select(self, op: ir.Operation) -> None:
        """``v3 = v0 ? v1 : v2;``, also for memory, whose size is then selected, too."""
        c, a, b = self._names_of(op.operands)
        self._set(op, f"{c} ? {a} : {b}")
        if is_memory(str(op.results[0].type)):
            self._sizes[self._names[op.results[0]]] = f"({c} ? {self._sizes[a]} : {self._sizes[b]})"

    def _cf_br(self, op: ir.Operation) -> None:
        self._jump(op.successors[0], op.operands)

    def _cf_cond_br(self, op: ir.Operation) -> None:
        """``if (v0 & 1) { jump to the first block } jump to the second block``."""
        sizes = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
        values = list(op.operands)
        self._emit(f"if ({self._names[values[0]]} & 1) {{")
        self._jump(op.successors[0], values[1 : 1 + sizes[1]])
        self._emit("}")
        self._jump(op.successors[1], values[1 + sizes[1] :])

    def _jump(self, block: ir.Block, values: Sequence[ir.Value]) -> None:
        """Adds ``{ int64_t t0 = v2; v1 = t0; goto block_1; }``; all values are read before any block argument is written."""
        label = f"block_{self._blocks.index(block)}"
        pairs = [(a, v) for a, v in zip(block.arguments, values, strict=True) if not is_time(str(a.type))]
        reads = [f"{c_type(str(a.type), '')} t{i} = {self._names[v]};" for i, (a, v) in enumerate(pairs)]
        writes = [f"{self._names[a]} = t{i};" for i, (a, _) in enumerate(pairs)]
        for i, (a, v) in enumerate(pairs):
            if is_memory(str(a.type)):
                reads.append(f"int64_t s{i} = {self._sizes[self._names[v]]};")
                writes.append(f"{self._names[a]}_size = s{i};")
        self._emit(f"{{ {' '.join([*reads, *writes])} goto {label}; }}")

    def _cf_assert(self, op: ir.Operation) -> None:
        self._emit(f"if (!({self._names[op.operands[0]]} & 1)) {{ status = NABLA_STATE; goto done; }}")

    def _util_return(self, op: ir.Operation) -> None:
        """Adds the copies of the results to the caller's memory (a result whose pointer is NULL is left out), and the end."""
        for i, value in enumerate(op.operands):
            name = self._names[value]
            if str(value.type) == "!hal.buffer_view":
                self._emit(f"if (results[{i}]) memmove(results[{i}], {name}, sizes[{i}]);")
            else:
                self._emit(f"if (results[{i}]) *({c_type(str(value.type), op.name)} *)results[{i}] = {name};")
        self._emit("goto done;")

    # ------------------------------------------------------------ memory

    def _util_global_load(self, op: ir.Operation) -> None:
        """Reads a global; memory is a struct with a pointer `now` and its size. Time points have no code."""
        name = global_name(ir.FlatSymbolRefAttr(op.attributes["global"]).value)
        type = str(op.results[0].type)
        if is_time(type):
            self._names[op.results[0]] = "0"
        else:
            self._set(op, f"{name}.now" if is_memory(type) else name)
            self._sizes[self._names[op.results[0]]] = f"(int64_t){name}.size"

    def _util_global_store(self, op: ir.Operation) -> None:
        """Writes a global; memory is a struct with a pointer `now` and its size. Time points have no code."""
        name = global_name(ir.FlatSymbolRefAttr(op.attributes["global"]).value)
        value, type = op.operands[0], str(op.operands[0].type)
        if is_memory(type):
            self._emit(f"{name}.now = {self._names[value]}; {name}.size = {self._sizes[self._names[value]]};")
        elif not is_time(type):
            self._emit(f"{name} = {self._names[value]};")

    def _util_buffer_constant(self, op: ir.Operation) -> None:
        self._names[op.results[0]] = f"((char *){self._program.constant(op.attributes['value'])})"

    def _stream_resource_try_map(self, op: ir.Operation) -> None:
        """A constant buffer is always mapped: the first result is 1, the second a pointer into the constant."""
        self._emit(f"{self._declare(op.results[0])} = 1;")
        source, offset, size = self._names_of(op.operands)
        name = self._declare(op.results[1])
        self._emit(f"{name} = {source} + {offset};")
        self._sizes[name] = size

    def _stream_file_constant(self, op: ir.Operation) -> None:  # a pointer into constant data, without a variable
        source, _, offset, _ = self._names_of(op.operands)
        self._names[op.results[0]] = f"({source} + {offset})"

    def _stream_file_read(self, op: ir.Operation) -> None:
        """Copies constant data to memory; the time point of the result has no code."""
        file, position, target, _, offset, length = self._names_of(op.operands)[:6]
        self._emit(f"memcpy({target} + {offset}, {file} + {position}, {length});")
        self._names[op.results[0]] = "0"

    def _allocate(self, op: ir.Operation) -> None:
        """Takes memory from the arena of the call; without memory the call fails. The time point has no code."""
        size = self._names[op.operands[0]]
        name = self._declare(op.results[0])
        self._emit(f"if (!({name} = take(&arena, {size}))) goto no_memory;")
        self._sizes[name] = size
        for result in list(op.results)[1:]:
            self._names[result] = "0"

    _stream_resource_alloc = _stream_resource_alloca = _allocate

    def _hal_allocator_allocate(self, op: ir.Operation) -> None:
        self._emit(f"if (!({self._declare(op.results[0])} = take(&arena, {self._names[op.operands[4]]}))) goto no_memory;")

    def _stream_resource_dealloca(self, op: ir.Operation) -> None:  # gives memory back to the arena of the call
        self._emit(f"give(&arena, {self._names[op.operands[0]]});")
        self._names[op.results[0]] = "0"

    def _stream_resource_subview(self, op: ir.Operation) -> None:
        """A pointer into the memory of the operand, with the size of the part."""
        source, _, offset, size = self._names_of(op.operands)
        self._set(op, f"{source} + {offset}")
        self._sizes[self._names[op.results[0]]] = size

    def _stream_resource_size(self, op: ir.Operation) -> None:
        self._set(op, self._sizes[self._names[op.operands[0]]])

    def _stream_resource_load(self, op: ir.Operation) -> None:  # reads one element of memory
        source, _, offset = self._names_of(op.operands)
        type = str(op.results[0].type)
        self._set(op, f"*({stored(type)} *)({source} + {offset})")

    def _stream_resource_store(self, op: ir.Operation) -> None:  # writes one element of memory
        target, _, offset, value = self._names_of(op.operands)
        self._emit(f"*({stored(str(op.operands[3].type))} *)({target} + {offset}) = {value};")

    def _stream_tensor_import(self, op: ir.Operation) -> None:
        """A pointer to the memory of an argument of the call, or to an aligned copy."""
        source, size = self._names_of(op.operands)
        name = self._declare(op.results[0])
        self._emit(f"if (!({name} = aligned(&arena, {source}, {size}))) goto no_memory;")
        self._sizes[name] = size

    def _stream_tensor_export(self, op: ir.Operation) -> None:
        self._alias(op.results[0], op.operands[0])

    def _alias_all(self, op: ir.Operation) -> None:
        """The results are the operands: in a program that runs in order nothing waits."""
        for result, value in zip(op.results, op.operands, strict=False):
            self._alias(result, value)

    _stream_timepoint_await = _util_optimization_barrier = _alias_all

    def _stream_timepoint_barrier(self, op: ir.Operation) -> None:  # no code: all work before it is done
        self._alias(op.results[0], op.operands[0])
        self._names[op.results[1]] = "0"

    # ------------------------------------------------------------ work

    def _stream_cmd_execute(self, op: ir.Operation) -> None:
        """Adds the code of the region, whose arguments are the operands; the time point of the result has no code."""
        block = op.regions[0].blocks[0]
        for argument, value in zip(block.arguments, op.operands, strict=False):
            self._alias(argument, value)
        self._block(block)
        self._names[op.results[0]] = "0"

    def _nested(self, op: ir.Operation) -> None:
        self._block(op.regions[0].blocks[0])

    _stream_cmd_concurrent = _stream_cmd_serial = _nested

    def _stream_cmd_copy(self, op: ir.Operation) -> None:  # copies a part of memory to another part
        source, _, start, target, _, offset, length = self._names_of(op.operands)
        self._emit(f"memmove({target} + {offset}, {source} + {start}, {length});")

    def _stream_cmd_fill(self, op: ir.Operation) -> None:
        """A loop that sets each element of a part of memory to a value."""
        target, _, offset, length, value = self._names_of(op.operands)
        type = stored(str(op.operands[4].type))
        self._emit(f"for (size_t i = 0; i < (size_t){length} / sizeof({type}); ++i)")
        self._emit(f"  (({type} *)({target} + {offset}))[i] = ({type}){value};")

    def _stream_cmd_dispatch(self, op: ir.Operation) -> None:
        """Adds the call of a kernel, ``run(number, constants, ..., x, y, z)``, with its constants, buffers and workgroups."""
        sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        groups, values = [], list(op.operands)
        for size in sizes:
            groups.append(self._names_of(values[:size]))
            values = values[size:]
        workload, constants, resources, _, offsets, lengths = groups
        number, export = self._program.export(str(ir.ArrayAttr(op.attributes["entry_points"])[0]))
        x, y, z = self._workgroups(export, workload)
        pointers = ", ".join(f"{r} + {o}" for r, o in zip(resources, offsets, strict=True)) or "0"
        self._emit("{")
        self._emit(f"  void *bindings[] = {{{pointers}}};")
        self._emit(f"  size_t lengths[] = {{{', '.join(lengths) or '0'}}};")
        self._emit(f"  uint32_t constants[] = {{{', '.join(f'(uint32_t){c}' for c in constants) or '0'}}};")
        call = f"run({number}, constants, {len(constants)}, bindings, lengths, {len(resources)}, {x}, {y}, {z})"
        self._emit(f"  if ((status = {call})) goto done;")
        self._emit("}")

    def _workgroups(self, export: ir.Operation, workload: Sequence[str]) -> list[str]:
        """The C expressions of the workgroups of a kernel along x, y and z; their computation from the workload is added."""
        block = export.regions[0].blocks[0]
        for argument, value in zip(list(block.arguments)[1:], workload, strict=True):
            self._names[argument] = value
        *operations, terminator = block.operations
        for op in operations:
            self._operation(op.operation)
        return self._names_of(terminator.operation.operands)


def _inside(op: ir.Operation, name: str) -> list[ir.Operation]:
    """The operations with this name in the only block of an operation."""
    return [o.operation for o in op.regions[0].blocks[0].operations if o.operation.name == name]
