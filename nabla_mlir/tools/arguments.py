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
_EXIT_CODES = """exit codes: 0 done; 1 an error, a check that failed, or files that differ; 2 a wrong command line; 130 interrupted.
NO_COLOR in the environment keeps colors out; --json prints what programs read, an error as {"error", "message", "help"}.
"""
_FILE = "the .zip, the folder, the .json or the .vmfb"
_DRIVERS = ", ".join(dict.fromkeys(driver for target in TARGETS.values() for driver in target.drivers))


def parser() -> argparse.ArgumentParser:
    """The parser; `action` is the function that does the work."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--traceback", action="store_true", help="show where in the program an error came from")
    printing = argparse.ArgumentParser(add_help=False)
    printing.add_argument("--json", action="store_true", help="print what programs read, as JSON")
    whole = argparse.ArgumentParser(
        prog="nabla-mlir", parents=[common], formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compiles derivatives to files, explains them, shows what a file offers, runs it, and looks after the "
        "installation.",
        epilog=_EXAMPLES + "\n" + _EXIT_CODES,
    )  # fmt: skip
    versions = f"nabla-mlir {_version('nabla-mlir')} (IREE {_version('iree-base-compiler')})"
    whole.add_argument("--version", action="version", version=versions)
    names = whole.add_subparsers(required=True, metavar="COMMAND")
    both = [common, printing]
    _add_compile(names.add_parser("compile", parents=both, help="a function, maybe transformed, to a file", epilog=_EXAMPLES,
                                  formatter_class=argparse.RawDescriptionHelpFormatter))  # fmt: skip
    _add_explain(names.add_parser("explain", parents=both, help="a page of what the passes make of a function, and what it costs"))
    _add_diff(names.add_parser("diff", parents=both, help="how two files of IR differ, operation by operation"))
    info = names.add_parser("info", parents=both, help="what an artifact offers")
    info.add_argument("file", help=_FILE)
    info.set_defaults(action=commands.info_command)
    _add_run(names.add_parser("run", parents=both, help="call an entry point of an artifact"))
    verify = names.add_parser("verify", parents=both, help="is an artifact whole, does it run here, is it right")
    verify.add_argument("file", help=_FILE)
    verify.add_argument("--target", help="only this target, as `info` writes it")
    verify.set_defaults(action=commands.verify_command)
    bench = names.add_parser("bench", parents=both, help="what each dispatch of a call costs here, and the bound")
    bench.add_argument("file", help=_FILE)
    bench.add_argument("entry", nargs="?", help="the entry point; all of them by default")
    bench.add_argument("--driver", help=f"{_DRIVERS}; chosen by the manifest by default")
    bench.set_defaults(action=commands.bench_command)
    doctor = names.add_parser("doctor", parents=both, help="versions, devices, cache, a self test")
    doctor.set_defaults(action=commands.doctor_command)
    _add_cache(names.add_parser("cache", help="what is kept of earlier compilations"), both)
    completion = names.add_parser("completion", parents=both, help="a script by which a shell completes this command")
    completion.add_argument("shell", choices=["bash", "zsh", "tcsh"])
    completion.set_defaults(action=lambda options: upkeep.completion_command(options, parser()))
    return whole


def _add_model(command: argparse.ArgumentParser) -> None:
    """What `compile` and `explain` share: the function and what is made of it."""
    command.add_argument("model", metavar="MODEL", help="model.py:function, or a StableHLO module model.mlir[:entry]")
    command.add_argument("--spec", action="append", default=[], metavar="SPEC",
                         help="an argument in order, or by name: f32[128,4], data=f32[10], a Python tree of them")  # fmt: skip
    command.add_argument("--transform", action="append", default=[], metavar="NAME{OPTION=VALUE}",
                         help="grad, value_and_grad, hvp, jvp, vjp, jacfwd, jacrev, hessian, vmap; in order")  # fmt: skip
    forms = command.add_mutually_exclusive_group()
    forms.add_argument("--sparse", metavar="NAME{OPTION=VALUE}", help="hessian or jacobian: the entries and where they stand; "
                       "format=csc, csr, coo or lower, kind, order, argnums")  # fmt: skip
    forms.add_argument("--hvp-module", nargs="?", type=int, const=16, metavar="BLOCK", help="the prepared Hessian: update, apply, "
                       "apply_block (of BLOCK vectors, 16 by default) and so on, with state")  # fmt: skip
    command.add_argument("--name", help="the name of the entry point; that of the transforms, or of the function, by default")


def _add_compile(compile: argparse.ArgumentParser) -> None:
    _add_model(compile)
    compile.add_argument("--target", action="append", metavar="NAME{OPTION=VALUE}",
                         help=f"{', '.join(TARGETS)} (default: cpu), cuda:sm_90; several make one artifact, the preferred one "
                         "first")  # fmt: skip
    forms = ["mlir", "stablehlo", "vmfb", "static-library"]
    compile.add_argument("--emit", choices=forms, default="vmfb",
                         help="the traced IR, plain StableHLO, the artifact (default), or machine code with C around "
                         "it")  # fmt: skip
    compile.add_argument("-o", dest="output", metavar="FILE", help="NAME.vmfb by default; text goes to standard output")
    compile.add_argument("--flag", action="append", default=[], metavar="FLAG", help="a further flag of iree-compile")
    compile.add_argument("--tune", action="store_true", help="time several forms on this machine, and keep the fastest")
    compile.add_argument("--no-cache", action="store_true", help="do not use the cache of compiled modules")
    compile.set_defaults(action=commands.compile_command)


def _add_explain(command: argparse.ArgumentParser) -> None:
    _add_model(command)
    command.add_argument("--target", metavar="NAME{OPTION=VALUE}",
                         help="also compile for it, and measure its kernels if it runs here")  # fmt: skip
    command.add_argument("--sparsity", choices=["hessian", "jacobian"],
                         help="also the pattern by the first argument, with a coloring")  # fmt: skip
    command.add_argument("-o", dest="output", metavar="FILE", help="NAME.html by default; .json, .trace.json (Chrome), "
                         ".graph.json (Model Explorer) for other tools")  # fmt: skip
    command.set_defaults(action=explain.explain_command)


def _add_diff(command: argparse.ArgumentParser) -> None:
    command.add_argument("a", metavar="A.mlir")
    command.add_argument("b", metavar="B.mlir")
    command.add_argument("-o", dest="output", metavar="FILE", help="write the page, or .json; printed by default")
    command.set_defaults(action=explain.diff_command)


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("file", help=_FILE)
    run.add_argument("entry", nargs="?", help="the entry point; may be left out if there is one")
    run.add_argument("--input", action="append", default=[], metavar="VALUE", dest="inputs",
                     help="for each array in the order of `info`, or NAME=VALUE: a .npy file, 3.5, [1, 2, 3]")  # fmt: skip
    run.add_argument("--output", action="append", default=[], metavar="FILE.npy", dest="outputs",
                     help="where to write each result, in order; results are printed otherwise")  # fmt: skip
    run.add_argument("--driver", help=f"{_DRIVERS}; chosen by the manifest by default")
    run.add_argument("--target", help="the target to take, as `info` writes it; the first that fits by default")
    run.set_defaults(action=commands.run_command)


def _add_cache(cache: argparse.ArgumentParser, both: list[argparse.ArgumentParser]) -> None:
    actions = cache.add_subparsers(required=True, metavar="ACTION")
    listing = actions.add_parser("list", parents=both, help="the entries, those used last first")
    listing.set_defaults(action=upkeep.list_command)
    prune = actions.add_parser("prune", parents=both, help="remove those that were not used for longest")
    prune.add_argument("--to", default="0", metavar="SIZE", help="what may stay: 500M, 2G (default: nothing)")
    prune.set_defaults(action=upkeep.prune_command)
    export = actions.add_parser("export", parents=both, help="all entries as a .zip, to be unpacked in the folder of another cache")
    export.add_argument("output", metavar="FILE.zip")
    export.set_defaults(action=upkeep.export_command)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
