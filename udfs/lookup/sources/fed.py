"""The lookup source of tests: rows that a test has fed to a lookup table, read in the worker at each request."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream.udfs.lookup.source import Key, LookupClient, Request, Row

ASKED = "asked"
"""The folder with one file per process in which requests are counted: one line per request, the values of the key as
JSON.

Requests are counted in files, because a test that restarts its job may get other processes.
"""

_POLL_S = 0.01

WITHDRAWN = "-withdrawn"
"""The suffix of the names of files with rows that were withdrawn from the table."""

Asked = tuple[str, ...]
"""The values of a key, as texts."""


@dataclass(frozen=True)
class Behaviour:
    """How a lookup table of the test environment answers.

    For each key, the first ``fails`` requests fail (None: all of them), then the first ``misses`` return no rows.
    Answers take a random time within ``delay_ms`` (minimum and maximum in milliseconds), plus the value of
    ``delay_column`` in the rows found. ``waits``: a request for a key without rows is answered only when the test has
    added rows for it.
    """

    delay_ms: tuple[int, int] = (0, 0)
    delay_column: str | None = None
    misses: int = 0
    fails: int | None = 0
    waits: bool = False


@dataclass(frozen=True)
class FedSource:
    """A lookup table of the test environment. Its rows are in the Parquet files of ``folder``, in the order of their
    names.
    """

    name: str
    request: Request
    folder: str
    behaviour: Behaviour = Behaviour()

    async def open(self) -> LookupClient:
        return FedClient(self, Counter(asked(Path(self.folder))))


@dataclass
class FedClient:
    """The client of a ``FedSource``. ``requests`` counts the requests of each key."""

    source: FedSource
    requests: Counter[Asked]
    _files: tuple[Path, ...] = ()
    _answers: dict[Key, list[dict[str, Any]]] = field(default_factory=dict)

    async def ask(self, keys: Sequence[Key]) -> Sequence[Sequence[Row]]:
        self._note(keys)
        counts = [self.requests[_texts(key)] for key in keys]
        rows_of_keys = [self._rows(key) for key in keys]
        while self.source.behaviour.waits and not all(rows_of_keys):
            await asyncio.sleep(_POLL_S)
            rows_of_keys = [self._rows(key) for key in keys]
        await asyncio.sleep(max((self._seconds(rows) for rows in rows_of_keys), default=0))
        return [self._answer(*each) for each in zip(keys, counts, rows_of_keys, strict=True)]

    async def close(self) -> None:
        return None

    def _answer(self, key: Key, count: int, rows: list[dict[str, Any]]) -> list[Row]:
        behaviour = self.source.behaviour
        if behaviour.fails is None or count <= behaviour.fails:
            raise ConnectionError(f"request {count} for {list(key)!r} fails, as the test asks for")
        if count <= behaviour.misses + behaviour.fails:
            return []
        return [tuple(row[name] for name, _ in self.source.request.columns) for row in rows]

    def _seconds(self, rows: list[dict[str, Any]]) -> float:
        behaviour = self.source.behaviour
        own = [row[behaviour.delay_column] or 0 for row in rows] if behaviour.delay_column else []
        return max([random.uniform(*behaviour.delay_ms), *own]) / 1000

    def _rows(self, key: Key) -> list[dict[str, Any]]:
        files = tuple(sorted(Path(self.source.folder).glob("[!.]*.parquet")))  # hidden ones are being written
        if files != self._files:
            self._answers = {}
            for row in _rows_of(files):
                row_key = tuple(row[name] for name, _ in self.source.request.keys)
                self._answers.setdefault(row_key, []).append(row)
            self._files = files
        return self._answers.get(key, [])

    def _note(self, keys: Sequence[Key]) -> None:
        """Counts the requests before they are answered: one that fails or is given up counts."""
        self.requests.update(map(_texts, keys))
        folder = Path(self.source.folder) / ASKED
        folder.mkdir(exist_ok=True)
        with (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(_texts(key)) + "\n" for key in keys)


def _texts(key: Key) -> Asked:
    return tuple(map(str, key))


def asked(folder: Path) -> Iterator[Asked]:
    """The keys that clients in all processes have requested so far from the test's table in ``folder``."""
    for path in sorted((folder / ASKED).glob("*.jsonl")):
        yield from (tuple(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())


def _rows_of(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The current rows after all files: WITHDRAWN files remove rows, the oldest of equal ones first."""
    import pyarrow.parquet as pq  # sessions, which load this module for its options, do without

    rows: list[dict[str, Any]] = []
    for path in files:
        for row in pq.read_table(path).to_pylist():
            if not path.stem.endswith(WITHDRAWN):
                rows.append(row)
            elif row in rows:
                rows.remove(row)
    return rows
