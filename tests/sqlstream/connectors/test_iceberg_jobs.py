"""Queries and jobs over Iceberg tables: the default mode, streams, lookups, sinks and catalogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlstream.session import Session
from tests.sqlstream.connectors.jobs_of_tables import declare, rows, started, until
from tests.sqlstream.connectors.test_iceberg import catalog, made
from tests.sqlstream.connectors.test_iceberg import rows as arrow_rows

__all__ = ["catalog"]  # a fixture

pytestmark = pytest.mark.spark


def create(
    session: Session, properties: dict[str, str], columns: str = "id BIGINT, v STRING", name: str = "t",
    table: str = "db.t", **options: str,
) -> None:  # fmt: skip
    of_catalog = {f"catalog.{key}": value for key, value in properties.items()}
    declare(session, name, columns, {"connector": "iceberg", "table-name": table, **of_catalog}, **options)


@pytest.mark.long
def test_finished_data_is_read_in_every_mode(session: Session, catalog: dict[str, str]) -> None:
    table = made(catalog, *((n, str(n % 3)) for n in range(100)))
    table.delete("id >= 90")
    create(session, catalog)
    create(session, catalog, name="before", version_as_of=str(table.snapshots()[0].snapshot_id))
    query = "SELECT v, COUNT(*) AS n FROM {} GROUP BY v"
    assert rows(session, query.format("t")) == [("0", 30), ("1", 30), ("2", 30)]
    assert rows(session, query.format("before")) == [("0", 34), ("1", 33), ("2", 33)]
    assert rows(session, "SELECT id FROM t WHERE id < 2") == [(0,), (1,)]
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    assert {("0", 30), ("1", 30), ("2", 30)} <= {(v, n) for _, v, n in rows(session, query.format("t"))}


def test_a_job_goes_on_with_new_snapshots_behind_a_restart(
    session: Session, catalog: dict[str, str], tmp_path: Path
) -> None:
    table = made(catalog, (1, "a"), (2, "b"))
    create(session, catalog, source__monitor_interval="1 s")
    keyed = "v STRING NOT NULL, n BIGINT, PRIMARY KEY (v) NOT ENFORCED"
    create(session, catalog, keyed, "sums", "db.sums", partition_by="truncate(1, v)")
    session.sql(f"SET 'execution.checkpointing.dir' = '{tmp_path / 'checkpoints'}'")
    for number in range(2):
        job = started(session, "INSERT INTO sums SELECT v, COUNT(*) FROM t GROUP BY v")
        table.append(arrow_rows((10 + number, "a")))
        until(lambda n=number: sums(catalog) == [("a", 2 + n), ("b", 1)])
        job.stop()


def sums(properties: dict[str, str]) -> list[Any]:
    from sqlstream.connectors.lakes.iceberg_columns import catalog_of

    if not catalog_of(properties).table_exists("db.sums"):
        return []
    found = catalog_of(properties).load_table("db.sums").scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)
