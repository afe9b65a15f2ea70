"""The disk cache of compiled modules. It checks its content, has a size bound, and is safe with many writers and after crashes.

An entry is a file named by its key: the SHA-256 of the payload, then the payload. It is written to a temporary file and
renamed, so a reader sees all of it or nothing. An entry that does not match its checksum counts as absent. Reading an
entry marks it as used; writing one removes the least recently used entries beyond the bound.

Environment:
  NABLA_MLIR_CACHE_DIR: the folder; ~/.cache/nabla_mlir by default.
  NABLA_MLIR_CACHE_SIZE: the bound in bytes, with K, M or G allowed; 2G by default, 0 stores nothing on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from nabla_mlir.base.errors import writing
from nabla_mlir.base.files import TEMPORARY, write_files

_DIGEST = hashlib.sha256().digest_size
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def cache_dir() -> Path:
    """The folder of the cache; it need not exist."""
    return Path(os.environ.get("NABLA_MLIR_CACHE_DIR") or Path.home() / ".cache" / "nabla_mlir").expanduser()


def cache_size() -> int:
    """The bound of the cache in bytes.

    Raises:
      ValueError: NABLA_MLIR_CACHE_SIZE is not a size.
    """
    return size_of(os.environ.get("NABLA_MLIR_CACHE_SIZE", "2G"), "NABLA_MLIR_CACHE_SIZE")


def size_of(text: str, what: str = "a size") -> int:
    """The number of bytes in a text such as 500M, 2G or 1000.

    `what` is the name of the size in the error.

    Raises:
      ValueError: it is not a size.

    Example:
      >>> size_of("500M")
      524288000
    """
    text = text.strip().upper().removesuffix("B")
    try:
        size = int(float(text[:-1]) * _UNITS[text[-1]]) if text[-1:] in _UNITS else int(text)
    except ValueError:
        raise ValueError(f"{what} requires a size such as 500M, got {text!r}.") from None
    return size


@dataclass(frozen=True)
class CacheEntry:
    """A compiled module in the cache: its key, its size, and the time of its last use, in seconds since 1970."""

    key: str
    nbytes: int
    used: float


def entries() -> list[CacheEntry]:
    """The entries of the cache, most recently used first."""
    found = []
    for path in (cache_dir() / "vmfb").glob("*/*"):
        with contextlib.suppress(OSError):
            if not path.name.startswith(TEMPORARY):
                stat = path.stat()
                found.append(CacheEntry(path.name, stat.st_size, stat.st_mtime))
    return sorted(found, key=lambda entry: -entry.used)


def prune(bound: int) -> None:
    """Removes the least recently used entries until the others fit into `bound` bytes."""
    _evict(bound)


def export(path: str | Path) -> int:
    """Writes all entries of the cache to a .zip file, with their paths in the cache; returns the number of entries.

    Raises:
      SaveError: the file cannot be written.
    """
    members = entries()

    def write_archive(file: Path) -> None:
        """Writes all entries to the archive `file`."""
        with zipfile.ZipFile(file, "w") as archive:
            for entry in members:
                archive.write(_path(entry.key), f"vmfb/{entry.key[:2]}/{entry.key}")

    with writing(path):
        write_files({path: write_archive})
    return len(members)


def read(key: str) -> bytes | None:
    """The payload under the key; None if it is absent or damaged. A damaged entry is removed."""
    path = _path(key)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    payload = data[_DIGEST:]
    if hashlib.sha256(payload).digest() != data[:_DIGEST]:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the time of the last use, by which entries are removed
    return payload


def write(key: str, payload: bytes) -> None:
    """Stores a payload under a key. If the disk is full or read-only, nothing is stored and no error is raised."""
    bound = cache_size()
    if len(payload) + _DIGEST > bound:
        return
    with contextlib.suppress(OSError):
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        write_files({_path(key): hashlib.sha256(payload).digest() + payload})
        _evict(bound)


def _path(key: str) -> Path:
    """The file of the entry with this key; it need not exist."""
    return cache_dir() / "vmfb" / key[:2] / key


def _evict(bound: int) -> None:
    """Removes the least recently used entries until the others have at most `bound` bytes in sum.

    It also removes temporary files that are an hour older than the newest file: a crash left them.
    """
    files: list[os.DirEntry[str]] = []
    entries = []
    for folder in os.scandir(cache_dir() / "vmfb"):
        with contextlib.suppress(OSError):
            files += os.scandir(folder)
    for file in files:
        with contextlib.suppress(OSError):  # another process may remove it
            stat = file.stat()
            entries.append((stat.st_mtime, stat.st_size, file.path))
    entries.sort(reverse=True)  # the most recently used one first
    total, newest = 0, entries[0][0] if entries else 0.0
    for time, size, path in entries:
        total += size
        abandoned = os.path.basename(path).startswith(TEMPORARY) and newest - time > 3600
        if total > bound or abandoned:
            total -= size
            with contextlib.suppress(OSError):
                os.unlink(path)
