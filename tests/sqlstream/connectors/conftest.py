"""Tables without a binder, and short streaming runs over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sqlstream
from sqlstream.connectors import Environment, sink_connector, source_connector
from sqlstream.connectors import connector as registered
from sqlstream.planner.catalog import Column, Table
from sqlstream.session import Session
from sqlstream.types import parse_type
from sqlstream.udfs.bad_records import BAD

MakeTable = Callable[..., Table]


@pytest.fixture
def make_table() -> MakeTable:
    def make(connector: str, columns: str, metadata: dict[str, str] | None = None, **options: object) -> Table:
        """``columns`` as ``name TYPE, …``; in option keys ``__`` stands for a dot and ``_`` for a hyphen."""
        types = registered(connector).metadata(Table("t", (), connector))
        physical = [Column(name, parse_type(kind)) for name, kind in (c.split(" ", 1) for c in columns.split("; "))]
        extra = [Column(name, types[key], metadata_key=key) for name, key in (metadata or {}).items()]
        pairs = tuple((key.replace("__", ".").replace("_", "-"), str(value)) for key, value in options.items())
        return Table("t", (*physical, *extra), connector, pairs)

    return make


@pytest.fixture
def session(spark: Any) -> Iterator[Session]:
    with sqlstream.connect(spark) as session:
        yield session


@pytest.fixture
def environment(spark: Any, tmp_path: Path) -> Environment:
    return Environment(spark, tmp_path / "session")


@pytest.fixture
def read_all(environment: Environment, tmp_path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """What a bounded table yields, batch after batch."""

    def run(table: Table, *columns: str, checkpoint: str = "checkpoint") -> list[tuple[Any, ...]]:
        collected: list[tuple[Any, ...]] = []
        read = source_connector(table.connector).read
        frame = read(environment, table, columns or tuple(c.name for c in table.columns))
        if BAD in frame.columns:
            frame = frame.where(f"{BAD}.error IS NULL").drop(BAD)
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: collected.extend(tuple(r) for r in batch.collect()))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return collected

    return run


@pytest.fixture
def write_all(environment: Environment, tmp_path: Path) -> Callable[..., None]:
    """Runs the rows of a bounded table into a sink."""

    def run(source: Table, sink: Table, env: Environment = environment, checkpoint: str = "sink-checkpoint") -> None:
        read = source_connector(source.connector).read
        rows = read(env, source, tuple(c.name for c in source.columns))
        writer = sink_connector(sink.connector).stream(env, sink, rows)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    return run
