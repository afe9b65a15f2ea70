"""Calls of the operating system that not every system has: each is guarded, and the rest runs without them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(p for folder in ("nabla_mlir", "dialects", "passes") for p in (ROOT / folder).rglob("*.py"))

# What Windows lacks; macOS lacks the last two.
NAMES = {
    "os": {
        "fork",
        "forkpty",
        "killpg",
        "register_at_fork",
        "setsid",
        "getuid",
        "geteuid",
        "getgid",
        "uname",
        "mkfifo",
        "nice",
        "getloadavg",
        "wait",
        "waitpid",
        "sched_setaffinity",
        "sched_getaffinity",
    },
    "signal": {
        "SIGKILL",
        "SIGCHLD",
        "SIGALRM",
        "SIGUSR1",
        "SIGUSR2",
        "SIGHUP",
        "SIGQUIT",
        "alarm",
        "setitimer",
        "pthread_kill",
        "pthread_sigmask",
        "sigwait",
    },
}
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"}
FOLDERS = re.compile(r"^/(dev|proc|sys|tmp|run)/")
GUARD = re.compile(r"hasattr\(|sys\.platform|os\.name|suppress\(OSError|except OSError|except \(OSError")
# Files with other uses: the reason.
EXCEPTIONS = {
    "nabla_mlir/runtime/threads.py": "a control group that does not exist is read as empty text",
    "nabla_mlir/testing/warm.py": "a server that forks for each run of a test",
    "nabla_mlir/testing/damage.py": "an alarm ends a reader of damaged files",
}


def uses(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The line, the name, and whether a guard is around it, for each use of what some systems lack."""
    source = path.read_text()
    tree = ast.parse(source)
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}

    def is_guarded(node: ast.AST) -> bool:
        while (parent := parents.get(node)) is not None:
            if isinstance(parent, (ast.FunctionDef, ast.If, ast.IfExp, ast.Try, ast.With)) and GUARD.search(
                ast.get_source_segment(source, parent) or ""
            ):
                return True
            node = parent
        return False

    for node in ast.walk(tree):
        found = None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in NAMES.get(node.value.id, ()):
            found = f"{node.value.id}.{node.attr}"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            found = next((m for m in modules if m in MODULES), None)
        elif isinstance(node, ast.keyword) and node.arg == "shell" and getattr(node.value, "value", None) is True:
            found = "shell=True"
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and FOLDERS.match(node.value) and node not in docstrings
        ):
            found = node.value
        if found is not None:
            yield getattr(node, "lineno", 0) or node.value.lineno, found, is_guarded(node)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_some_systems_lack_is_guarded(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    unguarded = [f"{name}:{line}: {what}" for line, what, is_guarded in uses(path) if not is_guarded]
    if name in EXCEPTIONS:
        assert unguarded, f"{name} needs no exception"
    else:
        assert not unguarded, "\n".join(unguarded)


def test_an_unguarded_use_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "import os, signal, subprocess, fcntl\nos.fork()\nsubprocess.run('ls', shell=True)\nopen('/dev/shm/x')\n"
        "if hasattr(os, 'killpg'):\n    os.killpg(1, 9)\n"
    )
    found = {what: is_guarded for _, what, is_guarded in uses(path)}
    assert found == {"fcntl": False, "os.fork": False, "shell=True": False, "/dev/shm/x": False, "os.killpg": True}


WITHOUT = """
import os, signal
import numpy as np, scipy.sparse.linalg, multiprocessing
for name in {os_names}:
    if hasattr(os, name):
        delattr(os, name)
for name in {signal_names}:
    if hasattr(signal, name):
        delattr(signal, name)
import nabla_mlir as nm, nabla_mlir.numpy as nnp
f = lambda x: nnp.sum(nnp.sin(x) ** 2)
x = np.linspace(0.0, 1.0, 5)
print(np.allclose(nm.grad(f)(x), np.sin(2 * x)), np.allclose(nm.hvp(f)(x, np.ones(5)), 2 * np.cos(2 * x)))
print(float(nm.trace(f, nm.spec(5, "f64"), name="f").lower().compile(nm.Interpreter())(x)) > 0)
print(np.allclose(nm.jit(nm.grad(f))(x), np.sin(2 * x)))
"""


def test_programs_run_without_what_windows_lacks() -> None:
    """`fork` and the like are deleted before the import: derivatives, the interpreter and compiled code work."""
    names = {f"{module}_names": sorted(names) for module, names in NAMES.items()}
    names["os_names"] = [n for n in names["os_names"] if n not in ("waitpid", "wait")]  # subprocess needs them here
    done = subprocess.run([sys.executable, "-c", WITHOUT.format(**names)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 4
