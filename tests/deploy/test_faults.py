"""Faults around a program: a killed compiler, no memory, no disk, forks, signals, threads, odd names, caches in use."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nabla_mlir as nm
from nabla_mlir.base.errors import CompileError, TargetError
from nabla_mlir.base.locks import cached_property, new_lock
from nabla_mlir.compiling import compiler
from nabla_mlir.compiling.compiler import clear_memory, compile_module
from nabla_mlir.targets import cpu, toolchain
from nabla_mlir.targets.toolchain import Finished

TINY = "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.add %x, %x : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}"
HEAD = "import os, sys, threading, numpy as np, nabla_mlir as nm, nabla_mlir.numpy as nnp\n"


def python(program: str, *arguments: str, timeout: float = 120, **environment: str | None) -> str:
    """The output of a program in a separate process; None removes a variable of the environment."""
    variables = {name: value for name, value in (os.environ | environment).items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program, *arguments], capture_output=True, text=True, timeout=timeout, env=variables
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("end", "condition", "help"),
    [
        (
            Finished(-signal.SIGKILL, b"", ""),
            "a compiler that nobody ends, got an end of the compiler .SIGKILL.",
            "memory is short",
        ),
        (Finished(-signal.SIGTERM, b"", ""), "a compiler that nobody ends, got an end of the compiler .SIGTERM.", "call it again"),
        (Finished(-signal.SIGXFSZ, b"", ""), "room for its files in ", "set TMPDIR to a folder that has more"),
        (
            Finished(1, b"", "iree-lld: error: /tmp/a.o: section header table goes past the end of the file"),
            "room for its files",
            "TMPDIR",
        ),
        (Finished(1, b"", "error: No space left on device"), "room for its files in .*exit code 1", "TMPDIR"),
        (
            Finished(-signal.SIGABRT, b"", "LLVM ERROR: out of memory\nAllocation failed"),
            "memory and threads, got .*SIGABRT",
            "ulimit -v",
        ),
        (Finished(-signal.SIGABRT, b"", "LLVM ERROR: pthread_create failed"), "memory and threads", "ulimit -u"),
        (
            Finished(127, b"", "error while loading shared libraries: a.so: failed to map segment"),
            "memory and threads",
            "ulimit -v",
        ),
    ],
)
def test_what_the_machine_does_not_give_the_compiler_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: Finished, condition: str, help: str
) -> None:
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler, "run_compiler", lambda *_, **__: end)
    with pytest.raises(CompileError, match=f"(?s)compiling requires {condition}.*{help}"):
        compile_module(TINY, "cpu", cache=False)


@pytest.mark.skipif(not toolchain._bound_to_parent(), reason="needs setpriv of util-linux")
def test_a_compiler_ends_with_the_process_that_waits_for_it() -> None:
    """Nobody would stop it: one of 13 GB ran for half an hour after its process was killed."""
    program = (
        "import pathlib; from nabla_mlir.targets import toolchain\n"
        "toolchain.iree_compile = lambda: pathlib.Path('/bin/sleep')\n"
        "toolchain._bound_to_parent(); print('ready', flush=True); toolchain.run_compiler(['100'], b'', program='sleep')"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        child = _awaited(lambda: next((int(n) for n in children.read_text().split() if "sleep" in _command(int(n))), None))
        process.kill()
    assert _awaited(lambda: not _command(child)) is True


def _command(process: int) -> str:
    """The command line of a process that is not setpriv; "" if it has ended."""
    try:
        words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    return "" if "setpriv" in words[0] else words[0]


def _awaited(value: Callable[[], Any]) -> Any:
    """The first result of a function that is not empty, within ten seconds."""
    for _ in range(1000):
        if found := value():
            return found
        time.sleep(0.01)
    return None


def test_a_compiler_that_cannot_start_is_no_unknown_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "run_compiler", lambda *_, **__: Finished(127, b"", "iree-compile: failed to map segment\nmore"))
    with pytest.raises(
        TargetError, match=r"(?s)a compiler that describes it, got iree-compile: failed to map segment\..*ulimit -v"
    ):
        cpu._described.__wrapped__("host", "")


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [(resource.RLIMIT_FSIZE, 1000, "room for its files"), (resource.RLIMIT_AS, 300 << 20, "memory and threads")],
)
def test_limits_of_the_real_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: int, most: int, message: str) -> None:
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    flags, real = nm.CPU().flags(), subprocess.Popen
    assert flags

    def limited(*arguments: Any, **options: Any) -> Any:
        return real(*arguments, **options, preexec_fn=lambda: resource.setrlimit(limit, (most, most)))

    monkeypatch.setattr(subprocess, "Popen", limited)
    with pytest.raises(CompileError, match=message):
        compile_module(TINY, cache=False)


def test_a_cache_that_is_damaged_while_in_use_or_has_times_of_another_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    whole = compile_module(TINY)
    (entry,) = (tmp_path / "vmfb").glob("*/*")

    def grown() -> None:
        entry.write_bytes(entry.read_bytes() + b"?")

    def moved() -> None:
        entry.parent.rename(tmp_path / "away")

    def replaced() -> None:
        entry.unlink()
        entry.mkdir()

    for damage in (grown, lambda: os.utime(entry, (4e9, 4e9)), lambda: os.utime(entry, (-1e6, -1e6)), moved, replaced):
        damage()
        clear_memory()
        assert compile_module(TINY) == whole
    clear_memory()


NAMES = """
f = nm.trace(lambda x: nnp.sum(x * x), nm.spec(2), name="f").lower().compile()
for path in ("ö ö.zip", "é/é", "a folder ü/"):
    print(float(nm.load(f.save(path)).f(np.ones(2, np.float32))))
"""


def test_no_home_no_shared_memory_and_odd_names(tmp_path: Path) -> None:
    """Without HOME the cache is where the user's entry says; without that it is somewhere that cannot be written."""
    folder = tmp_path / "with spaces, ü, 'quotes'"
    folder.mkdir()
    program = f"os.chdir({str(folder)!r})\n" + NAMES
    cache = str(folder / "cä che")
    assert python(program, NABLA_MLIR_CACHE_DIR=cache, LC_ALL="C", PYTHONCOERCECLOCALE="0").split() == ["2.0"] * 3
    assert list(Path(cache).glob("vmfb/*/*"))
    assert python("print(float(nm.jit(lambda x: x + x)(1.0)))", HOME="/nonexistent", NABLA_MLIR_CACHE_DIR=None).split() == ["2.0"]


def test_a_file_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    with open(folder + b"/model.py", "w") as file:
        file.write(
            "import nabla_mlir as nm\ntry:\n  nm.jit(lambda x: x + x)(1.0)\nexcept nm.errors.TraceError as error:\n  print(error)\n"
        )
    done = subprocess.run([sys.executable, folder + b"/model.py"], capture_output=True, text=True)
    assert "tracing requires files whose names are UTF-8, got" in done.stdout
    assert "PYTHONUTF8=1" in done.stdout


FORK = """
x = np.ones((400, 400), np.float32)
square, cubes = nm.jit(lambda x: x @ x), nm.jit(lambda x: nnp.sum(x**3))
loaded = nm.trace(lambda x: nnp.sum(nnp.sin(x)), nm.spec(10**6), name="f").lower().compile().loaded
large = np.zeros(10**6, np.float32)
print(float(square(x)[0, 0]), float(cubes(np.arange(3.0))), flush=True)
done = threading.Event()

def calls():
    while not done.is_set():
        loaded.f(large)

def compilations():
    k = 0
    while not done.is_set():
        nm.jit(lambda x: x * k)(1.0)
        k += 1

threads = [threading.Thread(target=calls), threading.Thread(target=compilations)]
for thread in threads:
    thread.start()
for i in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        assert float(square(x)[0, 0]) == 400 and float(cubes(np.arange(3.0))) == 9   # loaded anew where that is needed
        assert float(nm.jit(lambda x: x + i)(1.0)) == 1 + i and float(nm.grad(lambda x: x * x)(3.0)) == 6
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7   # not any child: the compiler is one too
done.set()
for thread in threads:
    thread.join()
print(float(square(x)[0, 0]))
"""


@pytest.mark.slow
def test_forks_while_other_threads_compile_and_call() -> None:
    """What they held (locks, IREE's state) is free in the fork: compiled functions are loaded anew there."""
    assert python(FORK, "8").split() == ["400.0", "9.0", "400.0"]


def test_locks_and_computed_attributes_outlive_a_fork() -> None:
    lock = new_lock()
    with lock:
        child = os.fork()
        if not child:
            os._exit(0 if lock.acquire(timeout=5) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    class Twice:
        calls = 0

        @cached_property
        def inner(self) -> int:
            self.calls += 1
            return 1 if self.calls == 2 else self.inner  # as another thread would, while this one computes

    value = Twice()
    assert (value.inner, value.inner, value.calls) == (1, 1, 2)
    assert isinstance(Twice.inner, cached_property)


INTERRUPTED = """
import random, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
rng, counts = random.Random(int(sys.argv[1])), [0, 0]
cubes = nm.jit(lambda x: nnp.sum(x**3))

def f(k):
    return lambda x: nnp.sum(nnp.sin(x * k)) + nnp.sum(nnp.linalg.inv(x[:, None] * x[None] + nnp.eye(3)))

def use(k):
    slope = np.asarray(nm.jit(nm.grad(f(k)))(np.arange(3.0)))
    nm.HessianOperator(f(k), np.ones(3)) @ np.ones(3)
    assert float(cubes(np.arange(3.0))) == 9
    return slope

right = {k: use(k) for k in (1.5, 2.5)}
start = time.monotonic()
while time.monotonic() - start < float(sys.argv[2]):
    k = rng.choice([1.5, 2.5, rng.random()])
    timer = threading.Timer(rng.random() * rng.choice([0.01, 0.1, 0.5]), os.kill, [os.getpid(), signal.SIGINT])
    try:
        timer.start()
        use(k)
        timer.join()
        time.sleep(0.1)
    except KeyboardInterrupt:
        counts[0] += 1
    while timer.ident is not None and timer.is_alive():
        time.sleep(0.01)
    counts[1] += 1
    slope = np.asarray(nm.grad(f(k))(np.arange(3.0)))
    assert k not in right or np.allclose(slope, right[k])
    assert float(cubes(np.arange(3.0))) == 9
print(counts[0] > 0.5 * counts[1])
"""


@pytest.mark.slow
def test_interrupts_at_random_moments_are_interrupts_and_leave_all_in_order() -> None:
    """MLIR hands over errors of functions that it calls as text: they come out as KeyboardInterrupt all the same."""
    assert python(INTERRUPTED, str(int.from_bytes(os.urandom(2), "big")), "8") == "True\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit("3"), TimeoutError("late"), MemoryError()])
def test_what_a_signal_raises_in_a_walk_of_mlir(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    from iree.compiler import ir

    from nabla_mlir.dialects.regions import nested

    class Interrupting:
        @property
        def ADVANCE(self) -> Any:
            raise error

    module = nm.trace(lambda x: x + x, np.ones(2)).module.operation
    monkeypatch.setattr(ir, "WalkResult", Interrupting())
    with pytest.raises(type(error), match=str(error)):
        nested(module)


SWITCHING = """
sys.setswitchinterval(1e-6)
functions = [lambda x, k=k: nnp.sum(nnp.sin(x * k) ** 2) + k for k in range(8)]
squares, H, errors = nm.jit(lambda x: nnp.sum(x * x)), nm.HessianOperator(lambda x: nnp.sum(x**4), np.ones(3)), []

def work(i):
    try:
        for k in [(i * 5 + j) % 8 for j in range(16)]:
            for slope in (nm.jit(nm.grad(functions[k])), nm.grad(functions[k])):
                assert abs(float(slope(np.float64(0.5))) - k * np.sin(k)) < 1e-12
            assert float(squares(np.arange(4.0))) == 14 and np.allclose(H @ np.ones(3), 12)
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=work, args=[i]) for i in range(5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(errors)
"""


@pytest.mark.slow
def test_threads_that_take_turns_after_each_step() -> None:
    assert python(SWITCHING) == "[]\n"


ASYNC = """
import asyncio
slope = nm.jit(nm.grad(lambda x: nnp.sum(nnp.sin(x))))

async def one(k):
    here = slope(np.full(3, float(k)))
    await asyncio.sleep(0)
    there = await asyncio.to_thread(nm.grad(lambda x: x**2 + k), float(k))
    return abs(float(here[0]) - np.cos(k)) < 1e-12 and float(there) == 2 * k

async def leak():
    found = []
    nm.jit(lambda x: found.append(x) or x)(1.0)
    await asyncio.sleep(0)
    return found[0] + 1

async def main():
    print(all(await asyncio.gather(*(one(k) for k in range(5)))))
    try:
        await leak()
    except nm.errors.LeakedTracerError:
        print("leaked")

asyncio.run(main())
"""


def test_tasks_of_asyncio() -> None:
    assert python(ASYNC).split() == ["True", "leaked"]


EXIT = """
import atexit, builtins
x = nnp.arange(1e5)
double, square = nm.jit(lambda x: x * 2), nm.jit(lambda a: a @ a)
builtins.held = [x, double(x), square(np.ones((300, 300))), nm.HessianOperator(lambda x: nnp.sum(x**4), np.ones(5))]
builtins.held.append(builtins.held)
atexit.register(lambda: print(float(double(3.0)), float(nm.jit(lambda x: x + 3)(1.0)), np.asarray(builtins.held[1])[1]))

short = nm.trace(lambda x: nnp.sin(x) * 2, nm.spec(30000), name="f").lower()
called = {
    "threads": square, "compiled": short.compile(), "interpreted": short.compile(nm.Interpreter()),
    "eager": lambda x: nnp.cumsum(nnp.sin(x[:5])), "gradients": lambda x: nm.grad(lambda x: nnp.sin(x).sum())(x[:5]),
    "traces": lambda x: nm.trace(lambda x: nnp.sin(x) * 2, nm.spec(5), name="f").lower(),
}

def loop():
    x = np.ones(30000, np.float32) if way != "threads" else np.ones((200, 200))
    while True:
        called[way](x)

way = sys.argv[1]
if way != "plain":
    threading.Thread(target=loop, daemon=True).start()
    threading.Event().wait(0.1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "threads", "compiled", "interpreted", "eager", "gradients", "traces"])
def test_the_interpreter_ends_with_arrays_alive(way: str) -> None:
    assert python(EXIT, way).split() == ["6.0", "4.0", "2.0"]


@pytest.mark.slow
def test_many_processes_on_one_cold_cache(tmp_path: Path) -> None:
    program = HEAD + "print(float(nm.jit(lambda x: nnp.sum(x**3))(np.arange(4.0))))"
    environment = os.environ | {"NABLA_MLIR_CACHE_DIR": str(tmp_path)}
    processes = [subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) for _ in range(12)]
    assert [process.communicate()[0].strip() for process in processes] == [b"36.0"] * 12
    assert len(list(tmp_path.glob("vmfb/*/*"))) == 2, "the artifact and its check, and no temporary file"


@pytest.mark.parametrize("driver", ["local-sync", "local-task"])
def test_memory_and_threads_stay_as_they_are(driver: str) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc")

    def held() -> tuple[int, int]:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(), len(os.listdir("/proc/self/task"))

    content, x = (
        nm.trace(lambda x: nm.numpy.sum(nm.numpy.sin(x)), np.ones(1000), name="f").lower().compile().to_bytes(),
        np.ones(1000),
    )

    def use() -> None:
        for _ in range(40):
            module = nm.load(content, driver)
            for _ in range(100):
                module.f(x)

    use()
    memory, threads = held()
    use()
    assert held()[0] < memory + (4 << 20)
    assert held()[1] <= threads
