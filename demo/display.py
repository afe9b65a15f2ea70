"""The output of the demo: a spinner and coloured marks on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table


class Display:
    """Steps, proofs and tables."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.failures: list[str] = []

    def title(self, text: str) -> None:
        """Starts a part."""
        self.console.print(f"\n[bold]{text}[/bold]")

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """A piece of work with its time. Gives a function that says how it is getting on; the last word stays."""
        start, said = time.perf_counter(), [""]
        with self.console.status(f"{text} ...") as status:

            def say(words: str) -> None:
                said[0] = words
                status.update(f"{text} ... {words}")

            yield say
        detail = f": {said[0]}" if said[0] else ""
        self.console.print(f"  [green]✓[/green] {text}{detail} [dim]({duration(time.perf_counter() - start)})[/dim]")

    def proof(self, text: str, error: float, bound: float) -> None:
        """States that an error is below a bound; a failure is remembered."""
        holds = error <= bound  # false for NaN
        mark = "[green]✓[/green]" if holds else "[bold red]✗[/bold red]"
        self.console.print(f"  {mark} {text}: error {error:.1e}, at most {bound:.0e} allowed")
        if not holds:
            self.failures.append(text)

    def table(self, title: str, rows: list[tuple[str, str]]) -> None:
        """Names and values."""
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for row in rows:
            table.add_row(*row)
        self.console.print()
        self.console.print(table)

    def print(self, *args: Any) -> None:
        """A line."""
        self.console.print(*args)


def duration(t: float) -> str:
    """Seconds in the unit that suits them."""
    if t < 1e-3:
        return f"{t * 1e6:,.0f} µs"
    return f"{t:.2f} s" if t >= 0.1 else f"{t * 1e3:.1f} ms"
