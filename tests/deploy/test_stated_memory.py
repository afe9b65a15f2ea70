"""The memory of a call that a manifest states is the memory that the allocator counts."""

import subprocess
import sys

import numpy as np
import pytest

import nabla_mlir as nm
import nabla_mlir.numpy as nnp
from nabla_mlir import runtime
from nabla_mlir.compiling.internals.memory import allocated_at_once

X = np.linspace(-1, 1, 300 * 300, dtype=np.float32).reshape(300, 300)
PLACES = np.arange(300, dtype=np.int32)[::-1].copy()


def chain(x):
    for _ in range(4):
        x = nnp.tanh(x @ x)
    return x.sum()


def recurrence(x):
    h, ys = nm.scan(lambda h, row: (nnp.tanh(h @ x + row), h.sum()), x[:100], x[:40])
    return (h * h).sum() + ys.sum()


def until(x):
    return nm.while_loop(lambda y: y.max() < 8.0, lambda y: abs(nnp.tanh(y @ x)) + y, x)


def choice(x):
    return nm.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: nnp.sin(x @ (x @ x).T) @ x, x)


def scatter(x, positions):
    for _ in range(3):
        x = nnp.zeros((900, 300), x.dtype).at[positions].add(x @ x)[:300]
    return x, x[0]


PROGRAMS = {
    "product": (lambda x: x @ x, (X,)),
    "gradient": (nm.grad(chain), (X,)),
    "sum of products": (lambda x: x @ x + x.T @ x, (X,)),
    "loop": (nm.grad(recurrence), (X,)),
    "scatter": (scatter, (X, PLACES)),
    "until": (until, (X,)),
    "nothing": (lambda x: x, (X,)),
}


COUNT = """
import sys
import numpy as np
from nabla_mlir import runtime
vmfb, inputs = sys.argv[1:]
device = runtime.device("local-sync")
function = runtime.Executable.load(vmfb, device).function("f")
with np.load(inputs) as file:
    given = [runtime.Array.from_numpy(file[key], device) for key in file.files]
before = device.hal.allocator.statistics
results = function(given)
print(device.hal.allocator.statistics["device_bytes_peak"] - before["device_bytes_allocated"] + before["device_bytes_freed"])
"""


def counted(vmfb, arguments, folder):
    """The bytes that a call allocates at once, in a process of its own, for all devices of which one allocator counts."""
    (folder / "count.vmfb").write_bytes(vmfb)
    np.savez(folder / "count.npz", *arguments)
    command = [sys.executable, "-c", COUNT, folder / "count.vmfb", folder / "count.npz"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_stated_is_what_is_allocated(name, tmp_path):
    f, arguments = PROGRAMS[name]
    compiled = nm.trace(f, *arguments, name="f").lower().compile()
    stated = compiled.memory["f"]
    assert stated.arguments == sum(a.nbytes for a in arguments)
    assert 0 <= stated.allocated - counted(compiled.vmfb, arguments, tmp_path) < 64  # a condition that is read back
    assert compiled.cost()["f"].peak_bytes == stated.peak
    (code,) = runtime.load(compiled.save(tmp_path / "f.vmfb")).manifest.code
    assert code.memory == {"f": stated}


def test_the_dearest_branch_counts(tmp_path):
    """Whichever is taken; values decide."""
    compiled = nm.trace(choice, X, name="f").lower().compile()
    taken = [counted(compiled.vmfb, [x], tmp_path) for x in (X, -X)]
    assert taken[0] != taken[1]
    assert compiled.memory["f"].allocated == max(taken)


def test_a_sum_that_is_made_in_place_has_no_copy():
    """The second product is added to the first one in the memory of the result; each packs its factors in its turn."""
    x = nm.spec((500, 500))  # whose products are packed on every machine
    one, two = (nm.trace(PROGRAMS[n][0], x, name="f").lower().compile().memory["f"] for n in ("product", "sum of products"))
    assert one.results == two.results == 500 * 500 * 4
    assert two.allocated < one.allocated + one.results


def test_results_are_no_transients():
    compiled = nm.trace(lambda x: nnp.sin(x) + 1, X, name="f").lower().compile()
    assert (compiled.memory["f"].results, compiled.memory["f"].transients) == (X.nbytes, 0)


def test_sizes_that_values_decide_are_not_stated():
    text = """vm.func @f(%r0: !vm.ref<?>, %i0: i64) -> () {
^bb0:
  %r1 = vm.call @hal.device.queue.alloca(%r0, %i2, %r3, %r4, %i2, %i5, %i5, %i0, %i2)
  vm.return %R1
"""
    assert allocated_at_once(text) == {}


def test_what_an_allocator_gives_is_not_given_back_on_a_queue():
    text = """vm.func @f(%r0: !vm.ref<?>) -> () {
^bb0:
  %i0:1 = vm.const.i64 4096  // 0x0000000000001000
  %r1 = vm.call @hal.allocator.allocate(%r0, %i2, %i3, %i4, %i0)
  vm.call @hal.device.queue.dealloca(%r0, %i2, %r3, %r4, %r1, %i2)
  %r2 = vm.call @hal.device.queue.alloca(%r0, %i2, %r3, %r4, %i2, %i5, %i5, %i0, %i2)
  vm.return %R1
"""
    assert allocated_at_once(text) == {"f": 8192}
