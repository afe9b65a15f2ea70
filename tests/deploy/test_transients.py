"""Intermediate values of large functions are in memory that the next call reuses, and that calls of other functions free."""

from __future__ import annotations

import logging
import re
import resource
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from iree.compiler import ir

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir.base import thresholds
from nabla_mlir.compiling.internals.arena import place_in_arena
from nabla_mlir.compiling.internals.disassembly import functions
from nabla_mlir.compiling.internals.transients import set_sizes
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.runtime import scratch
from nabla_mlir.runtime.scratch import REFLECTED
from nabla_mlir.targets.toolchain import disassembled

ROWS = 4608
WIDE, TALL = nm.spec((ROWS, 16)), nm.spec((16, ROWS))


def spread(x, y):
    """Some 80 MB of products, of which two sums are taken."""
    z = x @ y
    return (z - z.max(axis=1, keepdims=True)).sum(axis=0), z.sum()


def truth(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    z = x.astype(np.float64) @ y
    return (z - z.max(axis=1, keepdims=True)).sum(axis=0), z.sum()


def arguments(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=WIDE.shape).astype(np.float32), rng.normal(size=TALL.shape).astype(np.float32)


def check(found, args: tuple[np.ndarray, np.ndarray]) -> None:
    for ours, wanted in zip(found, truth(*args), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.fixture(scope="module")
def compiled() -> nm.Compiled:
    return nm.trace(spread, WIDE, TALL, name="spread").lower().compile()


def faults(call) -> int:
    """The pages that a call touches for the first time."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_calls_find_their_memory_again(compiled: nm.Compiled) -> None:
    args = arguments(0)
    for _ in range(3):
        check(compiled(*args), args)
    device_args = [nnp.asarray(x) for x in args]
    compiled(*device_args)
    assert min(faults(lambda: compiled(*device_args)) for _ in range(5)) < 4 * ROWS * ROWS / 4096 / 10


def test_jit_finds_it_again() -> None:
    f = nm.jit(spread)
    args = [nnp.asarray(x) for x in arguments(0)]
    check(f(*args), arguments(0))
    assert min(faults(lambda: f(*args)) for _ in range(5)) < 4 * ROWS * ROWS / 4096 / 10


def test_the_size_is_said(compiled: nm.Compiled) -> None:
    memory = compiled.memory["spread"]
    assert 4 * ROWS * ROWS <= memory.transients < 4.2 * ROWS * ROWS
    said = int(compiled.loaded.executable.function("spread")._vm.reflection[REFLECTED])
    assert 4 * ROWS * ROWS <= said <= memory.transients
    assert "transients_size" not in disassembled(compiled.vmfb)


def test_threads_have_memory_of_their_own(compiled: nm.Compiled) -> None:
    found: dict[int, list] = {k: [] for k in range(3)}

    def work(k: int) -> None:
        for _ in range(3):
            found[k].append([np.asarray(x) for x in compiled(*arguments(k))])

    threads = [threading.Thread(target=work, args=(k,)) for k in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, results in found.items():
        for result in results:
            check(result, arguments(k))


@pytest.mark.slow
def test_calls_that_overlap_have_memory_of_their_own() -> None:
    lowered = nm.trace(spread, WIDE, TALL, name="spread").lower()
    compiled = lowered.compile(nm.CPU(asynchronous=True))
    results = [compiled(*arguments(k)) for k in (0, 1, 0, 2)]
    for k, found in zip((0, 1, 0, 2), results, strict=True):
        check(found, arguments(k))


@pytest.mark.slow
def test_checkpoints_keep_what_they_save() -> None:
    """Between barriers IREE allocates and frees: one buffer would have room for all of it at once."""

    def f(x, y):
        part = nm.checkpoint(lambda z: nnp.sort(z, axis=0) * z)
        z = x @ y
        return (part(part(z)) ** 2).sum()

    compiled = nm.trace(nm.grad(f), WIDE, TALL, name="f").lower().compile(cache=False)
    assert REFLECTED.encode() not in compiled.vmfb


@pytest.mark.slow
def test_derivatives_keep_their_numbers() -> None:
    """With the buffer and without, bit for bit; arguments stay as they are."""

    def f(x, y):
        z = nnp.tanh(x @ y)
        return (z * z[:, ::-1]).sum()

    lowered = nm.trace(nm.value_and_grad(f, (0, 1)), WIDE, TALL, name="f").lower()
    args = arguments(3)
    copies = [x.copy() for x in args]
    with_buffer = lowered.compile(cache=False)
    assert REFLECTED.encode() in with_buffer.vmfb
    found = [np.asarray(x) for x in nm.jax.tree.leaves(with_buffer(*args))]
    again = [np.asarray(x) for x in nm.jax.tree.leaves(with_buffer(*args))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "PLACED_TRANSIENTS", 1 << 60)
        without = lowered.compile(cache=False)
    assert REFLECTED.encode() not in without.vmfb
    plain = [np.asarray(x) for x in nm.jax.tree.leaves(without(*args))]
    for a, b, c in zip(found, again, plain, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
    assert all(np.array_equal(x, y) for x, y in zip(args, copies, strict=True))


def test_what_iree_refuses_is_compiled_without(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: ir.Module) -> None:
        raise ValueError("a size that depends on values")

    monkeypatch.setattr("nabla_mlir.compiling.strategies.set_sizes", refuse)
    with caplog.at_level(logging.WARNING, "nabla_mlir.compile"):
        compiled = nm.trace(spread, WIDE, TALL, name="spread").lower().compile(cache=False)
    assert REFLECTED.encode() not in compiled.vmfb
    assert "a size that depends on values" in caplog.text
    check(compiled(*arguments(0)), arguments(0))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "a buffer whose size nothing says"),
        ("util.func public @f_transients_size(%arg0: index) -> index { util.return %arg0 : index }", "depends on values"),
        (
            """util.func public @g(%x: !stream.resource<external>, %n: index) {
           %0 = stream.cmd.execute with(%x as %a: !stream.resource<external>{%n}) { stream.cmd.dispatch @e::@d {
             rw %a[%n for %n] : !stream.resource<external>{%n}
           } } => !stream.timepoint
           %1 = stream.cmd.execute with(%x as %a: !stream.resource<external>{%n}) { stream.cmd.dispatch @e::@d {
             rw %a[%n for %n] : !stream.resource<external>{%n}
           } } => !stream.timepoint
           util.return
         }
         util.func public @g_transients_size() -> index { %n = arith.constant 8 : index util.return %n : index }""",
            "several executions in g",
        ),
    ],
)
def test_sizes_that_are_not_said(query: str, message: str) -> None:
    text = """util.func public @f(%arg0: index) -> index attributes {iree.reflection = {}} {
      %size = arith.constant 474080242785 : index
      util.return %size : index
    }"""
    with pytest.raises(ValueError, match=message):
        set_sizes(parse_module(text + query))


# ---------------------------------------------------------------- functions with loops


def turned(w, xs):
    """A scan, of which the backward pass reads what each turn has computed."""
    return (nm.scan(lambda h, x: (nnp.tanh(h @ w + x), None), xs[0] * 2, xs)[0] ** 2).sum()


def allocations(vmfb: bytes, name: str) -> tuple[int, int]:
    """How often a function allocates on a queue outside of loops, and in them: those end where they began."""
    blocks = functions(disassembled(vmfb))[name]
    jumps = {label: {target for i in block for target, _ in i.branches} for label, block in blocks.items()}
    counts = [0, 0]
    for label, block in blocks.items():
        work, seen = list(jumps[label]), set[str]()
        while work:
            if (other := work.pop()) not in seen:
                seen.add(other)
                work += jumps[other]
        counts[label in seen] += sum("@hal.device.queue.alloca" in i.operands for i in block)
    return counts[0], counts[1]


def test_loops_allocate_only_in_their_turns() -> None:
    """The rest is in the buffer: numbers are the same, bit for bit, and calls allocate no more, with results held."""
    lowered = nm.trace(nm.hvp(turned), *[nm.spec((64, 64))] * 2, nm.spec((40, 64, 64)), name="f").lower()
    plain = lowered.compile()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "PLACED_TRANSIENTS", 1)
        placed = lowered.compile()
    (before, turns), after = (allocations(compiled.vmfb, "f") for compiled in (plain, placed))
    assert before >= 2
    assert after == (0, turns)
    said = int(placed.loaded.executable.function("f")._vm.reflection[REFLECTED])
    assert 40 * 64 * 64 * 4 < said <= placed.memory["f"].allocated < 1.1 * plain.memory["f"].allocated
    rng = np.random.default_rng(5)
    args = [nnp.asarray(0.1 * rng.normal(size=shape).astype(np.float32)) for shape in ((64, 64), (64, 64), (40, 64, 64))]
    held = [np.asarray(plain(*args))]
    allocator = placed.loaded.executable.device.hal.allocator
    for _ in range(3):
        held = [*held[-2:], placed(*args)]
    taken = allocator.statistics["device_bytes_allocated"]
    for _ in range(30):
        held = [*held[-2:], placed(*args)]
    assert allocator.statistics["device_bytes_allocated"] < taken + said  # a result more at times, but no buffer
    for found in held:
        assert np.asarray(found).tobytes() == np.asarray(plain(*args)).tobytes()


def test_memory_is_shared_behind_an_end_alone() -> None:
    """A call that reuses memory waits for the call before; results are not in the buffer.

    Nor is what is gone before a loop and has no room beside the rest.
    """
    fill = "stream.cmd.execute await(%{0}) => with(%{1} as %x: !stream.resource<{3}>{{%{2}}}) {{"
    fill += " stream.cmd.fill %zero, %x[%o for %{2}] : i32 -> !stream.resource<{3}>{{%{2}}} }} => !stream.timepoint"
    module = parse_module(f"""util.func public @f() -> !stream.resource<external> {{
      %zero = arith.constant 0 : i32
      %o = arith.constant 0 : index
      %n = arith.constant 1024 : index
      %m = arith.constant 4096 : index
      %k = arith.constant 8192 : index
      %d, %td = stream.resource.alloca uninitialized : !stream.resource<transient>{{%k}} => !stream.timepoint
      %ud = {fill.format("td", "d", "k", "transient")}
      %ed = stream.resource.dealloca await(%ud) => %d : !stream.resource<transient>{{%k}} => !stream.timepoint
      %a, %ta = stream.resource.alloca uninitialized : !stream.resource<transient>{{%n}} => !stream.timepoint
      %b, %tb = stream.resource.alloca uninitialized await(%ta) => !stream.resource<transient>{{%m}} => !stream.timepoint
      %ub = {fill.format("tb", "b", "m", "transient")}
      %eb = stream.resource.dealloca await(%ub) => %b : !stream.resource<transient>{{%m}} => !stream.timepoint
      %c, %tc = stream.resource.alloca uninitialized : !stream.resource<transient>{{%m}} => !stream.timepoint
      %uc = {fill.format("tc", "c", "m", "transient")}
      %ua = {fill.format("uc", "a", "n", "transient")}
      %r, %tr = stream.resource.alloca uninitialized await(%ua) => !stream.resource<external>{{%n}} => !stream.timepoint
      %ur = {fill.format("tr", "r", "n", "external")}
      %result = stream.timepoint.await %ur => %r : !stream.resource<external>{{%n}}
      util.return %result : !stream.resource<external>
    }}""")
    (function,) = (op.operation for op in module.body.operations)
    with module.context, ir.Location.unknown():
        assert place_in_arena(function) == 4096 + 1024
    operations = [op.operation for op in function.regions[0].blocks[0].operations]
    assert module.operation.verify()
    sizes = [str(op.operands[0].owner) for op in operations if op.name == "stream.resource.alloca"]
    assert [re.search(r"\d+ : index", size)[0] for size in sizes] == ["8192 : index", "1024 : index"]
    _, *executions = [op for op in operations if op.name == "stream.cmd.execute"]
    waits = [op for op in operations if op.name == "stream.timepoint.join" and executions[0].results[0] in op.operands]
    assert len(waits) == 1


class Trimmed:
    """A device whose allocator counts how often it gave memory back, and the bytes that it took."""

    def __init__(self) -> None:
        self.count = 0
        self.statistics = {"device_bytes_allocated": 0}
        self.hal = SimpleNamespace(allocator=SimpleNamespace(trim=self.trim, statistics=self.statistics))

    def trim(self) -> None:
        self.count += 1


def test_functions_that_ran_before_give_their_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_recent", type(scratch._recent)())
    monkeypatch.setattr(thresholds, "POOLED_TRANSIENTS", 100)
    devices = [Trimmed() for _ in range(4)]
    calls = [scratch.keeping(lambda *_: None, device, size) for device, size in zip(devices, (60, 60, 30, 1000), strict=True)]

    def counts(*order: int) -> list[int]:
        for k in order:
            calls[k]()
        return [device.count for device in devices]

    assert counts(0, 0, 1) == [0, 0, 0, 0]  # 60 beside the one that runs
    assert counts(2) == [1, 0, 0, 0]  # 120 would be too many: the oldest goes
    assert counts(1, 2, 1) == [1, 0, 0, 0]
    assert counts(3) == [1, 0, 0, 0]  # 90 are kept, whatever the one that runs has
    assert counts(0) == [1, 1, 1, 1]  # all that is left beside it is more than may be kept
    del calls[:2]
    assert counts(0) == [1, 1, 1, 1]  # those that are gone are forgotten


class Results(list[int]):
    """The arguments of a call: arrays of so many bytes, and the version of a state."""

    def get_variant(self, place: int) -> object:
        return 1 if self[place] == 0 else object()

    def get_as_object(self, place: int, kind: type) -> SimpleNamespace:
        assert self[place]
        return SimpleNamespace(byte_length=self[place])


def test_a_second_buffer_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a call has taken because the first was not free yet; but not the first, none of calls that overlap, no results."""
    monkeypatch.setattr(scratch, "_recent", type(scratch._recent)())
    device = Trimmed()

    def take(size: int, results: Results) -> None:
        device.statistics["device_bytes_allocated"] += size

    def counts(call, *sizes: int, results: tuple[int, ...] = ()) -> list[int]:
        device.count, found = 0, []
        for size in sizes:
            call(size, Results(results))
            found.append(device.count)
        return found

    assert counts(scratch.keeping(take, device, 100), 100, 30, 100, 100, 0, 130) == [0, 0, 1, 1, 1, 2]
    assert counts(scratch.keeping(take, device, 100), 400, 300, 399, 400, results=(100, 0, 200)) == [0, 0, 0, 1]
    assert counts(scratch.keeping(take, device, 100, overlaps=True), 100, 100, 100) == [0, 0, 0]
    nested = scratch.keeping(lambda size, r: nested(size - 100, r) if size else take(100, r), device, 100)
    assert counts(nested, 200, 200) == [0, 0]
