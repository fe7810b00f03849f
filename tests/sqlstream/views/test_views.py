"""Materialized views in PostgreSQL and in files, as psycopg and the session see them while rows come."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sqlstream
from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar import nodes
from sqlstream.jobs import Job
from sqlstream.results import Rows
from sqlstream.session import Session
from sqlstream.views.serving import Serving
from tests.postgres_server import PASSWORD, USER, PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SALES = """
CREATE TABLE sales (shop STRING, amount BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json', 'source.monitor-interval' = '100 ms');
"""
TOTALS = "CREATE MATERIALIZED VIEW totals AS SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM sales GROUP BY shop"
LIMIT_S = 120.0
NOWHERE = Span(0, 0)


@pytest.fixture
def server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_server
    postgres_server.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


@pytest.fixture
def sold(tmp_path: Path) -> Callable[..., None]:
    """Puts rows into a file of the table, all at once."""
    folder = tmp_path / "sales"
    folder.mkdir()

    def sell(*rows: tuple[str | None, int]) -> None:
        text = "".join(json.dumps({"shop": shop, "amount": amount}) + "\n" for shop, amount in rows)
        number = len(list(folder.iterdir()))
        (tmp_path / "next").write_text(text)
        (tmp_path / "next").rename(folder / f"{number}.json")

    return sell


@pytest.fixture
def session(spark: SparkSession, server: PostgresServer, tmp_path: Path) -> Iterator[Session]:
    with sqlstream.connect(spark) as own_session:
        url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/postgres"
        own_session.workspace.settings.set("sqlstream.views.url", url)
        own_session.workspace.settings.set("sqlstream.views.dir", str(tmp_path / "views"))
        own_session.sql(SALES.format(folder=tmp_path / "sales"))
        yield own_session


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    result = session.sql(text)
    assert isinstance(result, Rows)
    return result.fetchall()


def until(wanted: object, seen: Callable[[], object]) -> None:
    end = time.monotonic() + LIMIT_S
    while (last := seen()) != wanted:
        assert time.monotonic() < end, f"{last} is not {wanted}"
        time.sleep(0.05)


def states(session: Session) -> dict[str, str]:
    return {name: state for name, state, *_ in rows(session, "SHOW MATERIALIZED VIEWS")}


def test_a_view_follows_its_rows_until_it_is_dropped(
    session: Session, server: PostgresServer, sold: Callable[..., None], tmp_path: Path
) -> None:
    def totals() -> list[tuple[object, ...]]:
        return server.rows("SELECT * FROM totals ORDER BY shop NULLS LAST")

    sold(("north", 1), (None, 2))
    with_index = TOTALS.replace(" AS SELECT", " COMMENT 'by shop' WITH ('indexes' = 'total') AS SELECT")
    job = session.sql(with_index)
    assert isinstance(job, Job)
    assert job.name == "totals"
    until([("north", 1, 1), (None, 1, 2)], totals)
    sold(("north", 5), (None, 1), ("south", 7))
    until([("north", 2, 6), ("south", 1, 7), (None, 2, 3)], totals)
    assert server.rows("SELECT indexname FROM pg_indexes WHERE tablename = 'totals' ORDER BY 1") == [
        ("totals_key",),
        ("totals_total_idx",),
    ]

    # the session reads it, and says how fresh it is
    assert session.sql("SELECT shop FROM totals WHERE total > 6").fetchall() == [("south",)]  # type: ignore[union-attr]
    session.sql("ALTER MATERIALIZED VIEW totals REFRESH")
    facts = {name: value for name, value, *_ in rows(session, "DESCRIBE EXTENDED totals")}
    assert (facts["kind"], facts["state"], facts["watermark"]) == ("materialized view", "RUNNING", "none yet")
    assert int(facts["last epoch"]) >= 1
    assert facts["last commit"].startswith("20")

    # suspended, it stays as it is, in whatever session
    session.sql("ALTER MATERIALIZED VIEW totals SUSPEND")
    assert states(session) == {"totals": "SUSPENDED"}
    sold(("west", 1))
    with pytest.raises(SqlStreamError, match='SS699: "totals" is suspended'):
        session.sql("ALTER MATERIALIZED VIEW totals REFRESH")
    other = session.fork()
    other.sql(f"DROP MATERIALIZED VIEW IF EXISTS absent; {TOTALS.replace('VIEW', 'VIEW IF NOT EXISTS')}")
    assert len(totals()) == 3
    session.sql("ALTER MATERIALIZED VIEW totals RESUME; ALTER MATERIALIZED VIEW totals REFRESH")
    assert totals()[2] == ("west", 1, 1)

    # a view of a view, in files
    path = tmp_path / "by_count"
    session.sql(
        f"CREATE MATERIALIZED VIEW by_count WITH ('connector' = 'filesystem', 'path' = '{path}') "
        "AS SELECT n, COUNT(*) AS shops FROM totals GROUP BY n; ALTER MATERIALIZED VIEW by_count REFRESH"
    )
    assert sorted(session.sql("SELECT * FROM by_count").fetchall()) == [(1, 2), (2, 2)]  # type: ignore[union-attr]
    assert states(session) == {"by_count": "RUNNING", "totals": "RUNNING"}

    # the same definition again changes nothing, another one begins anew
    session.sql(with_index.replace("CREATE", "CREATE OR REPLACE"))
    assert len(totals()) == 4
    replaced = session.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT shop FROM sales WHERE amount > 6")
    assert isinstance(replaced, Job)
    until([("south",)], totals)

    session.sql("DROP MATERIALIZED VIEW totals; DROP MATERIALIZED VIEW by_count")
    assert states(session) == {}
    assert server.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("sqlstream_epochs",)]
    assert server.rows("SELECT * FROM sqlstream_epochs") == []
    assert list(path.iterdir()) == []
    assert list((tmp_path / "views" / "jobs").iterdir()) == []


def test_files_of_a_view_may_have_partitions(session: Session, sold: Callable[..., None], tmp_path: Path) -> None:
    sold(("north", 1), ("south", 2))
    path = tmp_path / "large"
    session.sql(
        f"CREATE MATERIALIZED TABLE large PARTITIONED BY (shop) WITH ('connector' = 'filesystem', 'path' = '{path}') "
        "FRESHNESS = INTERVAL '1' SECOND AS SELECT shop, amount FROM sales WHERE amount > 1; "
        "ALTER MATERIALIZED TABLE large REFRESH"
    )
    assert {folder.name for folder in path.glob("shop=*")} == {"shop=south"}
    assert session.sql("SELECT * FROM large").fetchall() == [("south", 2)]  # type: ignore[union-attr]
    assert "PARTITIONED BY (shop)" in rows(session, "SHOW CREATE MATERIALIZED TABLE large")[0][0]
    session.sql("DROP MATERIALIZED TABLE large")
    assert list(path.iterdir()) == []


def test_what_is_there_already_is_nobody_elses(
    session: Session, server: PostgresServer, sold: Callable[..., None]
) -> None:
    server.execute("CREATE TABLE totals (a INT)")
    with pytest.raises(SqlStreamError, match='SS487: where "totals" is to be kept, there is something already'):
        session.sql(TOTALS)
    with pytest.raises(SqlStreamError, match="SS487"):
        session.sql(TOTALS.replace("CREATE", "CREATE OR REPLACE"))
    assert server.rows("SELECT * FROM totals") == []
    assert states(session) == {}


def test_a_table_that_a_client_drops_is_missed_and_begun_anew_by_replace(
    session: Session, server: PostgresServer, sold: Callable[..., None]
) -> None:
    in_schema = TOTALS.replace(" AS SELECT", " WITH ('table-name' = 'kept.totals') AS SELECT")
    sold(("north", 1))
    job = session.sql(in_schema)
    assert isinstance(job, Job)
    until([("north", 1, 1)], lambda: server.rows("SELECT * FROM kept.totals"))
    server.execute("DROP SCHEMA kept CASCADE")
    sold(("south", 7))
    gone = r'SS569: the database has table "kept"."totals" of "totals" no more: it was dropped while a job writes it'
    with pytest.raises(SqlStreamError, match=gone) as failure:
        job.wait(LIMIT_S)
    assert "CREATE OR REPLACE MATERIALIZED VIEW begins the view anew" in str(failure.value)
    with pytest.raises(SqlStreamError, match=gone):  # not a table of what changes from now on
        session.sql("ALTER MATERIALIZED VIEW totals RESUME")
    assert server.rows("SELECT to_regnamespace('kept')") == [(None,)]

    session.sql(in_schema.replace("CREATE", "CREATE OR REPLACE"))
    session.sql("ALTER MATERIALIZED VIEW totals REFRESH")
    assert server.rows("SELECT * FROM kept.totals ORDER BY shop") == [("north", 1, 1), ("south", 1, 7)]
    session.sql("DROP MATERIALIZED VIEW totals")
    server.execute("DROP SCHEMA kept CASCADE")


def test_a_checkpoint_belongs_to_one_definition(
    session: Session, server: PostgresServer, sold: Callable[..., None], spark: SparkSession
) -> None:
    sold(("north", 1))
    session.sql(f"{TOTALS}; ALTER MATERIALIZED VIEW totals SUSPEND")
    forgetful = session.fork()  # as a later session, which has an empty catalog
    forgetful.workspace.catalog.drop("MATERIALIZED VIEW", nodes.Name(("totals",), span=NOWHERE))
    with pytest.raises(SqlStreamError, match='SS486: the checkpoint of "totals" is that of another view'):
        forgetful.sql("CREATE MATERIALIZED VIEW totals AS SELECT shop FROM sales")
    forgetful.sql(TOTALS)
    assert states(forgetful) == {"totals": "SUSPENDED"}
    forgetful.sql("ALTER MATERIALIZED VIEW totals RESUME; ALTER MATERIALIZED VIEW totals REFRESH")
    assert server.rows("SELECT * FROM totals") == [("north", 1, 1)]
    forgetful.sql("DROP MATERIALIZED VIEW totals")


def test_a_catalog_of_files_keeps_the_definition(session: Session, sold: Callable[..., None], tmp_path: Path) -> None:
    address = session.workspace.settings["sqlstream.views.url"]
    session.sql(f"CREATE CATALOG kept WITH ('type' = 'file', 'path' = '{tmp_path / 'catalog'}')")
    view = "CREATE MATERIALIZED VIEW kept.`default`.totals AS SELECT shop, COUNT(*) AS n FROM sales GROUP BY shop"
    session.sql(f"{view}; ALTER MATERIALIZED VIEW kept.`default`.totals SUSPEND")
    text = (tmp_path / "catalog" / "default" / "totals.sql").read_text()
    assert text.startswith(
        "CREATE MATERIALIZED VIEW totals (\n  shop STRING,\n  n BIGINT NOT NULL,\n  PRIMARY KEY (shop)"
    )
    with sqlstream.connect(session.spark) as later:
        later.workspace.settings.set("sqlstream.views.url", address)
        later.workspace.settings.set("sqlstream.views.dir", str(tmp_path / "views"))
        later.sql(f"CREATE CATALOG kept WITH ('type' = 'file', 'path' = '{tmp_path / 'catalog'}')")
        later.sql("USE CATALOG kept")
        assert states(later) == {"totals": "SUSPENDED"}
        assert rows(later, "DESCRIBE totals")[0][:2] == ("shop", "STRING")
        later.sql("DROP MATERIALIZED VIEW totals")
    assert not (tmp_path / "catalog" / "default" / "totals.sql").exists()


def test_a_served_view_that_another_session_drops_is_not_started_again(
    session: Session, spark: SparkSession, server: PostgresServer, sold: Callable[..., None], tmp_path: Path
) -> None:
    sold(("north", 1))
    said: list[str] = []
    serving = Serving(session, said.append)
    serving.run([TOTALS])
    until([("north", 1, 1)], lambda: server.rows("SELECT * FROM totals"))
    with sqlstream.connect(spark) as client:
        for key in ("sqlstream.views.url", "sqlstream.views.dir"):
            client.workspace.settings.set(key, str(session.workspace.settings[key]))
        client.sql(SALES.format(folder=tmp_path / "sales"))
        client.sql(f"{TOTALS}; DROP MATERIALIZED VIEW totals")
    for _ in range(3):
        serving.look()
    assert [view["state"] for view in serving.snapshot()] == ["DROPPED"] and serving.is_over
    assert said == ['"totals" has been dropped, and is not kept any more']
    assert server.rows("SELECT to_regclass('totals')") == [(None,)]
