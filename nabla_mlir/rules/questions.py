"""Questions about values, which are answered from the answers for the values that they are computed from.

An example is "what is the mask of this cotangent?": a reshape has the reshaped mask of its operand.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from iree.compiler import ir

Known = dict[ir.Value, Any]
Answer = TypeVar("Answer")
Asking = Generator[ir.Value, Any, Answer]  # a question: yields values whose answers it needs, returns its own


def follow(value: ir.Value, ask: Callable[[ir.Value], Asking[Answer]], answers: Known) -> Answer:
    """The answer to a question about a value, without recursion of Python, because programs are deep.

    A question is a generator: ``mask = yield other`` asks for the answer of another value, and ``return`` gives its
    own. Questions that wait for an answer are on a stack, and each value is asked about once.

    Args:
      value: the value.
      ask: the question about a value.
      answers: the known answers; the function adds to them.
    """
    waiting = [] if value in answers else [(value, ask(value))]
    answer = answers.get(value)
    while waiting:
        current, asking = waiting[-1]
        try:
            other = asking.send(answer)
        except StopIteration as end:
            answers[current] = answer = end.value
            waiting.pop()
            continue
        answer = answers.get(other)
        if other not in answers:
            waiting.append((other, ask(other)))
    return answers[value]
