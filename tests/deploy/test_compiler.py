import subprocess
import sys
from pathlib import Path

import pytest

from nabla_mlir.base import thresholds
from nabla_mlir.base.errors import CompileError
from nabla_mlir.compiling import compiler
from nabla_mlir.compiling.compiler import clear_memory, compile_module
from nabla_mlir.compiling.lowering import compile_lowered
from nabla_mlir.dialects.context import bytecode_of, parse_module
from nabla_mlir.targets import CPU, CUDA, Vulkan, toolchain


def module(type, operation):
    return f"func.func @f(%x: {type}) -> {type} {{\n  %0 = {operation}\n  return %0 : {type}\n}}"


TINY = module("tensor<2xf32>", "stablehlo.add %x, %x : tensor<2xf32>")
CRASH = module("tensor<2xf32>", '"ad.no"(%x) : (tensor<2xf32>) -> tensor<2xf32>')
REFUSED = module("tensor<4x4xf32>", "stablehlo.cholesky %x : tensor<4x4xf32>")
# A convolution whose code, in small workgroups, only the verifier refuses.
WIDE = """
func.func @f(%x: tensor<4x8x8x128xf32>, %w: tensor<3x3x128x128xf32>) -> tensor<4x8x8x128xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]], reverse = [true, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<4x8x8x128xf32>, tensor<3x3x128x128xf32>) -> tensor<4x8x8x128xf32>
  return %0 : tensor<4x8x8x128xf32>
}"""
NARROW = WIDE.replace("128", "2")
RUNNING = """
func.func @f(%x: tensor<8xf32>, %zero: tensor<f32>) -> tensor<8xf32> {
  %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 3>, padding = dense<[[1, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
PADDED = """
func.func @f(%x: tensor<7xf32>, %zero: tensor<f32>) -> tensor<8xf32> {
  %0 = stablehlo.pad %x, %zero, low = [1], high = [0], interior = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
SINE = module("tensor<2xf64>", "stablehlo.sine %x : tensor<2xf64>")


def located(source, file, line, column):
    return source.replace("\n  return", f' loc("{file}":{line}:{column})\n  return')


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path / "cache"))
    clear_memory()
    yield tmp_path / "cache"
    clear_memory()


@pytest.fixture
def runs(monkeypatch):
    """The compiler runs so far."""
    seen = []

    def run(arguments, stdin, **options):
        seen.append(arguments)
        return toolchain.run_compiler(arguments, stdin, **options)

    monkeypatch.setattr(compiler, "run_compiler", run)
    return seen


def test_an_operation_that_iree_does_not_know_is_named(own_cache):
    source = module("tensor<2xf32>", '"example.gauss"(%x) : (tensor<2xf32>) -> tensor<2xf32>')
    with pytest.raises(CompileError, match=r"requires operations that IREE knows, got example\.gauss(.|\n)*CONTRIBUTING"):
        compile_lowered(parse_module(source), CPU(), cache=False)


def test_a_crash_of_the_compiler_is_an_error_with_a_reproducer(own_cache):
    with pytest.raises(CompileError, match=r"got a crash of the compiler \(SIGSEGV\)") as error:
        compile_module(CRASH)
    script = Path(error.value.reproducer)
    assert script.with_suffix(".mlir").read_text() == CRASH
    assert "PrintStackTrace" in script.with_suffix(".stderr").read_text()
    assert f"sh {script}" in str(error.value)
    assert "in FormDispatchRegionsPass" in str(error.value)
    again = subprocess.run(["sh", script], capture_output=True, check=False)
    assert again.returncode != 0


def test_a_refused_module_shows_the_useful_lines_and_the_users_place(own_cache, tmp_path):
    user = tmp_path / "model.py"
    user.write_text("import x\nL = cholesky(K)\n")
    with pytest.raises(CompileError) as error:
        compile_module(located(REFUSED, user, 2, 5))
    lines = str(error.value).splitlines()
    assert lines[0] == "compiling requires a module that IREE accepts, got 1 error(s)."
    assert "failed to legalize operation 'stablehlo.cholesky'" in lines[1]
    assert f"--> {user}:2:5" in lines[2]
    assert "L = cholesky(K)" in lines[3]
    assert not any("see current operation" in line for line in lines)


def test_a_missing_function_of_the_c_library_says_what_to_do(own_cache):
    with pytest.raises(CompileError, match=r"embedded format has no sin: .* CPU\(link_embedded=False\) on this machine"):
        compile_module(SINE)
    assert compile_module(SINE, CPU(link_embedded=False))


def test_invalid_text_is_an_error(own_cache):
    with pytest.raises(CompileError, match=r"module:1:1: error: custom op 'nonsense' is unknown"):
        compile_module("nonsense")


def test_a_timeout_is_an_error(own_cache):
    with pytest.raises(CompileError, match=r"ends within 0.01 s") as error:
        compile_module(TINY, timeout=0.01)
    assert Path(error.value.reproducer).exists()


def test_without_a_compiler(monkeypatch):
    toolchain.iree_compile.cache_clear()
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    try:
        with pytest.raises(CompileError, match="pip install iree-base-compiler"):
            toolchain.iree_compile()
    finally:
        toolchain.iree_compile.cache_clear()


def test_the_cache_saves_runs_and_damage_only_costs_one(own_cache, runs):
    first = compile_module(TINY)
    assert compile_module(TINY) == first
    clear_memory()
    assert compile_module(TINY) == first
    assert len(runs) == 1
    (entry,) = (path for path in (own_cache / "vmfb").glob("*/*"))
    for damaged in (entry.read_bytes()[:100], b"", entry.read_bytes()[:-1] + b"?"):
        entry.write_bytes(damaged)
        clear_memory()
        before = len(runs)
        assert compile_module(TINY) == first
        assert len(runs) == before + 1


@pytest.fixture
def in_two_steps(monkeypatch, own_cache, runs):
    """Every module counts as a long one; the compiler runs so far."""
    monkeypatch.setattr(thresholds, "VERIFIED_ONCE", 0)
    return runs


@pytest.mark.parametrize("target", [CPU(), CPU("generic"), Vulkan("nvidia"), CUDA()])
def test_a_long_module_is_compiled_in_two_steps_to_the_same_bytes(in_two_steps, monkeypatch, target):
    in_steps = compile_module(TINY, target, cache=False)
    first, second = in_two_steps
    assert "--verify=false" in first
    assert ("--verify=false" in second) == isinstance(target, CPU)
    monkeypatch.undo()
    assert compile_module(TINY, target, cache=False) == in_steps


@pytest.mark.parametrize(
    ("source", "verified"),
    [(TINY, [False, False]), (NARROW, [False, True]), (RUNNING, [False, True, True]), (PADDED, [False, True, False])],
)
def test_windows_and_updates_are_verified_after_each_pass(in_two_steps, source, verified):
    compile_module(source)
    assert ["--verify=false" not in arguments for arguments in in_two_steps] == verified


def test_what_is_refused_without_the_verifier_is_compiled_with_it(in_two_steps):
    with pytest.raises(CompileError, match="undefined symbol: sin"):
        compile_module(SINE)
    assert ["--verify=false" in arguments for arguments in in_two_steps] == [True, True, False]


def test_a_long_module_that_is_refused_says_the_same(in_two_steps, tmp_path):
    user = tmp_path / "model.py"
    user.write_text("import x\nL = cholesky(K)\n")
    for source, message in (
        ("nonsense", r"module:1:1: error: custom op 'nonsense' is unknown"),
        (located(REFUSED, user, 2, 5), r"failed to legalize operation 'stablehlo.cholesky'(.|\n)*model.py:2:5"),
        (CRASH, "in FormDispatchRegionsPass"),
        (WIDE, "'linalg.generic' op inferred input/output operand"),
    ):
        with pytest.raises(CompileError, match=message):
            compile_module(source, CPU("znver3"))


@pytest.mark.parametrize("seconds", [0.01, 0.2])
def test_a_long_module_has_the_time_for_both_steps(in_two_steps, seconds):
    sines = (module(f"tensor<{n}xf64>", f"stablehlo.sine %x : tensor<{n}xf64>") for n in range(2, 202))
    source = "\n".join(text.replace("@f", f"@f{n}") for n, text in enumerate(sines))  # takes seconds
    with pytest.raises(CompileError, match=f"ends within {seconds} s"):
        compile_module(source, timeout=seconds)


def test_flags_and_targets_have_entries_of_their_own(own_cache, runs):
    compile_module(TINY)
    compile_module(TINY, CPU("generic"))
    compile_module(TINY, flags=["--iree-opt-level=O1"])
    compile_module(TINY, cache=False)
    assert len(runs) == 4


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, runs):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path / "file"))
    clear_memory()
    assert compile_module(TINY)
    with pytest.raises(CompileError, match="no reproducer could be saved") as error:
        compile_module("nonsense")
    assert error.value.reproducer == ""
    clear_memory()


def test_artifacts_are_the_same_bytes_wherever_they_are_built(tmp_path):
    """Neither the place of the user's source nor the folder of the process gets into the artifact."""
    program = (
        "import sys; from nabla_mlir.compiling.compiler import compile_module; from nabla_mlir.targets import CPU\n"
        "sys.stdout.buffer.write(compile_module(sys.argv[1], CPU('generic'), cache=False))"
    )
    built = []
    for name in ("here/a.py", "over/there/and/further/b.py"):
        folder = tmp_path / Path(name).parent
        folder.mkdir(parents=True)
        arguments = [sys.executable, "-c", program, located(TINY, tmp_path / name, 1, 1)]
        built.append(subprocess.run(arguments, cwd=folder, capture_output=True, check=True).stdout)
    assert built[0] == built[1]
    assert b".py" not in built[0]


def test_bytecode_and_text_compile_alike(mlir, vmfb):
    assert compile_module(bytecode_of(parse_module(mlir))) == vmfb
