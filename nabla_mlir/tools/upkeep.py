"""nabla-mlir cache and completion: the files on disk, and the script for a shell."""

from __future__ import annotations

import argparse
import datetime
import json

from nabla_mlir.base.errors import DeployError
from nabla_mlir.compiling import cache
from nabla_mlir.tools.terminal import print_table


def list_command(options: argparse.Namespace) -> int:
    """Prints the entries of the cache, the most recently used first; returns the exit code 0."""
    entries = cache.entries()
    if options.json:
        rows = [{"key": e.key, "bytes": e.nbytes, "used": e.used} for e in entries]
        print(json.dumps({"folder": str(cache.cache_dir()), "limit": cache.cache_size(), "entries": rows}, indent=1))
        return 0
    times = [datetime.datetime.fromtimestamp(e.used).isoformat(" ", "seconds") for e in entries]
    total = sum(e.nbytes for e in entries)
    title = f"{cache.cache_dir()}: {len(entries)} entries, {total / 1e6:.1f} of {cache.cache_size() / 1e6:.0f} MB"
    print_table(title, ["last used", "bytes", "key"], [[t, f"{e.nbytes:,}", e.key] for t, e in zip(times, entries, strict=True)])
    return 0


def prune_command(options: argparse.Namespace) -> int:
    """Removes the least recently used entries of the cache; returns the exit code 0. Raises DeployError if the size
    cannot be read.
    """
    before = cache.entries()
    try:
        cache.prune(cache.size_of(options.to))
    except ValueError as error:
        raise DeployError(f"cache prune requires a size such as 500M, got {options.to!r}.") from error
    after = cache.entries()
    count, size = len(before) - len(after), sum(e.nbytes for e in before) - sum(e.nbytes for e in after)
    print(json.dumps({"removed": count, "bytes": size}) if options.json else f"{count} entries removed, {size / 1e6:.1f} MB")
    return 0


def export_command(options: argparse.Namespace) -> int:
    """Writes all entries of the cache to an archive, each with a checksum, which is verified when the archive is read.

    Returns the exit code 0.
    """
    count = cache.export(options.output)
    print(json.dumps({"file": options.output, "entries": count}) if options.json else f"{count} entries in {options.output}")
    return 0


def completion_command(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Prints the script that completes the command in a shell: `nabla-mlir completion bash >> ~/.bashrc`; returns the exit code 0.

    `parser` has the commands and options. Raises DeployError if shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise DeployError(
            "completion requires shtab, got an environment without it.", help="pip install 'nabla-mlir[completion]'"
        ) from None
    script = shtab.complete(parser, shell=options.shell)
    print(json.dumps({"shell": options.shell, "script": script}) if options.json else script)
    return 0
