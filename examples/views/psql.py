"""psql, PostgreSQL's own client, as somebody who looks at the views again and again while their job runs and is killed.

Each read is one statement that asks for the whole view and the number of its last epoch, so that both are of one
snapshot. Now and then it is ``\\d``, and the rows of the second view are counted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from examples.views.served import SHOPS, Seen, Watcher

_ROWS = (
    r"""SELECT (SELECT MAX(epoch) FROM sqlstream_epochs WHERE target ~ '\mtotals\M'), shop, n, newest FROM totals;"""
)
_COPIES = "SELECT COUNT(*), COUNT(DISTINCT id), COALESCE(MAX(id) + 1, 0) FROM copies;"
_NOW_AND_THEN = 20
_END = "that was all"


def program() -> str:
    """The psql of this machine, or else the one that comes with the embedded server."""
    found = shutil.which("psql")
    if found is not None:
        return found
    import pgserver

    return str(Path(pgserver.__file__).parent / "pginstall" / "bin" / "psql")


def version() -> str:
    return _output([program(), "--version"])


def shown(url: str, commands: Sequence[str]) -> str:
    """What somebody sees who starts psql and gives it these."""
    return _output([program(), "--no-psqlrc", url, *(word for command in commands for word in ("-c", command))])


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return (done.stdout + done.stderr).strip()


class Psql:
    """One psql that goes on. RuntimeError where it has ended, or has said an error."""

    def __init__(self, url: str) -> None:
        command = [program(), "--no-psqlrc", "--quiet", "--csv", "--tuples-only", url]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def ask(self, text: str) -> list[str]:
        """The lines that it prints."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{text}\n\\echo {_END}\n")
            self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.strip() == _END:
                if any(re.match(r"(psql:\S+ )?(ERROR|FATAL)", said) for said in lines):
                    raise RuntimeError("\n".join(lines))
                return lines
            lines.append(line.rstrip("\n"))
        raise RuntimeError("\n".join(lines) or "psql has ended")

    def close(self) -> None:
        with suppress(BrokenPipeError), self._process:
            self._process.terminate()


@dataclass
class SeenByPsql(Seen):
    """``epochs`` are the numbers that the job has given them. ``described``: how often ``\\d`` had both views.
    ``unlike``: how often rows of the second view were doubled or missing in between, ``back`` how often an epoch was
    older than one seen before, ``errors`` what psql said once it had seen the views."""

    described: int = 0
    unlike: int = 0
    back: int = 0
    errors: int = 0
    _count_by_epoch: dict[int, int] = field(default_factory=dict)

    def take(self, lines: Sequence[str], now: float) -> None:
        """A read: epoch, shop, count and newest file of each row, with commas between."""
        self.reads += 1
        if not lines:
            return
        if any(not all(line.split(",")) for line in lines):  # NULL: rows of no epoch
            self.broken += 1
            return
        epochs, shops, counts, newest = zip(*(map(int, line.split(",")) for line in lines), strict=True)
        epoch, count = epochs[0], counts[0]
        whole = len(set(shops)) == len(shops) == SHOPS and len(set(counts)) == len(set(newest)) == 1
        # an epoch has always the same rows, whoever has begun it again
        if not whole or self._count_by_epoch.setdefault(epoch, count) != count:
            self.broken += 1
            return
        self.back += epoch < max(self.epochs, default=epoch)
        self.epochs.add(epoch)
        for number in range(max(self.visible, default=-1) + 1, newest[0] + 1):
            self.visible[number] = now


class PsqlReader(Watcher):
    """Reads the view through psql, as ``Reader`` does through psycopg."""

    def __init__(self, url: str) -> None:
        self.seen = SeenByPsql()
        super().__init__(url)

    def _run(self) -> None:
        while not self._stopped.is_set():
            psql = Psql(self._url)
            try:
                self._read(psql)
            except RuntimeError:  # there is no table yet, or something is wrong
                self.seen.errors += bool(self.seen.epochs)
                self._stopped.wait(0.1)
            finally:
                psql.close()

    def _read(self, psql: Psql) -> None:
        while not self._stopped.wait(self._pause_s):
            self.seen.take(psql.ask(_ROWS), time.monotonic())
            if self.seen.reads % _NOW_AND_THEN == 1:
                self._look_around(psql)

    def _look_around(self, psql: Psql) -> None:
        names = {line.split(",")[1] for line in psql.ask(r"\d")}
        self.seen.described += {"totals", "copies"} <= names
        rows, distinct, expected = map(int, psql.ask(_COPIES)[0].split(","))
        self.seen.unlike += not rows == distinct == expected
