"""nabla-mlir: compiles derivatives to files, explains them, runs and checks the files, and manages the installation."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from nabla_mlir.base.errors import NablaError, is_internal
from nabla_mlir.base.names import explained
from nabla_mlir.tools.arguments import parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command `argv`; returns its exit code: 0, 1 for an error, which is printed, or 130 after Ctrl-C."""
    options = parser().parse_args(sys.argv[1:] if argv is None else argv)
    try:
        return int(options.action(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if options.traceback:
            raise
        if isinstance(error, ModuleNotFoundError):
            error = explained("this command", error)
        if getattr(options, "json", False):
            kind, message = type(error).__name__, getattr(error, "message", str(error))
            print(json.dumps({"error": kind, "message": message, "help": getattr(error, "help", "")}))
        print(f"nabla-mlir: {_describe(error)}", file=sys.stderr)
        return 1


def _describe(error: Exception) -> str:
    """The text of an error of nabla_mlir, or of the user's program with its line."""
    command = os.path.realpath(sys.argv[0])  # the console script, which is no file of the user
    if isinstance(error, NablaError):
        is_command = error.where is not None and os.path.realpath(error.where.filename) == command
        return f"error: {type(error)(error.message, help=error.help) if is_command else error}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).exists()]
    outside = [f for f in frames if not is_internal(f.filename) and "importlib" not in f.filename]
    user_frames = [f for f in outside if os.path.realpath(f.filename) != command]
    where = f"\n  --> {user_frames[-1].filename}:{user_frames[-1].lineno}\n      {user_frames[-1].line}" if user_frames else ""
    return f"error: {type(error).__name__}: {error}{where}\n  help: --traceback shows all of it."


if __name__ == "__main__":
    sys.exit(main())
