"""How and where the shell shows results: the state behind its commands x, pset, timing and o."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console

from sqlstream.cli.output import FOR_PROGRAMS, PagedWriter, Row, TableWriter, VerticalWriter, Writer, writer_for
from sqlstream.shell.interrupts import unbroken

# --- The pager -------------------------------------------------------------------------------------------------


_LESS = "FRSX"
"""It ends where all fits, shows colours, cuts long lines, which the arrows move, and leaves the text on the screen."""


def pager_command() -> list[str] | None:
    """The command ``$SQLSTREAM_PAGER``, ``$PAGER`` or less; None where it is missing, ``cat`` or empty."""
    text = os.environ.get("SQLSTREAM_PAGER", os.environ.get("PAGER", "less"))
    try:
        command = shlex.split(text)
    except ValueError:
        return None
    return command if command and command[0] != "cat" and shutil.which(command[0]) else None


@contextmanager
def paged(command: list[str]) -> Iterator[TextIO]:
    """A context manager that starts a pager and gives a text file; what is written to the file is shown by the pager.
    At its end the block waits until the user closes the pager; if that happens earlier, the rest of the block is
    skipped. Ctrl-C is left to the pager.
    """
    with unbroken():
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, encoding="utf-8", env={"LESS": _LESS, **os.environ}
        )
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError):
                yield cast(TextIO, process.stdin)
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.wait()


_PROMPT_LINES = 2


@dataclass
class Display:
    """Shows results on ``terminal`` or in a file; ``style`` is one of ``cli.output.FORMATS``."""

    terminal: TextIO
    style: str = "table"
    expanded: bool = False
    timing: bool = False
    pager: bool = True
    file: TextIO | None = None

    @property
    def out(self) -> TextIO:
        """The file that results are written to."""
        return self.terminal if self.file is None else self.file

    @property
    def is_live(self) -> bool:
        """True where results may be redrawn: the output is a terminal."""
        return self.file is None and self.terminal.isatty()

    def say(self, text: str) -> None:
        """Prints a message where results are printed. If results are written for programs (JSON, CSV) to a file or
        pipe, the message goes to standard error.
        """
        read_by_program = self.style in FOR_PROGRAMS and not self.is_live
        _write(sys.stderr if read_by_program else self.out, text + "\n")

    def writer(self, names: Sequence[str]) -> Writer:
        """Returns the writer that prints one result with columns of these names."""
        return writer_for("vertical" if self.expanded else self.style, names, self.out)

    def as_text(self, names: Sequence[str], rows: Sequence[Row]) -> str:
        """Formats a whole result in the current format and returns the text. ``names``: the column names."""
        text = StringIO()
        writer = writer_for("vertical" if self.expanded else self.style, names, text)
        writer.write(rows)
        writer.close()
        return text.getvalue()

    @property
    def paged_writers(self) -> Callable[[Sequence[str], TextIO], PagedWriter] | None:
        """Returns a function that makes writers for results that are redrawn on the terminal. None if the output is not
        a terminal, or has a format for programs.
        """
        if not self.is_live:
            return None
        if self.expanded or self.style == "vertical":
            return VerticalWriter
        return TableWriter if self.style == "table" else None

    @property
    def redraws_tables(self) -> bool:
        """True where a table can change in place: on a terminal that moves its cursor, in a format for people."""
        return self.paged_writers is not None and not Console(file=self.terminal).is_dumb_terminal

    def paged(self, writer: Writer) -> PagedWriter | None:
        """The writer if it shows long results page by page; None for other writers."""
        return writer if self.is_live and isinstance(writer, PagedWriter) else None

    def write_into(self, path: str) -> None:
        """Write later results to a new file, or for an empty path to the terminal. OSError where the file cannot be
        opened.
        """
        opened = Path(path).expanduser().open("w", encoding="utf-8") if path else None
        self.close()
        self.file = opened

    def close(self) -> None:
        """Close the file of the results, if any; results are shown on the terminal again."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def toggle_expanded(self) -> str:
        """Toggle whether rows are shown as a line for each column; returns the message about it."""
        self.expanded = not self.expanded
        return f"rows are shown {'as a line for each column' if self.expanded else 'side by side'}"

    def use_style(self, style: str) -> str:
        """Change the format of later results; returns the message about it."""
        self.style = style
        return f"rows are written as {style}"

    def toggle_timing(self) -> str:
        """Toggle whether the duration of statements is shown; returns the message about it."""
        self.timing = not self.timing
        return f"timing is {'on' if self.timing else 'off'}"

    def took(self, began: float) -> str:
        """Print the duration of a statement that began at ``began`` (``time.monotonic``), if timing is on."""
        seconds = time.monotonic() - began
        return f"Time: {seconds * 1000:,.0f} ms" if seconds < 1 else f"Time: {seconds:,.2f} s"

    def toggle_pager(self, on: bool | None = None) -> str:
        """Toggle the pager for long results; returns the message about it."""
        self.pager = not self.pager if on is None else on
        return f"long results go {'through the pager' if self.pager else 'to the terminal'}"

    # --- long results ---

    @property
    def pager_in_use(self) -> list[str] | None:
        """The command of the pager; None where results are not paged."""
        return pager_command() if self.pager and self.is_live else None

    def show_text(self, text: str) -> None:
        """Show a text, through the pager if it is longer than the terminal."""
        command = self.pager_in_use if text.count("\n") > shutil.get_terminal_size().lines - _PROMPT_LINES else None
        if command is None:
            return _write(self.out, text)
        with paged(command) as out:
            out.write(text)
        return None

    def show_rows(self, names: Sequence[str], tables: Iterable[Sequence[Row]], skipped: int = 0) -> None:
        """Shows all rows in the pager. ``skipped`` is the number of further rows, which are only counted."""
        command = self.pager_in_use
        assert command is not None
        with paged(command) as out:
            writer = writer_for("vertical" if self.expanded else self.style, names, out)
            for rows in tables:
                writer.write(rows)
            if skipped and isinstance(writer, PagedWriter):
                writer.skip(skipped)
            writer.close()


def _write(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()
