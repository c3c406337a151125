"""Progress on stderr, while it is a terminal; silent otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tracekit.wording import plain

Progress = Callable[[int, int, str], None]


@contextmanager
def shown(doing: str) -> Iterator[Progress]:
    """A bar that follows the calls `(done, total, name)` of the work inside, and is gone afterwards."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[item]}"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=None, item="")

        def follow(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, item=escape(plain(name, 40)))

        yield follow
