"""What moves in place on a terminal while it follows a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TextIO

from sqlstream.spark.tuning.standard_error import keep_stderr

if TYPE_CHECKING:
    from rich.console import RenderableType


class Following(Protocol):
    """``follow`` takes what the query gives until it ends; ``__rich__`` is how that looks meanwhile."""

    def follow(self) -> None: ...

    def __rich__(self) -> RenderableType: ...


def follow_on(out: TextIO, following: Following) -> None:
    """Follow, and show it four times a second where ``out`` is a terminal, which then is as before."""
    if not out.isatty():
        following.follow()
        return
    from rich.console import Console
    from rich.live import Live

    keep_stderr()
    console = Console(file=out, highlight=False)
    with Live(following, console=console, refresh_per_second=4, transient=True, redirect_stdout=False):
        following.follow()
