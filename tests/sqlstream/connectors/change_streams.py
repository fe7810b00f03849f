"""Sources of changes without Spark.

``Stream`` does what Spark does with a source: it asks for positions, keeps them as its checkpoint does, and lets tasks
read what is between two of them. ``merged`` is the table that its rows make. ``opening`` opens streams
of tables that a test declares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.connectors import Environment, source_connector, validate
from sqlstream.connectors.on_spark.database_changes import ChangeStream
from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import ALL_KINDS, UPSERT, Column, Table
from sqlstream.types import parse_type
from tests.sqlstream.connectors.jobs_of_tables import named

SPARK: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "2"))

Row = tuple[Any, ...]


class Stream:
    """A source of one table. ``offsets``: the positions that are in the checkpoint, the last of which may be of a
    micro-batch that is not complete. ``wanted_ms``: as of ``Environment``.
    """

    def __init__(
        self, table: Table, folder: Path, columns: tuple[str, ...] | None = None, *, wanted_ms: int = 0
    ) -> None:
        self.table, self.folder, self.wanted_ms = table, folder, wanted_ms
        self.columns = columns or tuple(c.name for c in table.columns)
        self.offsets: list[str] = []
        self.start()

    def start(self) -> None:
        logs = str(self.folder / "spark" / "sources")
        environment = Environment(SPARK, self.folder / "scratch", logs=logs, wanted_ms=self.wanted_ms)
        settings = source_connector(self.table.connector).settings(environment, self.table, self.columns)  # type: ignore[attr-defined]
        self.reader = ChangeStream(settings)
        self.changes = settings.server.rows()

    def stop(self) -> None:
        self.reader.stop()

    def restart(self) -> None:
        """As another process does that goes on with the checkpoint."""
        self.stop()
        self.start()

    def first(self) -> None:
        self.offsets.append(json.dumps(self.reader.initialOffset()))

    def plan(self) -> bool:
        """Writes the position of the next micro-batch down. False if nothing is new."""
        if not self.offsets:
            self.first()
        start = json.loads(self.offsets[-1])
        end = self.reader.latestOffset(start, None)
        if end == start:
            return False
        self.offsets.append(json.dumps(end))
        return True

    def read(self) -> list[Row]:
        """The rows of the last micro-batch that is written down, as its tasks read them."""
        start, end = (json.loads(offset) for offset in self.offsets[-2:])
        found = []
        for share in self.reader.partitions(start, end):
            for batch in self.changes.rows(self.reader.read(share)):
                found += [tuple(row.values()) for row in batch.to_pylist()]
        return found

    def next(self) -> list[Row]:
        return self.read() if self.plan() else []

    def all(self) -> list[Row]:
        """The rows of all micro-batches until nothing is new."""
        found = []
        while self.plan():
            found += self.read()
        return found

    def commit(self) -> None:
        """What Spark says when the next micro-batch is planned."""
        self.reader.commit(json.loads(self.offsets[-1]))


def merged(rows: list[Row], keys: int = 1, table: dict[Row, Row] | None = None) -> list[Row]:
    """The rows that changes leave, by the first columns as their key; each must fit what was there."""
    there = {} if table is None else table
    for *values, kind in rows:
        key = tuple(values[:keys])
        if kind in ("-D", "-U"):
            assert key in there, f"{kind} of {key}, which is not there"
            del there[key]
        else:
            assert kind == "+U" or key not in there, f"{kind} of {key}, which is there"
            there[key] = tuple(values)
    return sorted(there.values(), key=repr)


def text_of_error(action: Callable[[], object], password: str) -> str:
    """What an action fails with. It does not show the password."""
    with pytest.raises(SqlStreamError) as caught:
        action()
    assert password not in str(caught.value)
    return str(caught.value)


# --- opening them ---------------------------------------------------------------------------------------------

_numbers = count()

Open = Callable[..., Stream]


def declared_table(
    connector: str,
    usual: Mapping[str, str],
    columns: str,
    key: tuple[str, ...] = ("id",),
    before: bool = False,
    **options: str,
) -> Table:
    """A table of ``columns``, such as ``id INT; v STRING``, with the ``usual`` options and others: ``a__b_c`` is
    ``a.b-c``. ``before``: updates have the rows before them, too.
    """
    split = [text.strip().split(" ", 1) for text in columns.split(";")]
    given = named(options)
    physical = tuple(Column(n, parse_type(t), nullable=n not in key) for n, t in split)
    pairs = tuple({**usual, **given}.items())
    return Table("t", physical, connector, pairs, primary_key=key, changelog=ALL_KINDS if before else UPSERT)


@contextmanager
def opening(declare: Callable[..., Table], folder: Path) -> Iterator[Open]:
    """Opens streams of tables, which ``declare`` declares, each with files of its own; they are stopped in the end."""
    streams: list[Stream] = []

    def open_stream(*columns: Any, wanted_ms: int = 0, **options: Any) -> Stream:
        table = declare(*columns, **options)
        assert validate(table, {}) == ()
        stream = Stream(table, folder / f"job{next(_numbers)}", wanted_ms=wanted_ms)
        streams.append(stream)
        return stream

    yield open_stream
    for stream in streams:
        stream.stop()
