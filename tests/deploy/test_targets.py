import json

import pytest

import nabla_mlir as nm
from nabla_mlir import targets
from nabla_mlir.base.errors import TargetError
from nabla_mlir.compiling.compiler import compile_module
from nabla_mlir.targets import CPU, CUDA, Target, Vulkan, VulkanDevice, available, merge_flags, target
from nabla_mlir.targets.cpu import cpu_features
from nabla_mlir.targets.toolchain import run_compiler


@pytest.mark.parametrize("t", [CPU("generic"), CPU(), CUDA(), CUDA("sm_90"), Vulkan("nvidia"), Vulkan("lavapipe")], ids=repr)
def test_json_round_trip_and_common_flags(t):
    again = Target.from_json(json.loads(json.dumps(t.to_json())))
    assert again == t.resolve()
    assert again.flags() == t.flags()
    assert "--iree-input-demote-f64-to-f32=false" in t.flags()
    assert "--iree-opt-level=O3" in t.flags()


def test_host_is_written_out():
    t = CPU().resolve()
    assert t.cpu not in ("host", "")
    assert "host" not in " ".join(CPU().flags())
    assert all(feature[0] in "+-" for feature in t.features.split(","))
    assert CPU().to_json() == t.to_json()
    lacking = {name for name, has in cpu_features().items() if not has}
    assert not lacking & {feature[1:] for feature in t.features.split(",") if feature[0] == "+"}


def test_names_resolve_and_unknown_ones_list_what_exists():
    assert target("cpu") == CPU()
    assert target("CUDA") == CUDA()
    assert target(t := Vulkan("nvidia")) is t
    for unknown in ("tpu", 3, None):
        with pytest.raises(TargetError, match=r"requires a known target(.|\n)*'cpu' or CPU\(...\), 'vulkan'"):
            target(unknown)


MISTAKES = {
    "cuda requires a known architecture, got 'hopper'": lambda: CUDA("hopper"),
    "cuda requires a known architecture, got 'sm_999'": lambda: CUDA("sm_999"),
    "cuda requires a known architecture, got 'sm_80a'": lambda: CUDA("sm_80a"),
    "cuda requires a known architecture, got 80": lambda: CUDA(80),
    "vulkan requires a known device, got 'gameboy'": lambda: Vulkan("gameboy"),
    "vulkan requires a known device, got 3": lambda: Vulkan(3),
    "cpu requires the name of a CPU, got 3": lambda: CPU(3),
    "cpu requires a CPU name for another architecture": lambda: CPU(triple="aarch64-linux-gnu"),
    "cpu requires a tuple of flags as options, got '--a'": lambda: CPU(options="--a"),
    "cuda requires a tuple of flags as options": lambda: CUDA(options=(3,)),
    r"features that LLVM knows, got \+sse99": lambda: CPU(features="+sse99"),
    "features with their signs, got 'avx512f'": lambda: CPU(features="avx512f"),
    r"features with their signs, got '\+avx512f \+avx2'": lambda: CPU(features="+avx512f +avx2"),
    "a triple that LLVM knows, got 'abacus'": lambda: CPU("generic", triple="abacus"),
    "a CPU that LLVM knows, got 'znver99'": lambda: CPU("znver99"),
    "a CPU that LLVM knows, got 'cortex'": lambda: CPU("cortex", triple="aarch64-linux-gnu"),
    "a CPU that LLVM knows, got 'cortex72'": lambda: CPU("cortex72", triple="armv7a-linux-gnueabihf"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_errors(message):
    with pytest.raises(TargetError, match=message) as error:
        MISTAKES[message]()
    assert error.value.where.filename == __file__
    assert error.value.help


def test_unknown_names_come_with_those_that_are_alike():
    for make, text in (
        (lambda: CUDA("sm80"), "did you mean 'sm_80'"),
        (lambda: CUDA("sm_1"), "sm_89, sm_90, sm_90a, sm_100"),
        (lambda: Vulkan("nvdia"), "did you mean 'nvidia'? Known are host, nvidia, amd, lavapipe."),
        (lambda: CPU("znver44"), "did you mean 'znver4'"),
        (lambda: CPU("cortex-a72", triple="riscv64-linux-gnu"), "CPU('cortex-a72', triple='aarch64-linux-gnu')"),
        (lambda: CPU("qqq"), "Known are host, generic, nocona"),
        (lambda: CPU("cortex_a72", triple="aarch64-linux-gnu"), "did you mean 'cortex-a72'"),
    ):
        with pytest.raises(TargetError) as error:
            make()
        assert text in error.value.help
    with pytest.raises(TargetError, match="requires known fields, got speed"):
        Target.from_json({"name": "cpu", "speed": 11})
    assert CPU(options=["--a"]).options == ("--a",)


def test_the_compiler_describes_the_architectures_that_are_listed():
    flags = ["--compile-to=preprocessing", "--iree-hal-target-device=cuda", "-", "-o", "-"]
    for arch in targets.cuda._DESCRIBED + tuple(targets.cuda._PTX_OF_ARCH):
        out = run_compiler([*flags, f"--iree-cuda-target={arch}"], b"module {}", timeout=60).stdout
        assert (b"target_info" in out) == (arch in targets.cuda._DESCRIBED), arch


def test_vulkan_without_a_device(monkeypatch):
    def none():
        raise OSError("the library libvulkan.so.1 is not installed")

    monkeypatch.setattr(targets.vulkan, "vulkan_devices", none)
    with pytest.raises(TargetError, match=r"got none: the library libvulkan\.so\.1 is not installed") as error:
        Vulkan().flags()
    assert "mesa-vulkan-drivers" in str(error.value)
    assert next(a for a in available() if a.name == "vulkan").runs is False


def test_vulkan_describes_the_device_in_the_module():
    device = VulkanDevice("custom", 16, compute=("fp32", "int32"), storage=("b32",))
    text = Vulkan(device).device_targets()
    assert "subgroup_size_choices = [16]" in text
    assert "compute = fp32|int32, storage = b32, subgroup = shuffle|arithmetic" in text
    assert any(text in flag for flag in Vulkan(device).flags())


def test_available_names_each_target_once_with_a_detail():
    found = available()
    assert [a.name for a in found] == list(targets.TARGETS)
    assert found[0].runs
    assert all(a.detail for a in found)


def test_flags_given_last_win():
    assert merge_flags(["--a=1", "--b"], ["--a=2"]) == ["--b", "--a=2"]
    assert "--iree-opt-level=O1" in CPU("generic", options=("--iree-opt-level=O1",)).flags()
    assert "--iree-opt-level=O3" not in CPU("generic", options=("--iree-opt-level=O1",)).flags()


SMALL = """func.func @f(%x: tensor<64xf32>) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
       : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32> }"""


@pytest.mark.parametrize("t", [CPU("generic"), CUDA(), Vulkan("nvidia")], ids=lambda t: t.name)
def test_plugins_for_other_devices_are_off_and_change_no_code(t: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(flag.startswith("--iree-plugin=-") for flag in t.flags()) == 7 - len(t.plugins)
    code = compile_module(SMALL, t, cache=False)
    monkeypatch.setattr(type(t), "plugins", None)
    assert not any(flag.startswith("--iree-plugin") for flag in t.flags())
    assert compile_module(SMALL, t, cache=False) == code


def test_another_device_gets_all_plugins() -> None:
    assert not any("plugin" in flag for flag in CPU("generic", options=("--iree-hal-target-device=hip",)).flags())


@pytest.fixture(scope="module")
def energy():
    """With functions that need a C library or polynomials of ours."""
    return nm.trace(lambda x: (nm.numpy.tanh(x) * nm.numpy.exp(x)).sum(), nm.spec(64, "f64"), name="energy").lower()


# The number of the machine in an ELF file, and whether that is of 32 or of 64 bits.
@pytest.mark.parametrize(
    ("cpu", "kind"),
    [
        (CPU("generic"), (62, 2)),
        (CPU("x86-64-v3"), (62, 2)),
        (CPU("generic", triple="aarch64-linux-gnu"), (183, 2)),
        (CPU("cortex-a72", triple="aarch64-linux-gnu"), (183, 2)),
        (CPU("generic", triple="armv7a-linux-gnueabihf"), (40, 1)),
        (CPU("generic", triple="riscv64-linux-gnu"), (243, 2)),
    ],
    ids=repr,
)
def test_embedded_code_for_other_machines(energy, cpu, kind):
    code = energy.compile(cpu).vmfb
    start = code.index(b"\x7fELF")
    assert (int.from_bytes(code[start + 18 : start + 20], "little"), code[start + 4]) == kind


def test_web_assembly(energy):
    assert b"\0asm" in energy.compile(CPU("generic", triple="wasm32-unknown-emscripten")).vmfb


@pytest.mark.parametrize(
    ("triple", "start"),
    [
        ("aarch64-linux-gnu", b"\x7fELF\2"),
        ("armv7a-linux-gnueabihf", b"\x7fELF\1"),
        ("riscv64-linux-gnu", b"\x7fELF\2"),
        ("wasm32-unknown-emscripten", b"\0asm"),
    ],
)
def test_static_libraries_for_other_machines(energy, tmp_path, triple, start):
    header = nm.save_static_library(energy, tmp_path / "energy", CPU("generic", triple=triple))
    assert header.with_suffix(".o").read_bytes().startswith(start)
    assert f"for generic, {triple}" in header.read_text()


def test_features_are_recorded():
    features = CPU("x86-64-v3").to_json()["features"].split(",")
    assert {"+avx2", "+fma"} <= set(features)
    assert "+avx512f" not in features
    assert {"+d", "+m"} <= set(CPU("generic", triple="riscv64-linux-gnu").to_json()["features"].split(","))
    chosen = CPU("x86-64-v3", features="-fma,+sha").to_json()["features"].split(",")
    assert {"-fma", "+sha", "+avx2"} <= set(chosen)
    assert CPU("generic").to_json()["triple"] == CPU().to_json()["triple"] != ""


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_103", "sm_120"])
def test_cuda_compiles_for(arch):
    assert f".target {arch}".encode() in compile_module(SMALL, CUDA(arch))
