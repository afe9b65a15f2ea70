"""nabla-mlir: compiles derivatives to files, shows what a file offers, runs it, and looks after the installation."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from nabla_mlir.errors import NablaError, is_internal
from nabla_mlir.targets import TARGETS
from nabla_mlir.tools.commands import (
    bench_command,
    compile_command,
    doctor_command,
    info_command,
    run_command,
    verify_command,
)

_EXAMPLES = """examples:
  nabla-mlir compile model.py:loss --spec f32[128] --spec f32[128] --transform hvp -o hvp.vmfb
  nabla-mlir run hvp.vmfb hvp --input x.npy --input v.npy
  nabla-mlir compile model.py:loss --spec '{"w": f32[3,4], "b": f32[4]}' --spec data=f32[10,3] --transform grad
  nabla-mlir compile model.mlir --transform 'hvp{wrt=0}' --target 'cpu{cpu=generic}' --emit stablehlo
  nabla-mlir compile model.py:loss --spec f32[128] --hvp-module -o hvp.vmfb
  nabla-mlir compile model.py:loss --spec f32[128] --target cuda:sm_90 --target cpu{cpu=generic} -o loss.zip
  nabla-mlir verify loss.zip
"""
_FILE = "the .zip, the folder, the .json or the .vmfb"


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; `action` is the function that does the work."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--traceback", action="store_true", help="show where in the program an error came from")
    parser = argparse.ArgumentParser(
        prog="nabla-mlir",
        description=__doc__,
        epilog=_EXAMPLES,
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    all_drivers = dict.fromkeys(driver for target in TARGETS.values() for driver in target.drivers)
    drivers = f"{', '.join(all_drivers)}; chosen by the manifest by default"
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    compile = commands.add_parser(
        "compile",
        parents=[common],
        help="a function, maybe transformed, to a file",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compile.add_argument("model", metavar="MODEL", help="model.py:function, or a StableHLO module model.mlir[:entry]")
    compile.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="SPEC",
        help="an argument in order, or by name: f32[128,4], data=f32[10], a Python tree of them",
    )
    compile.add_argument(
        "--transform",
        action="append",
        default=[],
        metavar="NAME{OPTION=VALUE}",
        help="grad, value_and_grad, hvp, jvp, vjp, jacfwd, jacrev, hessian, vmap; in order",
    )
    forms = compile.add_mutually_exclusive_group()
    forms.add_argument(
        "--sparse",
        metavar="NAME{OPTION=VALUE}",
        help="hessian or jacobian: the entries and where they stand; format=csc, csr, coo or lower, kind, order, argnums",
    )
    forms.add_argument(
        "--hvp-module",
        nargs="?",
        type=int,
        const=16,
        metavar="BLOCK",
        help="the prepared Hessian: update, apply, apply_block (of BLOCK vectors, 16 by default) and so on, with state",
    )
    compile.add_argument(
        "--target",
        action="append",
        metavar="NAME{OPTION=VALUE}",
        help=f"{', '.join(TARGETS)} (default: cpu), cuda:sm_90; several make one artifact, the preferred one first",
    )
    compile.add_argument(
        "--emit",
        choices=["mlir", "stablehlo", "vmfb", "static-library"],
        default="vmfb",
        help="the traced IR, plain StableHLO, the artifact (default), or machine code with C around it",
    )
    compile.add_argument("--name", help="the name of the entry point; that of the transforms, or of the function, by default")
    compile.add_argument("-o", dest="output", metavar="FILE", help="NAME.vmfb by default; text goes to standard output")
    compile.add_argument("--flag", action="append", default=[], metavar="FLAG", help="a further flag of iree-compile")
    compile.add_argument("--tune", action="store_true", help="time several forms on this machine, and keep the fastest")
    compile.add_argument("--no-cache", action="store_true", help="do not use the cache of compiled modules")
    compile.set_defaults(action=compile_command)

    info = commands.add_parser("info", parents=[common], help="what an artifact offers")
    info.add_argument("file", help=_FILE)
    info.add_argument("--json", action="store_true", help="print the manifest itself")
    info.set_defaults(action=info_command)

    run = commands.add_parser("run", parents=[common], help="call an entry point of an artifact")
    run.add_argument("file", help=_FILE)
    run.add_argument("entry", nargs="?", help="the entry point; may be left out if there is one")
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        dest="inputs",
        help="for each array in the order of `info`, or NAME=VALUE: a .npy file, 3.5, [1, 2, 3]",
    )
    run.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="FILE.npy",
        dest="outputs",
        help="where to write each result, in order; results are printed otherwise",
    )
    run.add_argument("--driver", help=drivers)
    run.add_argument("--target", help="the target to take, as `info` writes it; the first that fits by default")
    run.set_defaults(action=run_command)

    verify = commands.add_parser("verify", parents=[common], help="is an artifact whole, does it run here, is it right")
    verify.add_argument("file", help=_FILE)
    verify.add_argument("--target", help="only this target, as `info` writes it")
    verify.set_defaults(action=verify_command)

    bench = commands.add_parser("bench", parents=[common], help="what each dispatch of a call costs here, and the bound")
    bench.add_argument("file", help=_FILE)
    bench.add_argument("entry", nargs="?", help="the entry point; all of them by default")
    bench.add_argument("--driver", help=drivers)
    bench.add_argument("--json", action="store_true", help="print the numbers as JSON")
    bench.set_defaults(action=bench_command)

    doctor = commands.add_parser("doctor", parents=[common], help="versions, devices, cache, a self test")
    doctor.set_defaults(action=doctor_command)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of the command; returns the exit code."""
    options = parse_arguments(sys.argv[1:] if argv is None else argv)
    try:
        return int(options.action(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:
        if options.traceback:
            raise
        print(f"nabla-mlir: {_describe(error)}", file=sys.stderr)
        return 1


def _describe(error: Exception) -> str:
    """One of our errors, or what the user's own program raised, with its line."""
    if isinstance(error, NablaError):
        is_command = error.where is not None and error.where.function == "<module>" and error.where.filename == sys.argv[0]
        return f"error: {type(error)(error.message, help=error.help) if is_command else error}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).exists()]
    own = [f for f in frames if not is_internal(f.filename) and "importlib" not in f.filename]
    where = f"\n  --> {own[-1].filename}:{own[-1].lineno}\n      {own[-1].line}" if own else ""
    return f"error: {type(error).__name__}: {error}{where}\n  help: --traceback shows all of it."


if __name__ == "__main__":
    sys.exit(main())
