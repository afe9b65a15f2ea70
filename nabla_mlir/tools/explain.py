"""nabla-mlir explain and diff: the page of a program, and of the difference between two files of IR."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from nabla_mlir.tools.commands import requested, traced_by, transforms_of
from nabla_mlir.tools.terminal import Progress, colored


def explain_command(options: argparse.Namespace) -> int:
    """Writes the page that explains a function, or the stage of `--hvp-module` or `--sparse`; returns the exit code."""
    progress = Progress()
    with progress.step("loading"):
        from nabla_mlir.explorer import explain
        from nabla_mlir.tools.requests import parse_target

        target = parse_target(options.target) if options.target else None
        function, positional, keywords = requested(options)
        name = options.name or transforms_of(options) or None
    if options.hvp_module is not None or options.sparse is not None:
        name = None
        with progress.step("preparing"):
            function, positional, keywords = traced_by(function, positional, keywords, options), [], {}
    with progress.step("running the passes" if target is None else "running the passes, compiling, measuring"):
        explanation = explain(function, *positional, target=target, sparsity=options.sparsity or "", name=name, **keywords)
    default = None if options.json else f"{explanation.data['title'].split(',')[0]}.html"
    return _write(explanation, options.output or default, options.json, progress)


def diff_command(options: argparse.Namespace) -> int:
    """Prints the differences between two files of IR, or writes their page; returns 1 if they differ."""
    from nabla_mlir.explorer import compare

    explanation = compare(options.a, options.b)
    states, texts = explanation.data["states"], explanation.data["texts"]
    is_different = len(states) > 1
    if options.output or options.json:
        _write(explanation, options.output, options.json, Progress())
        return int(is_different)
    rows = _difference(states[0], states[-1]) if is_different else []
    color = {"-": "\x1b[31m", "+": "\x1b[32m"} if colored(sys.stdout) else {}
    for sign, state, line in rows:
        text = f"{sign} {'  ' * state['depth'][line]}{texts[state['text'][line]]}"
        print(f"{color[sign]}{text}\x1b[0m" if sign in color else text)
    return int(is_different)


def _difference(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """The rows of the difference of two states of a module: a sign ("-", "+" or " "), the state, and the line in it.

    The states are JSON; `same` has, for each line of `after`, the equal line of `before`, or -1.
    """
    rows, position = [], 0
    for line, old in enumerate(after["same"]):
        if old >= 0:
            rows += [("-", before, i) for i in range(position, old)]
            position = old + 1
        rows.append((" " if old >= 0 else "+", after, line))
    return rows + [("-", before, i) for i in range(position, len(before["text"]))]


def _write(explanation: Any, output: str | None, as_json: bool, progress: Progress) -> int:
    """Writes an explanation to the file `output`, or prints it as JSON if there is none; returns the exit code 0.

    `progress` shows the current step.
    """
    if output is None:
        print(explanation.to_json())
        return 0
    path = explanation.save(output)
    if as_json:
        print(json.dumps({"file": str(path), "bytes": path.stat().st_size}))
    progress.say(f"{path} ({path.stat().st_size} bytes): open it in a browser")
    return 0
