import threading

import numpy as np
import pytest
from deploy_support import DTYPES, need_vulkan

from nabla_mlir.array import dtype_named
from nabla_mlir.errors import DeployError
from nabla_mlir.runtime import Array, Executable

ones = np.ones(4, np.float32)


@pytest.fixture(params=["local-sync", "local-task", pytest.param("vulkan", marks=pytest.mark.vulkan)])
def executable(request, vmfb):
    if request.param == "vulkan":
        need_vulkan()
        vmfb = request.getfixturevalue("vulkan_vmfb")
    return Executable.load(vmfb, request.param)


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


def test_a_returned_argument_outlives_its_array(executable):
    x = np.arange(4, dtype=np.float32)
    (y,) = executable.function("same")([x])
    x[:] = 0
    del x
    assert y.tolist() == [0, 1, 2, 3]


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
    with pytest.raises(
        DeployError, match=r"add requires .* got: input0 shape dimension 0 mismatch; expected 4 but have 5"
    ):
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


@pytest.mark.vulkan
def test_a_module_for_another_device(vmfb, vulkan_vmfb):
    for code, driver in ((vmfb, "vulkan"), (vulkan_vmfb, "local-sync")):
        with pytest.raises(DeployError, match=f"requires a module compiled for the driver {driver}"):
            Executable.load(code, driver)
