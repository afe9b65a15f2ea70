"""The command line of nabla-mlir: its commands and their options."""

from __future__ import annotations

import argparse
from importlib import metadata

from nabla_mlir.targets import TARGETS
from nabla_mlir.tools import commands, explain, upkeep

_EXAMPLES = """examples:
  nabla-mlir compile model.py:loss --spec f32[128] --spec f32[128] --transform hvp -o hvp.vmfb
  nabla-mlir run hvp.vmfb hvp --input x.npy --input v.npy
  nabla-mlir compile model.py:loss --spec '{"w": f32[3,4], "b": f32[4]}' --spec data=f32[10,3] --transform grad
  nabla-mlir compile model.mlir --transform 'hvp{wrt=0}' --target 'cpu{cpu=generic}' --emit stablehlo
  nabla-mlir compile model.py:loss --spec f32[128] --hvp-module -o hvp.vmfb
  nabla-mlir compile model.py:loss --spec f32[128] --target cuda:sm_90 --target cpu{cpu=generic} -o loss.zip
  nabla-mlir explain model.py:loss --spec f32[128] --spec f32[128] --transform hvp --target cpu -o page.html
  nabla-mlir verify loss.zip
"""
_EXIT_CODES = """exit codes: 0 done; 1 an error, a failed check, or files that differ; 2 a wrong command line; 130 interrupted.
NO_COLOR in the environment turns colors off. --json prints results as JSON, and an error as {"error", "message", "help"}.
"""
_FILE = "an artifact: its .zip, its folder, its .json or its .vmfb"
_DRIVERS = ", ".join(dict.fromkeys(driver for target in TARGETS.values() for driver in target.drivers))


def parser() -> argparse.ArgumentParser:
    """The parser of the command line; the parsed options have a field `action`, the function of the command."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--traceback", action="store_true", help="show the traceback of an error")
    printing = argparse.ArgumentParser(add_help=False)
    printing.add_argument("--json", action="store_true", help="print the result as JSON")
    whole = argparse.ArgumentParser(
        prog="nabla-mlir",
        parents=[common],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compiles derivatives to files, explains them, runs and checks the files, and manages the installation.",
        epilog=_EXAMPLES + "\n" + _EXIT_CODES,
    )
    versions = f"nabla-mlir {_version('nabla-mlir')} (IREE {_version('iree-base-compiler')})"
    whole.add_argument("--version", action="version", version=versions)
    names = whole.add_subparsers(required=True, metavar="COMMAND")
    both = [common, printing]
    _add_compile(
        names.add_parser(
            "compile",
            parents=both,
            help="compile a function or a transform to a file",
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    explanation = "write a page that shows the effect of each pass on a function, and its cost"
    _add_explain(names.add_parser("explain", parents=both, help=explanation))
    _add_diff(names.add_parser("diff", parents=both, help="print how two files of IR differ, operation by operation"))
    info = names.add_parser("info", parents=both, help="print the entry points and properties of an artifact")
    info.add_argument("file", help=_FILE)
    info.set_defaults(action=commands.info_command)
    _add_run(names.add_parser("run", parents=both, help="call an entry point of an artifact"))
    verify = names.add_parser("verify", parents=both, help="check that an artifact is whole, runs here, and is right")
    verify.add_argument("file", help=_FILE)
    verify.add_argument("--target", help="check only this target, as `info` prints it")
    verify.set_defaults(action=commands.verify_command)
    bench = names.add_parser("bench", parents=both, help="time each dispatch of a call, next to the bound of this machine")
    bench.add_argument("file", help=_FILE)
    bench.add_argument("entry", nargs="?", help="the entry point (default: all)")
    bench.add_argument("--driver", help=f"{_DRIVERS} (default: the driver that the manifest names)")
    bench.set_defaults(action=commands.bench_command)
    doctor = names.add_parser("doctor", parents=both, help="print versions, devices and the cache, and run a self test")
    doctor.set_defaults(action=commands.doctor_command)
    _add_cache(names.add_parser("cache", help="list, shrink or export the cache of compiled modules"), both)
    completion = names.add_parser("completion", parents=both, help="print a script that makes a shell complete this command")
    completion.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    completion.set_defaults(action=lambda options: upkeep.completion_command(options, parser()))
    return whole


def _add_model(command: argparse.ArgumentParser) -> None:
    """Adds the common options of `compile` and `explain`: the function and its transforms."""
    command.add_argument("model", metavar="MODEL", help="model.py:function, or a StableHLO module model.mlir[:entry]")
    command.add_argument(
        "--spec",
        action="append",
        default=[],
        metavar="SPEC",
        help="the type of an argument, in order or by name: f32[128,4], data=f32[10], or a tree",
    )
    command.add_argument(
        "--transform",
        action="append",
        default=[],
        metavar="NAME{OPTION=VALUE}",
        help="grad, value_and_grad, hvp, jvp, vjp, jacfwd, jacrev, hessian, vmap; applied in order",
    )
    forms = command.add_mutually_exclusive_group()
    forms.add_argument(
        "--sparse",
        metavar="NAME{OPTION=VALUE}",
        help="a sparse hessian or jacobian: its entries and their "
        "positions; options: format=csc, csr, coo or lower, kind, order, argnums",
    )
    forms.add_argument(
        "--hvp-module",
        nargs="?",
        type=int,
        const=16,
        metavar="BLOCK",
        help="a prepared Hessian with a state; BLOCK is the number of vectors of apply_block (default 16)",
    )
    command.add_argument(
        "--entry-points",
        default="",
        metavar="NAMES",
        help="the entry points of --hvp-module, with commas between them, or all (default: value, gradient, update and apply)",
    )
    command.add_argument("--name", help="the name of the entry point (default: the name of the transforms, or of the function)")


def _add_compile(compile: argparse.ArgumentParser) -> None:
    """Adds the options of `nabla-mlir compile`."""
    _add_model(compile)
    compile.add_argument(
        "--target",
        action="append",
        metavar="NAME{OPTION=VALUE}",
        help=f"{', '.join(TARGETS)} (default: cpu), cuda:sm_90; several targets make one artifact, the preferred one first",
    )
    forms = ["mlir", "stablehlo", "vmfb", "static-library"]
    compile.add_argument(
        "--emit",
        choices=forms,
        default="vmfb",
        help="the traced IR, plain StableHLO, the artifact (default), or machine code with C functions that call it",
    )
    compile.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="the file to write; missing folders are made (default: NAME.vmfb; text is printed)",
    )
    compile.add_argument("--flag", action="append", default=[], metavar="FLAG", help="an additional flag of iree-compile")
    compile.add_argument("--tune", action="store_true", help="time several strategies on this machine, and use the fastest")
    compile.add_argument("--no-cache", action="store_true", help="do not use the cache of compiled modules")
    compile.set_defaults(action=commands.compile_command)


def _add_explain(command: argparse.ArgumentParser) -> None:
    """Adds the options of `nabla-mlir explain`."""
    _add_model(command)
    command.add_argument(
        "--target", metavar="NAME{OPTION=VALUE}", help="also compile for this target, and measure the kernels if it runs here"
    )
    command.add_argument(
        "--sparsity", choices=["hessian", "jacobian"], help="also show the sparsity pattern by the first argument, with a coloring"
    )
    command.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="the file to write (default: NAME.html); its ending selects the "
        "format: .json, .trace.json (Chrome), .graph.json (Model Explorer)",
    )
    command.set_defaults(action=explain.explain_command)


def _add_diff(command: argparse.ArgumentParser) -> None:
    """Adds the options of `nabla-mlir diff`."""
    command.add_argument("a", metavar="A.mlir")
    command.add_argument("b", metavar="B.mlir")
    command.add_argument("-o", dest="output", metavar="FILE", help="write a page, or .json (default: print the difference)")
    command.set_defaults(action=explain.diff_command)


def _add_run(run: argparse.ArgumentParser) -> None:
    """Adds the options of `nabla-mlir run`."""
    run.add_argument("file", help=_FILE)
    run.add_argument("entry", nargs="?", help="the entry point; needed if there are several")
    run.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        dest="inputs",
        help="a .npy file, 3.5 or [1, 2, 3] for each array, in the order of `info`, or NAME=VALUE",
    )
    run.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="FILE.npy",
        dest="outputs",
        help="the file of each result, in order (default: print the results)",
    )
    run.add_argument("--driver", help=f"{_DRIVERS} (default: the driver that the manifest names)")
    run.add_argument("--target", help="the target to run, as `info` prints it (default: the first that fits this machine)")
    run.set_defaults(action=commands.run_command)


def _add_cache(cache: argparse.ArgumentParser, both: list[argparse.ArgumentParser]) -> None:
    """Adds the actions list, prune and export to the command `nabla-mlir cache`; `both` are parsers with the options of
    all commands.
    """
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", parents=both, help="list the entries, the most recently used first")
    listing.set_defaults(action=upkeep.list_command)
    prune = actions.add_parser("prune", parents=both, help="remove the least recently used entries")
    prune.add_argument("--to", default="0", metavar="SIZE", help="the size that may remain: 500M, 2G (default: 0)")
    prune.set_defaults(action=upkeep.prune_command)
    export = actions.add_parser("export", parents=both, help="write all entries to a .zip; unpack it in the folder of a cache")
    export.add_argument("output", metavar="FILE.zip")
    export.set_defaults(action=upkeep.export_command)


def _version(package: str) -> str:
    """The version of an installed package, or "not installed"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
