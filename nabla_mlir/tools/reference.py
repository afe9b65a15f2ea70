"""Writes the reference pages of passes, dialects and operations from docstrings and tables of the program.

python -m nabla_mlir.tools.reference [ROOT]
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nabla_mlir.dialects import debug
from nabla_mlir.dialects.ad import JvpOp, VjpOp
from nabla_mlir.dialects.ad_rules import CheckpointOp, CustomJvpOp, CustomVjpOp, LinearSolveOp
from nabla_mlir.dialects.batch import VmapOp
from nabla_mlir.dialects.context import parse_module
from nabla_mlir.passes.base import PASSES, PIPELINES, NamedPipeline, Pass
from nabla_mlir.passes.iree.faults import table
from nabla_mlir.passes.normalize.normalize import REFUSED, REWRITTEN
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.passes.simplify.pattern import PATTERNS
from nabla_mlir.table.registry import REGISTRY, OpDef
from nabla_mlir.table.rules import UNSUPPORTED, Zero
from nabla_mlir.tools.coverage import MEASURED, TITLES, measurable
from nabla_mlir.tools.house import picture
from nabla_mlir.tools.pass_lists import condition_of, options_of

_GENERATED = "<!-- Written by python -m nabla_mlir.tools.reference; do not edit. -->\n"
_MAP = "<!-- map: written by python -m nabla_mlir.tools.reference -->"
_END_OF_MAP = "<!-- end of the map -->"
_DIALECTS = """\
This page describes the operations of the dialects `ad` and `batch`, and the records of all operations, for those who read or
write IR. A module is StableHLO (and CHLO) with region operations of the two dialects: `ad` differentiates a region, and
`batch` maps it over axes. A region ends in `stablehlo.return`. It may use values from outside; they are constants of the
transform. The IRDL files define both dialects for the stock `iree-opt --irdl-file=`. `nabla-verify` checks the conditions that
IRDL cannot express."""
_RECORDS = """\
There is one record for each operation that can be differentiated and batched (`nabla_mlir/ops`). The columns:

- *jvp* is `partials` (one derivative for each operand, read backwards in reverse mode), `linear` (the operation itself on the
  tangents, and its transpose in reverse mode), `multilinear` (the product rule), `rule` (a function), `zero` (the derivative is
  zero), or the reason why there is none.
- *linear in* lists the operands in which the operation can be transposed.
- *facts* lists the facts that passes ask of the record; `OpDef` in `nabla_mlir/table/registry.py` explains each."""

_COVERAGE = """\
This page lists each operation of StableHLO and CHLO, with its rules and the targets on which it runs.

- *zero*: the derivative is zero, or the result has no tangent.
- *rewritten*: the import of a module replaces the operation by others, and their rules hold.
- Reverse mode is the transpose of the jvp, by the same table. Rules emit only operations of the table, so second order follows.
  `tests/ops/test_laws.py` compares all of this with differences.
- The columns of targets are measured by `python -m nabla_mlir.tools.coverage` on the samples of the records, in each dtype that
  the operation accepts. A dtype is listed if the operation runs on the CPU (embedded) and on Vulkan with NumPy's numbers, and
  compiles for two generations of CUDA. The exceptions are listed below the table."""

_CONVENTIONS = """\
[docs/conventions.md](../../docs/conventions.md) states the derivative where it does not exist, and where formulas give
0 * inf."""


def pages(root: Path) -> dict[Path, str]:
    """The text of each generated page by its path."""
    return {
        root / "passes" / "README.md": passes_page(root),
        root / "dialects" / "README.md": dialects_page(root),
        root / "nabla_mlir" / "ops" / "README.md": operations_page(root),
        root / "CONTRIBUTING.md": contributing_page(root),
    }


# ---------------------------------------------------------------- passes


def passes_page(root: Path) -> str:
    """The text of the page of all passes."""
    names = sorted(PASSES)
    lines = [
        "# Passes",
        "",
        _GENERATED,
        "This page lists all passes, for those who read or change what happens to a program. A pass transforms IR. Each module",
        "here is a pass, or a family of patterns of one. `nabla-opt` runs passes on a file, together with MLIR's own:",
        "",
        "    nabla-opt model.mlir --pass-pipeline='builtin.module(nabla-expand,nabla-simplify,cse)'",
        "",
        "Every program that is traced or imported goes through the pipeline [`nabla-lower`](#nabla-lower). On the way to IREE it",
        "also goes through [`nabla-iree`](#nabla-iree).",
        "",
        f"## See what happens\n\n{inspect.getdoc(debug)}",
        "",
        "`nabla-opt --explain-batch` annotates each value",
        "inside a map with the axes it carries; `--mlir-print-ir-after-all` prints the module after each pass.",
        "",
        "## Named pipelines",
        "",
        "`nabla-opt --list-pipelines` prints them. The name of a pipeline stands for its passes.",
    ]
    for name in ("nabla-lower", *sorted({*PIPELINES} - {"nabla-lower"})):
        lines += ["", f"### {name}", "", *_pipeline_section(PIPELINES[name])]
    lines += ["", "## Faults of IREE", "", inspect.getdoc(table) or "", "", "| fault | seen with | cure |", "|---|---|---|"]
    for fault in (*table.FAULTS, *table.WITH_REMEDIES):
        what = f"{fault.what} ([issue]({fault.link}))" if fault.link else fault.what
        cure = f"[`{fault.cure}`](#{fault.cure})" if fault.cure in PASSES else fault.cure
        lines.append(f"| {_cell(what)} | {fault.seen} | {cure} |")
    lines += ["", "## All passes", "", "| pass | effect |", "|---|---|"]
    lines += [f"| [`{name}`](#{name}) | {_cell(_doc(PASSES[name])[0])} |" for name in names]
    for name in names:
        lines += ["", f"## {name}", "", *_pass_section(root, PASSES[name])]
    return "\n".join(lines) + "\n"


def _pipeline_section(cls: type[NamedPipeline]) -> list[str]:
    """The lines about a named pipeline: its summary, its options, and its passes with the reasons for their positions."""
    summary, description, _ = _doc(cls)
    lines = [summary, ""] + ([description, ""] if description else []) + _options_table(cls)
    lines += ["| pass | only for | reason for its position |", "|---|---|---|"]
    return lines + [f"| [`{s.name}`](#{s.name}) | {condition_of(s)} | {_cell(s.why)} |" for s in cls.steps]


def _options_table(cls: type[Pass | NamedPipeline]) -> list[str]:
    """The lines of the table of a pass's options; an empty list if it has none."""
    if not (options := options_of(cls)):
        return []
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    return lines + [f"| `{o.name}` | {o.type} | {o.default} | {_cell(o.help)} |" for o in options] + [""]


def _doc(cls: type[Pass | NamedPipeline]) -> tuple[str, str, str]:
    """The summary, the description and the path of the example in the docstring of a pass or a pipeline."""
    summary, _, rest = (inspect.getdoc(cls) or "").partition("\n")
    description, _, example = rest.partition("Example:")
    return summary, description.strip(), example.strip()


def _pass_section(root: Path, cls: type[Pass]) -> list[str]:
    """The lines about a pass, with its example before and after the pass."""
    summary, description, example = _doc(cls)
    lines = [summary, ""] + ([description, ""] if description else []) + _options_table(cls)
    if cls.name == "nabla-simplify":
        lines += _patterns_table()
    source = (root / example).read_text()
    before = example_of(source)
    after = _after(_as_run(cls, source), before)
    lines += [f"Example (the first of [{Path(example).name}](../{example})):", "", "```mlir", before, "```"]
    return [*lines, "", "becomes", "", "```mlir", after, "```"] if after else lines


def _as_run(cls: type[Pass], source: str) -> Pipeline:
    """The pipeline of one pass, with the options in the first command of its test file."""
    options = re.search(rf"\b{cls.name}{{.*?}}", source.partition("\n")[0])
    return Pipeline.parse(options[0] if options else cls.name)


def _after(pipeline: Pipeline, text: str) -> str:
    """The text of an example's function after a pass; "" if the pass does not change the example.

    `text` is the example, a module of MLIR with comments. `pipeline` is the pass, with its options.
    """
    module = parse_module(re.sub(r"^//.*\n", "", text, flags=re.M))
    before = str(module)
    pipeline.run(module.operation)
    function = next(op for op in module.body.operations if op.operation.name == "func.func")
    return "" if str(module) == before else str(function)


def example_of(text: str) -> str:
    """The first function of a test file with the sentence above it, without lines for lit and filecheck."""
    code = []
    for line in text.splitlines():
        if re.match(r"\s*// (RUN|[A-Z-]+(?:-[A-Z]+)?):|\s*// expected-", line):
            continue
        if line.startswith("// -----"):
            break
        code.append(line)
        if line == "}":
            break
    start = next(i for i, line in enumerate(code) if "func.func" in line)
    while start and code[start - 1].startswith("//"):
        start -= 1
    return "\n".join(code[start:])


def _patterns_table() -> list[str]:
    """The lines of the table of patterns, in the order of the files."""
    lines = ["| operation | pattern | rewrites |", "|---|---|---|"]
    for family in dict.fromkeys(p.__module__ for patterns in PATTERNS.by_name.values() for p in patterns):
        for operation, patterns in PATTERNS.by_name.items():
            lines += [
                f"| `{operation}` | `{p.__name__}` | {_cell((inspect.getdoc(p) or '').splitlines()[0])} |"
                for p in patterns
                if p.__module__ == family
            ]
    return [*lines, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


# ---------------------------------------------------------------- dialects


def dialects_page(root: Path) -> str:
    """The text of the page of the dialects and of the rule table."""
    lines = ["# Dialects", "", _GENERATED, _DIALECTS, ""]
    for dialect, views in (("ad", (JvpOp, VjpOp, CustomJvpOp, CustomVjpOp, LinearSolveOp, CheckpointOp)), ("batch", (VmapOp,))):
        source = (root / "dialects" / f"{dialect}.irdl.mlir").read_text()
        errors = (root / "tests" / "filecheck" / "errors" / f"{dialect}.mlir").read_text()
        lines += [f"## {dialect}", "", *_irdl_sections(source, {view.name: view for view in views}, errors)]
    return "\n".join([*lines, *_table()]) + "\n"


def _irdl_sections(source: str, views: dict[str, Any], errors: str) -> list[str]:
    """The lines of the reference about each operation of an IRDL file: its comment, its definition, and the checks of the verifier.

    `source` is the text of the file, `views` maps names of operations to Python classes, and `errors` is the text of the verifier's
    test.
    """
    dialect = re.search(r"irdl\.dialect @(\w+)", source)
    assert dialect is not None
    lines = []
    for comment, definition, name in re.findall(
        r"((?:^  //[^\n]*\n)+)(^  irdl\.operation @(\w+) \{\n.*?^  \})", source, re.M | re.S
    ):
        full = f"{dialect[1]}.{name}"
        words = [line.strip().removeprefix("//").strip() for line in comment.splitlines()]
        lines += [f"### {full}", "", *words, "", "```mlir", inspect.cleandoc(definition), "```", ""]
        if full in views:
            lines += [inspect.getdoc(views[full]) or "", ""]
        checks = re.findall(rf"expected-error@below \{{\{{({full} requires [^\n]*?)(?:, got [^\n]*)?\}}\}}", errors)
        if checks:
            lines += ["Messages of the verifier, without the values that it got:", ""]
            lines += [f"- {check}" for check in dict.fromkeys(checks)] + [""]
    return lines


def _table() -> list[str]:
    """The lines of the table of records, one for each operation."""
    lines = [
        "## The rule table",
        "",
        _RECORDS,
        "",
        "| operation | kind | meaning | jvp | linear in | facts | attributes |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted(REGISTRY):
        record = REGISTRY[name]
        attributes = ", ".join(f"`{a}`" for a in [*record.attributes, *record.regions])
        lines.append(
            f"| `{name}` | {record.kind} | {_cell(record.doc)} | {_jvp_word(record)} | {_linear_word(record)} "
            f"| {_facts(record)} | {attributes} |"
        )
    return lines


def _facts(record: OpDef) -> str:
    """The properties of an operation for passes as text, and its instructions per element if there are several."""
    words = [
        word
        for word in ("elementwise", "moves", "free", "view", "part", "reduces", "commutes", "sequential")
        if getattr(record, word)
    ]
    words += [] if record.pure else ["not pure"]
    words += [f"runs: {record.runs}"] if record.runs else []
    words += [f"{record.instructions} instructions"] if record.instructions > 1 else []
    return ", ".join(words)


def _jvp_word(record: OpDef) -> str:
    """The kind of an operation's derivative as a word for the table."""
    if isinstance(record.jvp, Zero):
        return "zero"
    if isinstance(record.jvp, UNSUPPORTED):
        return f"none: {_cell(record.jvp.reason)}"
    if record.partials is not None:
        return "partials"
    if callable(record.linear) or not record.linear:
        return "rule"
    return "linear" if record.joint else "multilinear"


def _linear_word(record: OpDef) -> str:
    """The operands in which an operation is linear, as text for the table."""
    if callable(record.linear):
        return "depends on the attributes"
    if isinstance(record.linear, str):
        return record.linear
    return ", ".join(map(str, record.linear)) + ("" if record.joint or not record.linear else " (each)")


# ---------------------------------------------------------------- operations


def operations_page(root: Path) -> str:
    """The table of supported features of each operation of StableHLO and CHLO, from the records and from measurements."""
    coverage = json.loads((root / MEASURED).read_text())
    lines = [
        "# Operations",
        "",
        _GENERATED,
        _COVERAGE,
        "",
        f"| operation | emit | jvp | vjp | second order | batch | {' | '.join(TITLES.values())} |",
        "|---" * (6 + len(TITLES)) + "|",
    ]
    names = sorted({*measurable(), *REFUSED})
    notes: dict[str, str] = {}
    for name in names:
        words = rule_words(name)
        for target, title in TITLES.items():
            outcome = coverage.get(name, {}).get(target, {})
            words.append(" ".join(dtype for dtype, word in outcome.items() if not word.startswith("no")) or "no")
            for reason in sorted({word for word in outcome.values() if word.startswith("no")}):
                dtypes = " ".join(dtype for dtype, word in outcome.items() if word == reason)
                notes[f"`{name}` on {title} in {dtypes}"] = reason.removeprefix("no: ")
        lines.append(f"| `{name}` | {' | '.join(words)} |")
    lines += ["", "## Exceptions", ""]
    lines += [f"- {what}: {_cell(reason)}" for what, reason in notes.items()]
    reasons = {name: f"refused: {REFUSED[name]}" for name in sorted(REFUSED)}
    for name, record in sorted(REGISTRY.items()):
        for word, rule in (("jvp", record.jvp), ("batch", record.batch)):
            if isinstance(rule, UNSUPPORTED) and name in names:
                reasons[name] = f"{word}: {rule.reason}"
    lines += [f"- `{name}` {_cell(reason)}" for name, reason in reasons.items()]
    return "\n".join([*lines, "", "## Conventions", "", _CONVENTIONS]) + "\n"


def rule_words(name: str) -> list[str]:
    """The texts of the columns emit, jvp, vjp, second order and batch of an operation."""
    if name in REFUSED:
        return ["no"] * 5
    if name not in REGISTRY:
        return ["rewritten"] * 5
    record = REGISTRY[name]
    derivative = "zero" if isinstance(record.jvp, Zero) else "no" if isinstance(record.jvp, UNSUPPORTED) else "yes"
    emit = "rewritten" if name in REWRITTEN else "yes"
    return [emit, derivative, derivative, derivative, "no" if isinstance(record.batch, UNSUPPORTED) else "yes"]


def contributing_page(root: Path) -> str:
    """CONTRIBUTING.md; only its map of the rooms is generated."""
    before, start, rest = (root / "CONTRIBUTING.md").read_text().partition(f"{_MAP}\n")
    return f"{before}{start}\n```text\n{picture(root)}\n```\n\n{rest[rest.index(_END_OF_MAP) :]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the pages into the checkout that `argv` names first, or else into the current folder; returns the exit code 0."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for path, text in pages(Path(arguments[0] if arguments else ".").resolve()).items():
        path.write_text(text)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
