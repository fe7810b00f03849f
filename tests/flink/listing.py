"""Statements in the words of Flink's documentation on SQL: which of them the planner takes, and why it refuses others.

Each file of ``statements/`` begins with ``-- tables``, the definitions that its statements need. An empty line ends a
statement with those before it in its block. Comments right above a block say what is expected of it:

    -- refused SS329: reason      refused with this code, and why that is meant
    -- due AREA                   refused today; AREA is where it is to be taken
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlstream.errors import Diagnostic
from sqlstream.paths import importable
from sqlstream.session import Session

FOLDER = Path(__file__).with_name("statements")
FUNCTIONS = Path(__file__).parents[1] / "golden"
"""Holds the Python functions that some statements declare."""
_REFUSED = re.compile(r"-- refused(?: (?P<code>SS\d+))?: (?P<reason>.+)")


@dataclass(frozen=True)
class Listed:
    """One statement, with the tables of its file above it."""

    file: str
    line: int
    text: str
    tables: str
    code: str | None = None
    reason: str | None = None
    due: str | None = None

    @property
    def title(self) -> str:
        return f"{self.file}:{self.line}"


def listed() -> list[Listed]:
    return [entry for file in sorted(FOLDER.glob("*.sql")) for entry in _of_file(file)]


def mistakes(entry: Listed) -> tuple[Diagnostic, ...]:
    """What is wrong with the statement. Refused definitions of its tables are mistakes of the list."""
    with importable(FUNCTIONS), Session() as session:
        return session.check(f"{entry.tables}\n{entry.text}")


def _of_file(file: Path) -> Iterator[Listed]:
    tables, line = "", 1
    for block in file.read_text(encoding="utf-8").split("\n\n"):
        comments = [part for part in block.splitlines() if part.startswith("--")]
        text = "\n".join(part for part in block.splitlines() if not part.startswith("--"))
        if "-- tables" in comments:
            tables = text
        elif text.strip():
            yield _entry(file.stem, line + len(comments), comments, text, tables)
        line += block.count("\n") + 2


def _entry(file: str, line: int, comments: list[str], text: str, tables: str) -> Listed:
    code = reason = due = None
    for comment in comments:
        if found := _REFUSED.match(comment):
            code, reason = found["code"], found["reason"]
        elif comment.startswith("-- due "):
            due = comment.removeprefix("-- due ")
    return Listed(file, line, text, tables, code, reason, due)


def main() -> None:
    """Print what is refused, and the share of what is taken."""
    counts: Counter[str] = Counter()
    for entry in listed():
        found = mistakes(entry)
        expected = "refused" if entry.reason else f"due {entry.due}" if entry.due else "accepted"
        counts["accepted" if not found else expected if entry.reason or entry.due else "unexpected"] += 1
        if found and not (entry.reason and entry.code == found[0].code and "-v" not in sys.argv):
            first = found[0]
            line = first.render().splitlines()
            print(f"{entry.title} [{expected}] {first.code} {first.message}")
            if "-v" in sys.argv:
                print("\n".join("    " + part for part in line[1:3]))
        elif not found and (entry.reason or entry.due):
            print(f"{entry.title} [{expected}] is accepted")
    total = sum(counts.values())
    print(f"{total} statements: " + ", ".join(f"{counts[key]} {key}" for key in sorted(counts)))
    print(
        f"accepted: {counts['accepted'] / total:.1%}; accepted or refused as said: "
        f"{(counts['accepted'] + counts['refused']) / total:.1%}"
    )


if __name__ == "__main__":
    main()
