"""Jobs with lookups: what their progress tells, where failed rows go, and how a job goes on that a lookup has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.jobs import JobState
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession

pytestmark = pytest.mark.spark

NAMES = """
INSERT INTO names SELECT o.id, s.name FROM orders AS o
JOIN LATERAL TABLE(seat(o.seat, '{broken}')) AS s LOOKUP ASYNC ({clause}) ON TRUE
"""
ROWS = [(1, "a"), (2, "b"), (3, None), (4, "?"), (5, "a")]


class Seat(NamedTuple):
    name: str


async def seat(number: str, broken: str) -> Seat | None:
    """The name of a seat; no answer as long as the file ``broken`` is there."""
    if Path(broken).exists():
        raise ConnectionError(f"the service does not answer for {number}")
    return Seat(f"seat {number}") if number.isalpha() else None


@pytest.fixture
def open_session(tmp_path):
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "0").write_text("".join(json.dumps({"id": i, "seat": s}) + "\n" for i, s in ROWS))

    @contextmanager
    def opened() -> Iterator[Session]:
        with LocalSession() as session:
            session.register_function("seat", seat)
            session.sql(_script(tmp_path))
            yield session

    return opened


def _script(folder: Path) -> str:
    tables = {"orders": "id INT, seat STRING", "names": "id INT, name STRING", "failed": "id INT, error STRING"}
    files = "'connector' = 'filesystem', 'format' = 'json', 'path' ="
    created = (f"CREATE TABLE {name} ({columns}) WITH ({files} '{folder}/{name}');" for name, columns in tables.items())
    return f"SET 'execution.checkpointing.dir' = '{folder}/checkpoints'; {' '.join(created)}"


def test_a_job_tells_what_its_lookups_have_asked(open_session, tmp_path):
    with open_session() as session:
        job = session.sql(NAMES.format(broken=tmp_path / "broken", clause="CACHE 10 ROWS"))
        job.wait()
        assert sorted(session.sql("SELECT * FROM names").fetchall()) == [(1, "seat a"), (2, "seat b"), (5, "seat a")]
        (totals,) = job.progress().lookups.values()
    assert (totals.rows, totals.requests, totals.errors, totals.timeouts, totals.deferred) == (4, 3, 0, 0, 0)
    assert 1 <= totals.max_in_flight <= 3
    assert set(totals.latencies) == {"p50", "p95", "p99"}
    assert totals.hit_rate is not None


def test_a_failed_lookup_ends_the_job_which_goes_on_when_the_service_is_back(open_session, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    statement = NAMES.format(broken=broken, clause="CAPACITY 10")
    with open_session() as session:
        job = session.sql(statement)
        with pytest.raises(SqlStreamError, match=r'SS432: the lookup in "seat" for .* the service does not answer'):
            job.wait()
        assert job.state is JobState.FAILED
        assert job.exception.diagnostic.hint is not None
    broken.unlink()
    with open_session() as session:
        session.sql(statement).wait()
        assert sorted(session.sql("SELECT * FROM names").fetchall()) == [(1, "seat a"), (2, "seat b"), (5, "seat a")]


def test_rows_in_are_rows_out_and_rows_sent_aside(open_session, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    with open_session() as session:
        job = session.sql(NAMES.format(broken=broken, clause="ON ERROR TO failed"))
        job.wait()
        failed = sorted(session.sql("SELECT * FROM failed").fetchall())
        assert [row[0] for row in failed] == [1, 2, 4, 5]
        assert all("the service does not answer" in row[1] for row in failed)
        assert session.sql("SELECT * FROM names").fetchall() == []
        progress = job.progress()
    assert (progress.rows_out, progress.lookups[0].errors) == (0, 4)


def test_a_dataframe_has_no_failed_rows_beside_it(open_session):
    clause = NAMES.partition("names ")[2].format(broken="", clause="ON ERROR TO failed")
    with open_session() as session, pytest.raises(SqlStreamError, match="SS348: LATE DATA TO and ON ERROR TO"):
        session.dataframe(clause)


def test_a_table_gets_results_or_failed_rows(open_session):
    with open_session() as session, pytest.raises(SqlStreamError, match=r"SS511: .* the late or failed rows"):
        session.sql(
            "INSERT INTO failed SELECT o.id, s.name AS error FROM orders AS o "
            "JOIN LATERAL TABLE(seat(o.seat, '')) AS s LOOKUP ASYNC (ON ERROR TO failed) ON TRUE"
        )


def test_a_query_sees_files_and_answers_as_they_are_when_it_starts(open_session, tmp_path):
    called = tmp_path / "calls"
    called.write_text("before")

    async def told(number: str) -> Seat | None:
        return Seat(called.read_text())

    with open_session() as session:
        session.register_function("told", told)
        session.sql(
            f"CREATE TABLE seats (seat STRING, name STRING) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{tmp_path}/seats.json'); "
            "CREATE TABLE asked (id INT, seat STRING, pt AS PROCTIME()) WITH ('connector' = 'filesystem', "
            f"'format' = 'json', 'path' = '{tmp_path}/orders')"
        )
        query = (
            "SELECT o.id, s.name, t.name FROM asked AS o JOIN seats FOR SYSTEM_TIME AS OF o.pt AS s "
            "ON o.seat = s.seat, LATERAL TABLE(told(o.seat)) AS t(name) LOOKUP ASYNC (CACHE 10 ROWS)"
        )
        collected = []
        for name in ("before", "after!"):
            (tmp_path / "seats.json").write_text(json.dumps({"seat": "b", "name": name}))
            called.write_text(name)
            collected.append(session.sql(query).fetchall())
    assert collected == [[(2, "before", "before")], [(2, "after!", "after!")]]
