import os
import subprocess
import sys

import pytest

from nabla_mlir.compiling import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_DIR", str(tmp_path))
    return tmp_path


def files(folder):
    return sorted(p.name for p in (folder / "vmfb").glob("*/*"))


def test_round_trip_and_absence(own_cache):
    assert cache.read("abc") is None
    cache.write("abc", b"payload")
    assert cache.read("abc") == b"payload"
    assert files(own_cache) == ["abc"]


def test_a_damaged_entry_is_absent_and_removed(own_cache):
    cache.write("abc", b"payload")
    path = own_cache / "vmfb" / "ab" / "abc"
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.read("abc") is None
    assert not path.exists()


def test_the_least_recently_used_go_first(own_cache, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_SIZE", "450")
    for n, key in enumerate(("k1", "k2", "k3")):
        cache.write(key, bytes(100))
        os.utime(own_cache / "vmfb" / key / key, (n, n))
    assert cache.read("k1") is not None  # used now
    cache.write("k4", bytes(100))
    assert files(own_cache) == ["k1", "k3", "k4"]


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("12", 12), ("2K", 2048), ("1.5M", 3 << 19), ("1g", 1 << 30), ("3MB", 3 << 20)]
)
def test_sizes(monkeypatch, text, size):
    monkeypatch.setenv("NABLA_MLIR_CACHE_SIZE", text)
    assert cache.cache_size() == size


def test_a_bad_size_is_an_error(monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="requires a size such as 500M, got 'MUCH'"):
        cache.cache_size()


def test_size_zero_keeps_nothing(own_cache, monkeypatch):
    monkeypatch.setenv("NABLA_MLIR_CACHE_SIZE", "0")
    cache.write("abc", b"payload")
    assert files(own_cache) == []


WRITER = """
import sys
from nabla_mlir.compiling import cache
for _ in range(150):
    cache.write("shared", bytes([7]) * 200_000)
    data = cache.read("shared")
    assert data is None or data == bytes([7]) * 200_000, "a torn entry was read"
    cache.write(f"own{sys.argv[1]}", bytes(1000))
"""


def test_many_processes_write_and_read_at_once(own_cache):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(n)]) for n in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0, 0]
    assert cache.read("shared") == bytes([7]) * 200_000
    assert files(own_cache) == ["own0", "own1", "own2", "own3", "shared"]


def test_a_writer_that_is_killed_leaves_no_broken_entry(own_cache):
    program = "from nabla_mlir import cache\nprint(flush=True)\nwhile True: cache.write('k', b'x' * 5_000_000)"
    writer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    writer.stdout.readline()
    for _ in range(20):
        data = cache.read("k")
        assert data is None or data == b"x" * 5_000_000
    writer.kill()
    writer.wait()
    data = cache.read("k")
    assert data is None or data == b"x" * 5_000_000
