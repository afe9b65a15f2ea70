"""Formats of other tools: Chrome's trace of events, and the graphs of Model Explorer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_RESULT = re.compile(r"^(%[\w$.#-]+)(?::(\d+))? = ")
_NAME = re.compile(r"%[\w$.-]+(?:#\d+)?")
_OPERATION = re.compile(r'^(?:%.*? = )?"?([\w.]+)"?')


def chrome_trace(document: dict[str, Any]) -> dict[str, Any]:
    """The passes and the kernels of an explanation as events in Chrome's format, with times in microseconds.

    `document` is the JSON of the explanation (`document.schema.json`).
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((1, "passes"), (2, "kernels of a call"))
    ]
    ends: dict[int, float] = {-1: 0.0}  # for each row, the end of its last part so far
    states = document["states"]
    for number, row in enumerate(document["rows"]):
        start = ends[row["parent"]]
        ends[row["parent"]], ends[number] = start + row["seconds"], start
        operations = {"operations": states[row["after"]]["operations"], "changed": row["before"] != row["after"]}
        events.append(_event(row["name"], 1, start, row["seconds"], operations))
    start = 0.0
    for kernel in document["kernels"]:
        if kernel["seconds"] is not None:
            events.append(_event(kernel["name"], 2, start, kernel["seconds"], {"flops": kernel["flops"], "bytes": kernel["bytes"]}))
            start += kernel["seconds"]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _event(name: str, pid: int, start: float, seconds: float, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": pid, "tid": 1, "ts": start * 1e6, "dur": seconds * 1e6, "args": args}


def reads_of_lines(texts: Sequence[str], depths: Sequence[int]) -> list[list[int]]:
    """The lines that define the operands of each line of a module, by index. A name refers to its innermost definition.

    `texts` are the lines, and `depths` their depths of indentation.

    Example: "%0 = op", "%1 = op %0" gives [], [0].
    """
    scopes: list[tuple[int, dict[str, int]]] = [(0, {})]
    reads = []
    for i, (text, depth) in enumerate(zip(texts, depths, strict=True)):
        while depth < scopes[-1][0]:
            scopes.pop()
        if depth > scopes[-1][0]:
            scopes.append((depth, {}))
        result = _RESULT.match(text)
        body = text[result.end() :] if result else text
        is_header = text.startswith(("^", "func.func", "util.func")) or text.endswith("{")
        names = [name.partition("#")[0] for name in _NAME.findall(body)]
        lines = [next((scope[name] for _, scope in reversed(scopes) if name in scope), -1) for name in names]
        reads.append(sorted({line for line in lines if line >= 0}))
        if result:
            scopes[-1][1][result[1]] = i
        arguments = {name: i for name, line in zip(names, lines, strict=True) if line < 0}
        if is_header:  # a header defines the arguments of its region
            scopes.append((depth + 1, arguments))
        else:  # names without a definition are arguments of the regions that follow
            scopes[-1][1].update(arguments)
    return reads


def model_explorer(document: dict[str, Any], state: int = -1) -> dict[str, Any]:
    """A state of the module as a graph for Model Explorer: a node for each operation, grouped by the user's functions.

    `document` is the JSON of the explanation, and `state` is the index of the state.
    """
    content = document["states"][state]
    texts = [document["texts"][t] for t in content["text"]]
    reads = reads_of_lines(texts, content["depth"])
    nodes = []
    for i, text in enumerate(texts):
        number = content["operation"][i]
        match = _OPERATION.match(text)
        if number < 0 or match is None or text.startswith("}"):  # a line continues an operation, or begins a block
            continue
        origin = document["origins"][content["origin"][number]]
        frames = origin["frames"]
        attributes = {
            "text": text,
            "flops": str(content["flops"][number]),
            "bytes": str(content["bytes"][number]),
            "made by": " of ".join(f"{s['name']}({s['of']})" for s in origin["steps"]),
            "line": f"{document['files'][frames[0]['file']]['path']}:{frames[0]['line']}" if frames else "",
        }
        nodes.append(
            {
                "id": str(i),
                "label": match[1],
                "namespace": "/".join(f["function"] for f in reversed(frames[:3])),
                "incomingEdges": [
                    {"sourceNodeId": str(r), "sourceNodeOutputId": "0", "targetNodeInputId": str(k)} for k, r in enumerate(reads[i])
                ],
                "attrs": [{"key": key, "value": value} for key, value in attributes.items() if value],
            }
        )
    return {"label": document["title"], "graphs": [{"id": document["title"], "nodes": nodes}]}
