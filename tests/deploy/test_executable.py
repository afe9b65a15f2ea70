import subprocess
import sys
import threading

import numpy as np
import pytest
from deploy_support import DTYPES
from vulkan import need_vulkan

from nabla_mlir.base.errors import DeployError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.runtime import Array, Executable
from nabla_mlir.runtime.element_types import dtype_named
from nabla_mlir.targets import CPU

ones = np.ones(4, np.float32)


DRIVERS = ["local-sync", "local-task", "asynchronous local-task", pytest.param("vulkan", marks=pytest.mark.vulkan)]


@pytest.fixture(params=DRIVERS)
def executable(request, vmfb):
    *asynchronous, driver = request.param.split()
    if driver == "vulkan":
        need_vulkan()
        vmfb = request.getfixturevalue("vulkan_vmfb")
    return Executable.load(request.getfixturevalue("asynchronous_vmfb") if asynchronous else vmfb, driver)


def test_arrays_and_numpy_in_arrays_out(executable):
    add = executable.function("add")
    (y,) = add([ones, Array.from_numpy(ones, executable.driver)])
    assert isinstance(y, Array)
    assert y.device is executable.device
    assert y.tolist() == [2, 2, 2, 2]
    (z,) = add([y, Array.from_numpy(ones, "local-sync")])
    assert z.tolist() == [3, 3, 3, 3]


def test_several_results_and_a_reduction(executable):
    x = np.arange(1024, dtype=np.float32)
    total, negated = executable.function("total")([x])
    assert float(total) == x.sum()
    assert np.array_equal(negated, -x)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype(executable, name):
    x = np.array([0, 1, 1]).astype(dtype_named(name))
    (y,) = executable.function(f"roll_{name}")([x])
    assert y.dtype == x.dtype
    assert np.array_equal(y.numpy(), x[[1, 2, 0]])


def test_f64_stays_f64(executable):
    square = executable.function("square64")
    assert "tensor<f64>" in square.declaration
    x = 1 + 2.0**-40
    assert float(square([np.float64(x)])[0]) == x * x != 1


def test_arrays_without_elements(executable):
    empty, total = executable.function("empty")([np.zeros((0, 3), np.float32)])
    assert empty.numpy().shape == (0, 3)
    assert float(total) == 0


def test_state_persists_and_a_clone_has_its_own(executable):
    store, poke, read = (executable.function(name) for name in ("store", "poke", "read"))
    x = Array.from_numpy(np.arange(4, dtype=np.float32), executable.driver)
    assert store([x]) == []
    before = read([])[0]
    poke([np.array([9], np.float32)])
    assert read([])[0].tolist() == [0, 9, 2, 3]
    assert x.tolist() == before.tolist() == [0, 1, 2, 3]  # neither the caller's array nor an earlier result changed
    other = executable.clone()
    assert other.function("read")([])[0].tolist() == [0, 0, 0, 0]
    assert read([])[0].tolist() == [0, 9, 2, 3]


def test_a_read_that_runs_is_not_overtaken_by_a_write(executable):
    """IREE orders reads of the state behind writes, and not writes behind reads."""
    store, poke, read = (executable.function(name) for name in ("store", "poke", "read"))
    x = np.arange(4, dtype=np.float32)
    for _ in range(500):
        store([x])
        before = read([])[0]
        poke([np.array([9], np.float32)])
        assert before.tolist() == [0, 1, 2, 3]


def test_a_returned_argument_outlives_its_array(executable):
    x = np.arange(4, dtype=np.float32)
    (y,) = executable.function("same")([x])
    x[:] = 0
    del x
    assert y.tolist() == [0, 1, 2, 3]


STEPS = 12
T = "tensor<384x384xf32>"
PRODUCTS = "\n".join(f"%{i + 1} = stablehlo.dot %{i}, %a : ({T}, {T}) -> {T}" for i in range(STEPS))
WORK = f"""func.func @work(%0: {T}, %a: {T}) -> {T} {{
  {PRODUCTS}
  return %{STEPS} : {T}
}}
func.func @double(%a: {T}, %storage: {T} {{iree.abi.output = 0 : index}}) -> {T} {{
  %y = stablehlo.add %a, %a : {T}
  return %y : {T}
}}"""


@pytest.fixture(scope="module")
def work():
    return Executable.load(compile_module(WORK, CPU(asynchronous=True)), "local-task")


def rotation(steps=1):
    """A permutation: its products are exact."""
    return np.roll(np.eye(384, dtype=np.float32), steps, axis=0)


def test_asynchronous_calls_return_before_they_are_done(work):
    call, a = work.function("work"), Array.from_numpy(rotation(), work.device)
    early = 0
    for _ in range(20):  # a busy machine may let this thread wait until the work is done
        (x,) = call([a, a])
        (y,) = call([x, a])  # takes what is not there yet
        early += not y.is_ready()
        assert np.array_equal(y, rotation(1 + 2 * STEPS))
        assert y.is_ready()
        assert x.is_ready()
        assert y.block_until_ready() is y
    assert early


def test_results_of_asynchronous_calls_may_be_dropped(work):
    call, a = work.function("work"), rotation()
    for _ in range(20):
        call([a, a])
    (x,) = call([a, a])
    work.wait()
    assert x.is_ready()
    assert np.array_equal(x, rotation(1 + STEPS))


def test_asynchronous_calls_write_memory_when_those_before_have_read_it(work):
    reader, a = work.clone(), Array.from_numpy(rotation(), work.device)
    memory = Array.from_numpy(rotation(), work.device)
    (x,) = reader.function("work")([memory, a])
    (written,) = work.function("double")([a, memory], storage=1)
    assert written is memory
    assert x.is_ready(), "the other executable read what is written now"
    assert np.array_equal(x, rotation(1 + STEPS))
    assert np.array_equal(memory, 2 * rotation())
    plain = np.zeros((384, 384), np.float32)
    work.function("double")([a, plain], storage=1)
    assert np.array_equal(plain, 2 * rotation())


def test_asynchronous_results_in_another_module(work):
    (x,) = work.function("work")([rotation(), rotation()])
    other = work.clone().function("double")
    (y,) = other([x, Array.empty((384, 384), np.float32, work.device)], storage=1)
    assert np.array_equal(y, 2 * rotation(1 + STEPS))


def test_a_call_that_is_refused_does_not_hold_up_the_next(work):
    call = work.function("work")
    with pytest.raises(DeployError, match="work requires the arguments it was compiled for"):
        call([rotation()])
    with pytest.raises(DeployError, match="work requires the arguments it was compiled for"):
        call([np.zeros(3, np.float32), rotation()])
    assert np.array_equal(call([rotation(0), rotation(0)])[0], rotation(0))


VIEWS = """
import sys
import numpy as np
from nabla_mlir.runtime import Executable, pooled
def view(kept):
    (y,) = Executable.load(sys.argv[1], pooled(sys.argv[2])).function("add")([np.ones(4, np.float32)] * 2)
    return y if kept else np.asarray(y)
for kept in (True, False):
    found = view(kept)
    assert found.tolist() == [2, 2, 2, 2]
    del found
"""


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_results_outlive_the_module_and_its_device(vmfb, tmp_path, driver):
    """In a process of its own: memory that went back to a device that is gone would kill it."""
    (tmp_path / "deploy.vmfb").write_bytes(vmfb)
    done = subprocess.run([sys.executable, "-c", VIEWS, tmp_path / "deploy.vmfb", driver], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_eight_threads(executable):
    add = executable.function("add")
    wrong = []

    def work(n):
        x = np.full(4, n, np.float32)
        for _ in range(50):
            (y,) = add([x, ones])
            if y.tolist() != [n + 1] * 4:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_eight_clones_at_once(vmfb):
    first = Executable.load(vmfb, "local-sync")
    results = {}

    def work(n):
        mine = first.clone()
        mine.function("store")([np.full(4, n, np.float32)])
        results[n] = mine.function("read")([])[0].tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [n] * 4 for n in range(8)}


def test_what_it_offers(executable, tmp_path, vmfb):
    assert {"add", "store", "read"} <= set(executable.functions)
    assert executable.function("add") is executable.function("add")
    assert "tensor<4xf32>" in repr(executable.function("add"))
    assert executable.driver in repr(executable)
    path = tmp_path / "a.vmfb"
    path.write_bytes(vmfb)
    assert Executable.load(path).functions == Executable.load(str(path)).functions == executable.functions


def test_wrong_calls_are_errors_that_say_what_is_wrong(vmfb):
    executable = Executable.load(vmfb)
    add = executable.function("add")
    with pytest.raises(DeployError, match=r"add requires .* got: input0 shape dimension 0 mismatch; expected 4 but have 5"):
        add([np.ones(5, np.float32), ones])
    with pytest.raises(DeployError, match=r"input1 element type mismatch; expected f32 .* but have f64"):
        add([ones, np.ones(4)])
    with pytest.raises(DeployError, match="expected 2 arguments but passed 1"):
        add([ones])
    with pytest.raises(DeployError, match=r"function requires one of add, .* got 'subtract'"):
        executable.function("subtract")
    assert add([ones, ones])[0].tolist() == [2] * 4  # and it still works


def test_damaged_modules(vmfb, tmp_path):
    for damaged in (b"", b"hello", vmfb[: len(vmfb) // 2], bytes(len(vmfb))):
        with pytest.raises(DeployError, match=rf"requires a complete .vmfb file, got {len(damaged)} bytes"):
            Executable.load(damaged)
    with pytest.raises(DeployError, match="which does not exist"):
        Executable.load(tmp_path / "none.vmfb")


def test_a_driver_that_does_not_fit(vmfb):
    with pytest.raises(DeployError, match="requires a known driver, got 'tpu'"):
        Executable.load(vmfb, "tpu")


def test_a_kernel_of_too_many_buffers(vmfb, monkeypatch):
    """IREE's own words where it has fused more than its runtime calls."""

    def refuse(*_, **__):
        raise RuntimeError("c/runtime/src/iree/hal/local/x.c:1: INVALID_ARGUMENT; binding count 49 > 32; while loading")

    monkeypatch.setattr("nabla_mlir.runtime.executable.VmContext", refuse)
    with pytest.raises(
        DeployError, match=r"requires kernels that read and write few buffers, got: binding count 49 > 32\."
    ) as error:
        Executable.load(vmfb)
    assert "optimization_barrier" in error.value.help


@pytest.mark.vulkan
def test_a_module_for_another_device(vmfb, vulkan_vmfb):
    for code, driver in ((vmfb, "vulkan"), (vulkan_vmfb, "local-sync")):
        with pytest.raises(DeployError, match=f"requires a module compiled for the driver {driver}"):
            Executable.load(code, driver)
