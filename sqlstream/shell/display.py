"""How and where the shell shows results: what \\x, \\timing and \\o change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from sqlstream.cli.output import PagedWriter, Writer, writer_for


@dataclass
class Display:
    """``terminal`` is where everything goes that no ``file`` takes; ``style`` is one of ``cli.output.FORMATS``."""

    terminal: TextIO
    style: str = "table"
    expanded: bool = False
    timing: bool = False
    file: TextIO | None = None

    @property
    def out(self) -> TextIO:
        """Where results go."""
        return self.terminal if self.file is None else self.file

    @property
    def is_live(self) -> bool:
        """Whether results may move: somebody looks at the terminal."""
        return self.file is None and self.terminal.isatty()

    def writer(self, names: Sequence[str]) -> Writer:
        """Of one result with columns of these names."""
        return writer_for("vertical" if self.expanded else self.style, names, self.out)

    def paged(self, writer: Writer) -> PagedWriter | None:
        """The writer, where results of many rows show a page of them."""
        return writer if self.is_live and isinstance(writer, PagedWriter) else None

    def write_into(self, path: str) -> None:
        """The results that follow go into a new file; an empty path: to the terminal. OSError where it cannot be."""
        opened = Path(path).expanduser().open("w", encoding="utf-8") if path else None
        self.close()
        self.file = opened

    def close(self) -> None:
        """Results go to the terminal again."""
        if self.file is not None:
            self.file.close()
            self.file = None

    def toggle_expanded(self) -> str:
        """What holds from now on, in words."""
        self.expanded = not self.expanded
        return f"rows are shown {'as a line for each column' if self.expanded else 'side by side'}"

    def toggle_timing(self) -> str:
        self.timing = not self.timing
        return f"timing is {'on' if self.timing else 'off'}"

    def took(self, began: float) -> str:
        """How long a statement took that began at a time of ``time.monotonic``."""
        seconds = time.monotonic() - began
        return f"Time: {seconds * 1000:,.0f} ms" if seconds < 1 else f"Time: {seconds:,.2f} s"
