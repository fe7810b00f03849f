"""The table of what was tried, printed as it grows and kept in a file."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.disk import may_mount
from tests.faults.struck import NO_FAULT, Records, Struck

_LINE = 300


@dataclass(frozen=True)
class Outcome:
    """How the rows of a job differ from those of the undisturbed one; None where they are equal, or where the job has
    been given up."""

    differs: str | None
    stuck: bool = False


def verdict(fault: str, struck: Struck, outcome: Outcome | None) -> str:
    if outcome is None:
        return "…"
    if outcome.stuck:
        return "STUCK"
    if outcome.differs is not None:
        return "DIFFERENT"
    if struck.unclear:
        return "UNCLEAR"
    return "equal" if struck.tried or fault == NO_FAULT else "not tried"


class Report:
    """``title``: what was read, where that is no files."""

    def __init__(self, file: Path, chosen: argparse.Namespace, title: str | None = None) -> None:
        self._file = file
        self._chosen = chosen
        self._title = title
        self._console = Console(width=160, highlight=False)
        self._begun = time.monotonic()
        self._lines: dict[tuple[str, str], tuple[Struck, Outcome | None]] = {}

    def say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def on_strike(self, records: Records, planned: Sequence[str], number: int) -> None:
        epochs = [records.fleet.epoch(kind) for kind in records.living]
        self.say(
            f"{time.monotonic() - self._begun:6.0f} s, strike {number + 1} of {len(planned)}: {planned[number]}, on "
            f"{len(epochs)} jobs in epochs {min(epochs)} to {max(epochs)}"
        )
        for kind in records.fleet.kinds:
            self._enter(records, planned, kind, None)
        self._write()

    def add(self, records: Records, planned: Sequence[str], kind: str, outcome: Outcome) -> None:
        self._enter(records, planned, kind, outcome)
        if outcome.stuck or outcome.differs is not None:
            self.say(f"{kind}: {outcome.differs or 'does not recover'}; see {records.fleet.folder}")
        self._write()

    def end(self) -> None:
        self.say(f"\n{self._file.read_text()}")

    @property
    def holds(self) -> bool:
        return all(verdict(fault, *line) == "equal" for (_, fault), line in self._lines.items())

    def _enter(self, records: Records, planned: Sequence[str], kind: str, outcome: Outcome | None) -> None:
        told = [fault for of, fault in records.struck if of == kind and fault not in planned]
        for fault in dict.fromkeys([*planned, *told]):
            self._lines[kind, fault] = records.of(kind, fault), outcome

    def _write(self) -> None:
        with self._file.open("w") as file:
            console = Console(file=file, width=160, highlight=False)
            console.print(self._table())
            console.print("\n".join(self._messages()), soft_wrap=True)

    def _table(self) -> Table:
        disk = "a tmpfs" if may_mount() else "RLIMIT_FSIZE (nothing may be mounted here)"
        chosen = self._chosen
        files = f"{chosen.rows:,} rows in {chosen.files} epochs, seed {chosen.seed}; the full disk is {disk}."
        title = (
            f"{self._title or files}\n"
            "moments: strikes before the job's end; refused: starts that refused a damaged file; failed: other failures"
        )
        table = Table("kind", "fault", "moments", "refused", "failed", "rows", title=title, title_justify="left")
        for (kind, fault), (struck, outcome) in sorted(self._lines.items()):
            counts = (struck.tried, len(struck.refused), len(struck.failed))
            table.add_row(kind, fault, *map(str, counts), verdict(fault, struck, outcome))
        return table

    def _messages(self) -> list[str]:
        """What jobs have said, with names and numbers left out, by fault, the most frequent first."""
        said: Counter[str] = Counter()
        for (_, fault), (struck, _) in self._lines.items():
            told = {"refused": struck.refused, "failed": struck.failed, "UNCLEAR": struck.unclear}
            for what, texts in told.items():
                said.update(f"{fault}, {what}: {_shortened(text)}" for text in texts)
        return [f"{count:4} × {text}" for text, count in said.most_common()]


def _shortened(text: str) -> str:
    line = text[:_LINE].partition("\n")[0]
    code = re.match(r"SS\d+", line)
    line = re.sub(r"\d+", "#", re.sub(r"[\w-]*/[^\s\"]*/", "…/", line))
    return line if code is None else code[0] + line[3:]
