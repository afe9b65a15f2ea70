"""What holds the house together: who imports whom, one stem per pass, no dead checks, what a wheel contains, ..."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import functools
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

import nabla_mlir
from nabla_mlir.passes.base import PASSES, PIPELINES, NamedPipeline, Pass
from nabla_mlir.passes.pipeline import ALONE, Pipeline
from nabla_mlir.passes.simplify.pattern import PATTERNS
from nabla_mlir.tools import reference, wheels
from nabla_mlir.tools.house import DEPLOYED, ROOMS

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(p for folder in ("nabla_mlir", "dialects", "passes") for p in (ROOT / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LIT_FILES = sorted((ROOT / "tests" / "filecheck").rglob("*.mlir"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """nabla_mlir.passes.vmap for passes/vmap.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "nabla_mlir" else ("nabla_mlir", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = [module_name(path) for path in SOURCES]
_MODULES = frozenset(MODULES)

# ---------------------------------------------------------------- imports point one way

# A module may import from its own layer and from those below it; a longer name wins over a shorter one.
LAYERS = {f"nabla_mlir.{room}".rstrip("."): level for level, room in enumerate(ROOMS)}
# What is deployed: it must run where neither the compiler nor optree is installed.
RUNTIME = {m for m in MODULES if "." in m and m.split(".")[1] in DEPLOYED} - {"nabla_mlir.base.pytree"}  # it needs optree
# What runs the compiler in another process; it knows no IR.
COMPILER = {f"nabla_mlir.compiling.{name}" for name in ("compiler", "cache")} | {
    f"nabla_mlir.compiling.internals.{name}"
    for name in (
        "archive",
        "block_arguments",
        "disassembly",
        "held_references",
        "memory",
        "messages",
        "phases",
        "references",
        "register_lists",
    )
}

# Imports that wait until a function is called, and why; those of the command line wait so that it starts at once.
LATE = {("nabla_mlir.prepared.sources", "nabla_mlir.prepared"): "operators run where the compiler is not installed"}


def layer(module: str) -> int:
    return LAYERS[max((name for name in LAYERS if f"{module}.".startswith(f"{name}.")), key=len)]


@functools.cache
def imports(path: Path) -> list[tuple[str, int]]:
    """The modules of the project that a file imports, also inside functions and under conditions, but not for type checkers only."""
    return [*_imports(path)]


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for body in node.body
        for inner in ast.walk(body)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in _MODULES else node.module), node.lineno


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_imports_point_one_way(path: Path) -> None:
    module = module_name(path)
    for imported, line in imports(path):
        if not f"{imported}.".startswith("nabla_mlir."):
            continue
        where = f"{relative(path)}:{line} imports {imported}"
        if (module, imported) in LATE:
            continue
        assert layer(imported) <= layer(module), f"{where}, which is of a higher layer"
        if module in RUNTIME:
            assert imported in RUNTIME, f"{where}, which is not deployed"
        if module in COMPILER:
            assert imported in RUNTIME | COMPILER, f"{where}, which knows IR"


@pytest.mark.parametrize("path", [p for p in SOURCES if "tools" not in p.parts], ids=relative)
def test_imports_stand_at_the_top(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            late = [i.module for i in ast.walk(node) if isinstance(i, ast.ImportFrom) and "nabla_mlir" in (i.module or "")]
            assert all((module_name(path), module) in LATE for module in late), f"{relative(path)} imports {late} late"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            assert path.name in ("__init__.py", "names.py"), f"{relative(path)}:{node.lineno} hides what it imports"


OTHERS = sorted(p for folder in ("tests", "bench", "demo", "examples") for p in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", OTHERS, ids=relative)
def test_what_is_imported_exists(path: Path) -> None:
    """Also where a process of its own imports it, and where a peer's package that is not installed comes first."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "nabla_mlir":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {module_name(path): {i for i, _ in imports(path) if i in _MODULES} for path in SOURCES}
    while graph:  # files that import none of the others are taken away until none is left
        ended = {module for module, imported in graph.items() if not imported - {module}}
        assert ended, f"each of these imports another one of them: {sorted(graph)}"
        graph = {module: imported - ended for module, imported in graph.items() if module not in ended}


_EACH_FIRST = """
import json, os, sys, tempfile, traceback
import iree.compiler.ir, iree.runtime, numpy, optree  # those of others take most of the time, and import none of ours

said = {}
for room in sys.argv[1:]:
    with tempfile.TemporaryFile("w+") as file:
        if not (child := os.fork()):
            try:
                __import__(f"nabla_mlir.{room}")
            except BaseException:
                traceback.print_exc(file=file)
                file.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        file.seek(0)
        said[room] = file.read() or (f"it ended with {status}" if status else "")
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def errors_of_first_imports() -> dict[str, str]:
    """What each room says that is imported before all others, each in a copy of one process."""
    command = [sys.executable, "-c", _EACH_FIRST, *filter(None, ROOMS)]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.parametrize("room", [room for room in ROOMS if room])
def test_a_room_can_be_imported_first(room: str, errors_of_first_imports: dict[str, str]) -> None:
    """Public names load the rooms above when they are asked for: not while those below are being loaded."""
    assert not errors_of_first_imports[room]


def test_every_room_has_a_layer() -> None:
    """A room that is not listed would count as one of the highest, where it may import anything."""
    rooms = {module.split(".")[1] for module in MODULES if "." in module}
    assert rooms == set(ROOMS) - {""}


def test_the_runtime_stands_apart() -> None:
    code = "import nabla_mlir.runtime, sys; print([m for m in sys.modules if m.startswith(('iree.compiler', 'jax'))"
    code += " or m in ('optree', 'nabla_mlir.ops', 'nabla_mlir.passes', 'nabla_mlir.dialects', 'nabla_mlir.staging')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_passes_load_no_classes_of_linalg() -> None:
    """They take longer to load than all passes, in every process that starts."""
    code = "import nabla_mlir.passes.pipeline, sys; print('iree.compiler.dialects.linalg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["dialects", "passes"])
def test_a_second_copy_is_refused(name: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"ImportError: '{name}' is a second copy of nabla_mlir.{name}" in done.stderr


# ---------------------------------------------------------------- one stem per pass


@pytest.mark.parametrize("name", sorted(PASSES))
def test_one_stem_names_a_pass(name: str) -> None:
    cls = PASSES[name]
    stem = name.removeprefix("nabla-").replace("-", "_")
    assert cls.__name__ == "".join(word.capitalize() for word in stem.split("_")) + "Pass"
    # A file may hold a pass and a variant of it, which is named after it.
    home = cls.__module__.rpartition(".")[2]
    assert stem == home or stem.startswith(f"{home}_"), f"{name} stands in passes/{home}.py"
    example = inspect.getdoc(cls).partition("Example:")[2].strip()  # type: ignore[union-attr]
    assert example == f"tests/filecheck/passes/{stem}.mlir"
    assert (ROOT / example).exists()
    assert f"\n## {name}\n" in (ROOT / "passes" / "README.md").read_text()


def test_every_module_of_a_pass_is_loaded() -> None:
    registering = {module_name(p) for p in (ROOT / "passes").rglob("*.py") if re.search(r"^@register$", p.read_text(), re.M)}
    assert registering == {cls.__module__ for cls in PASSES.values()}
    assert {p for named in PIPELINES.values() for p in passes_of(named)} | {*ALONE} == {*PASSES.values()}


def passes_of(named: type[NamedPipeline]) -> Iterator[type[Pass]]:
    """The passes of ours in a named pipeline and in those that are parts of it."""
    for step in named.steps:
        if isinstance(step.item, type) and issubclass(step.item, NamedPipeline):
            yield from passes_of(step.item)
        elif isinstance(step.item, type):
            yield step.item


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_a_named_pipeline_says_why(name: str) -> None:
    cls = PIPELINES[name]
    stem = name.removeprefix("nabla-")
    assert cls.__name__ == "".join(word.capitalize() for word in stem.split("-")) + "Pipeline"
    options = {f.name for f in dataclasses.fields(cls)}
    for step in cls.steps:
        assert step.why.endswith("."), f"{step.name} says why in a sentence"
        assert ({"target"} if step.targets else set()) | ({step.needs} - {""}) <= options, f"{step.name} asks for an option"
    assert Pipeline(cls().passes()) == Pipeline.parse(name)
    assert f"\n### {name}\n" in (ROOT / "passes" / "README.md").read_text()


def test_every_pattern_of_simplify_has_a_test() -> None:
    text = "".join(path.read_text() for path in (ROOT / "tests/filecheck/passes").glob("simplify*.mlir"))
    names = {p.__name__ for patterns in PATTERNS.by_name.values() for p in patterns}
    assert not [name for name in sorted(names) if f"func.func @{name}(" not in text]


@pytest.mark.parametrize("dialect", ["ad", "batch"])
def test_every_operation_of_a_dialect_has_its_tests(dialect: str) -> None:
    operations = re.findall(r"irdl\.operation @(\w+)", (ROOT / f"dialects/{dialect}.irdl.mlir").read_text())
    trip, errors = ((ROOT / f"tests/filecheck/{kind}/{dialect}.mlir").read_text() for kind in ("dialects", "errors"))
    assert "// RUN: %roundtrip" in trip
    assert f"iree-opt --irdl-file=%dialects/{dialect}.irdl.mlir" in trip
    for name in operations:
        assert re.search(rf'CHECK[^:\n]*:.*"{dialect}\.{name}"', trip), f"{dialect}.{name} makes no round trip"
        assert f"{{{{{dialect}.{name} requires" in errors, f"no message of {dialect}.{name} is tested"


def test_reference_pages_are_up_to_date() -> None:
    for path, text in reference.pages(ROOT).items():
        assert path.read_text() == text, f"{relative(path)}: run python -m nabla_mlir.tools.reference"


# ---------------------------------------------------------------- tests that test something

SUFFIXES = "LABEL|NEXT|SAME|NOT|DAG|EMPTY|COUNT-[0-9]+"


@pytest.mark.parametrize("path", LIT_FILES, ids=relative)
def test_no_check_is_dead(path: Path) -> None:
    require_live_checks(path.read_text())


RUN = "// RUN: nabla-opt %s | filecheck %s\n"


@pytest.mark.parametrize(
    "text",
    [
        "// CHECK: x",  # no RUN line
        RUN.replace(":", "") + "// CHECK: x",  # nor here
        RUN,  # nothing is checked
        RUN + "// CHECK: x\n// CHECKK: y",
        RUN + "// CHECK: x\n// CHECK-NXT: y",
        RUN + "// CHECK: x\n// CHECK y",
        RUN + "// CHECK: x\n// OTHER: y",  # no RUN line passes this prefix
        RUN.replace("%s\n", "%s --check-prefixes=A,B\n") + "// A: x",  # and here nothing uses one that is passed
        RUN + "// CHECK: x\n// expected-error@+1 {{y}}",  # nothing verifies it
        "// RUN: nabla-opt --list-passes | filecheck %S/other\n// CHECK: x",  # does not read the file
    ],
)
def test_dead_checks_are_found(text: str) -> None:
    with pytest.raises(AssertionError):
        require_live_checks(text)


def require_live_checks(text: str) -> None:
    """Fails unless every line of an .mlir test that looks like a check is read by some RUN line."""
    runs = re.findall(r"^// RUN: (.*)$", text, re.M)
    assert runs, "no RUN line"
    assert not re.findall(r"^\s*//\s*RUN(?!: ).*$", text, re.M), "a RUN line that lit does not read"
    passed: set[str] = set()
    for run in runs:
        assert any(word in run for word in ("%s", "%t", "%roundtrip")), f"{run!r} does not read the file"
        for call in re.findall(r"filecheck (.*?)(?:\||$)", run):
            prefixes = re.search(r"--check-prefix(?:es)?[= ](\S+)", call)
            passed |= set(prefixes[1].split(",")) if prefixes else {"CHECK"}
    used = set(re.findall(rf"^\s*// ([A-Z]+)(?:-(?:{SUFFIXES}))?:", text, re.M)) - {"RUN"}
    assert used == passed, f"prefixes in the file {sorted(used)}, prefixes of filecheck {sorted(passed)}"
    known = re.compile(rf"// (?:RUN|{'|'.join(passed) or 'RUN'})(?:-(?:{SUFFIXES}))?: ")
    for line in text.splitlines():
        comment = line.strip()
        if re.match(r"//\s*[A-Z]{3,}[A-Z0-9_-]*\s*:", comment):  # CHECKK:, CHECK-NXT:, CHECK :, CHECK:x
            assert known.match(comment), f"{comment!r} looks like a check and is none"
        if re.match(r"//\s*(CHECK|RUN)\b", comment):
            assert known.match(comment), f"{comment!r} looks like a check and is none"
    expects = "expected-" in text
    assert expects <= any("--verify-diagnostics" in run for run in runs), "annotations that no RUN line verifies"
    assert expects or passed, "no check at all"


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_no_test_is_defined_twice(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for scope in [n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef))]:
        names = [n.name for n in scope.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        assert len(names) == len(set(names)), f"defined twice: {sorted({n for n in names if names.count(n) > 1})}"


def test_the_files_of_smoke_tests_exist() -> None:
    """`-m smoke` reads no others, so a file of another name would be left out without a word."""
    tree = ast.parse((ROOT / "tests/conftest.py").read_text())
    (smoke,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "SMOKE")
    names = ast.literal_eval(smoke.args[0])
    assert len(names) >= 20
    assert [name for name in names if not (ROOT / "tests" / name).is_file()] == []


# ---------------------------------------------------------------- public names and their documentation


def test_files_have_one_subject() -> None:
    long = {relative(p): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 400}
    assert not long, "more than 400 lines are two subjects: two files"


@pytest.mark.parametrize("package", [nabla_mlir, nabla_mlir.jax], ids=["nm", "nm.jax"])
def test_public_names(package: ModuleType) -> None:
    tree = ast.parse((Path(str(package.__file__)).with_suffix(".pyi")).read_text())
    statements = [s for s in tree.body if isinstance(s, ast.ImportFrom)]
    assert len(statements) == len(tree.body) - 1, "beside the docstring there are imports alone"
    names = [alias.name for s in statements for alias in s.names]
    assert names == [alias.asname for s in statements for alias in s.names]
    assert sorted(package.__all__) == sorted(set(names)) == sorted(names)
    for name in names:
        assert getattr(package, name) is not None
        assert name in dir(package)
    assert not {"TYPE_CHECKING", "locks"} & set(dir(package))


def test_the_top_of_the_package_holds_rooms_alone() -> None:
    assert {p.name for p in (ROOT / "nabla_mlir").glob("*.py*")} == {"__init__.py", "__init__.pyi"}


def public_objects(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The public functions and classes that a module defines, with the public methods of the classes."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    yield f"{name}.{method}", getattr(value, method)


@pytest.mark.parametrize("name", MODULES)
def test_public_functions_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    if not name.endswith("__init__"):
        assert module.__doc__ or not vars(module).get("__all__", True), "the module has no docstring"
    missing = [path for path, value in public_objects(module) if not inspect.getdoc(value)]
    assert not missing


def test_arguments_in_docstrings_are_those_of_the_function() -> None:
    others = []
    for path in SOURCES:
        for function in (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)):
            _, _, section = (ast.get_docstring(function) or "").partition("\nArgs:\n")
            section = re.split(r"\n\n|\n(?=\S)", section)[0]
            named = {n.strip("* ") for line in re.findall(r"(?m)^  ([\w*][\w*, ]*):", section) for n in line.split(",")}
            others += [f"{relative(path)}:{function.lineno}: {n}" for n in named - {a.arg for a in arguments(function)}]
    assert not others


def arguments(function: ast.FunctionDef) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *(a for a in (given.vararg, given.kwarg) if a is not None)]


class OwnExamples(doctest.DocTestFinder):
    """Finds the examples of a module. Those of a function of the mirror run where the function is defined."""

    def _from_module(self, module: object, object: object) -> bool:
        return not hasattr(object, "__mirrored__") and super()._from_module(module, object)  # type: ignore[misc]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in OwnExamples().find(importlib.import_module(name), name):
        runner.run(test)
    assert runner.failures == 0, "see the output above"


def test_modules_are_all_found() -> None:
    # An editable install finds the two folders at top level by a hook, which walking the parent does not see.
    folders = ["nabla_mlir", "nabla_mlir.dialects", "nabla_mlir.passes"]
    found = {m.name for f in folders for m in pkgutil.walk_packages(importlib.import_module(f).__path__, f"{f}.")}
    assert found | set(folders) == set(MODULES)


# ---------------------------------------------------------------- the package


def test_wheel_holds_the_tree(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    runtime, whole = wheels.build(tmp_path)
    held = {name for name in zipfile.ZipFile(runtime).namelist() if ".dist-info/" not in name}
    wanted = {f"nabla_mlir/{relative(p)}".replace("nabla_mlir/nabla_mlir/", "nabla_mlir/") for p in SOURCES}
    wanted |= {f"nabla_mlir/dialects/{p.name}" for p in (ROOT / "dialects").glob("*.irdl.mlir")}
    page = {relative(p) for p in (ROOT / "nabla_mlir" / "explorer").rglob("*") if p.suffix in (".json", ".js", ".css", ".html")}
    stubs = {"nabla_mlir/py.typed", "nabla_mlir/__init__.pyi", "nabla_mlir/jax/__init__.pyi"}
    assert held == wanted | stubs | {"nabla_mlir/runtime/manifest.schema.json"} | page
    assert all(".dist-info/" in name for name in zipfile.ZipFile(whole).namelist())
    first, second = (parsed(wheel) for wheel in (runtime, whole))
    assert (first["Name"], second["Name"]) == ("nabla-mlir-runtime", "nabla-mlir")
    assert {re.split("[<>=]", line)[0] for line in first.get_all("Requires-Dist")} == set(wheels.RUNTIME)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [line for line in second.get_all("Requires-Dist") if "extra" not in line]
    assert required[0] == f"nabla-mlir-runtime=={project['version']}"
    both = {re.split("[<>=]", line)[0] for line in [*required[1:], *first.get_all("Requires-Dist")]}
    assert both == {re.split("[<>=]", line)[0] for line in project["dependencies"]}
    assert set(second.get_all("Provides-Extra")) == set(project["optional-dependencies"])


def parsed(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    return message_from_bytes(archive.read(name))


# ---------------------------------------------------------------- tools of the trade


@pytest.mark.parametrize("command", [("check", "-q", "--output-format=concise"), ("format", "--check")])
def test_ruff(command: tuple[str, ...]) -> None:
    pytest.importorskip("ruff")
    done = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_mypy() -> None:
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
