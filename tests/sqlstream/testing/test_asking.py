"""What comes out of a ``StreamTest`` does not depend on when it is asked, and is what a job makes of the same rows.

The model of production: each call of ``rows`` is a micro-batch. Its rows are late by the watermark that the calls and
steps before it have reached, the least of all tables.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

from sqlstream.testing import StreamTest
from sqlstream.testing.spark import LocalSession
from sqlstream.testing.stepped_job import SteppedJob

MINUTE = 60_000
DELAY = 10_000
TABLE = "CREATE TABLE {name} (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '10' SECOND) WITH ({options});"
TEST = "'connector' = 'test'"
QUERY = "SELECT window_end, COUNT(*) AS c, SUM(n) AS s FROM {source} GROUP BY window_start, window_end"
TUMBLE = "TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
ONE = TABLE.format(name="a", options=TEST) + QUERY.format(source=TUMBLE.format(table="a"))
TWO = (
    TABLE.format(name="a", options=TEST)
    + TABLE.format(name="b", options=TEST)
    + "CREATE VIEW both AS SELECT * FROM a UNION ALL SELECT * FROM b;"
    + QUERY.format(source=TUMBLE.format(table="both"))
)
Call = tuple[str, list[tuple[int, int]]]


@pytest.fixture
def session():
    with LocalSession() as session:
        yield session


def calls_of(random: Random, tables: str) -> list[Call]:
    """Rows (number, time in ms) around a time that goes on, some of them far behind it."""
    actual, now, number = [], 100_000, 0
    for _ in range(random.randint(3, 9)):
        rows = []
        for _ in range(random.randint(0, 4)):
            rows.append((number, max(0, now + random.randrange(-120_000, 60_000, 1000))))
            number += 1
        actual.append((random.choice(tables), rows))
        now += random.choice([0, 10_000, 100_000])
    return actual


def late_by_model(calls: list[Call], tables: str) -> set[int]:
    """The rows whose window the least of all watermarks had closed before their call."""
    reached: dict[str, int] = {}
    late = set()
    for table, rows in calls:
        if len(reached) == len(tables):
            now = min(reached.values())
            late |= {n for n, time in rows if now >= time - time % MINUTE + MINUTE - 1}
        if rows:
            reached[table] = max(reached.get(table, -DELAY), max(time for _, time in rows) - DELAY)
    return late


class Recorded(SteppedJob):
    """A job that takes micro-batches as Spark does, and keeps the numbers of the rows that come too late."""

    late: set[int]
    running = False

    def start(self):
        self.running = True
        self.late, self.reached = set(), {}

    def stop(self):
        pass

    def process(self, flush):
        now = min(self.reached.values()) if len(self.reached) == len(self._moved_by_rows) else None
        for table, rows in flush.rows.items():
            for (number, ts), *_ in rows:
                if now is not None and now >= ts // 1000 // MINUTE * MINUTE + MINUTE - 1:
                    self.late.add(number)
                self.reached[table] = max(self.reached.get(table, -DELAY), ts // 1000 - DELAY)

    def written(self, sink, after):
        return iter(())

    def new_reports(self):
        return []

    def late_rows(self):
        return 0


def late_in_test(script, calls, asks, session, monkeypatch) -> set[int]:
    monkeypatch.setattr("sqlstream.testing.stream_test.SteppedJob", Recorded)
    with StreamTest(script, session) as test:
        for (table, rows), asked in zip(calls, asks, strict=True):
            test.rows(table, rows)
            if asked:
                test.output()
        test.output()
        job = test._job
        assert isinstance(job, Recorded)
        return job.late if job.running else set()


def test_a_row_behind_others_of_its_call_is_judged_as_they_are(session, monkeypatch):
    calls = [("a", [(1, 100_000)]), ("a", [(2, 200_000), (3, 85_000)])]
    for asks in ([False, False], [True, False], [True, True]):
        assert late_in_test(ONE, calls, asks, session, monkeypatch) == set()
    calls = [("a", [(1, 100_000)]), ("a", [(2, 200_000)]), ("a", [(3, 85_000)])]
    for asks in ([False] * 3, [True] * 3, [False, True, False], [True, False, False]):
        assert late_in_test(ONE, calls, asks, session, monkeypatch) == {3}


@pytest.mark.parametrize(("script", "tables"), [(ONE, "a"), (TWO, "ab")])
@pytest.mark.parametrize("engine", ["auto", "native"])
def test_asking_changes_nothing(script, tables, engine, session, monkeypatch):
    session.sql(f"SET 'sqlstream.engine' = '{engine}'")
    late = 0
    for seed in range(25):
        random = Random(seed)
        calls = calls_of(random, tables)
        expected = late_by_model(calls, tables)
        late += len(expected)
        for share in (0, 0.5, 1):
            asks = [random.random() < share for _ in calls]
            assert late_in_test(script, calls, asks, session, monkeypatch) == expected, (seed, asks)
    assert late > 10


@pytest.mark.spark
def test_what_comes_out_is_what_a_job_writes(session, tmp_path: Path):
    random = Random(3)
    calls = [call for call in calls_of(random, "a") if call[1]]
    assert late_by_model(calls, "a")
    with StreamTest(ONE, session) as test:
        output = []
        for table, rows in calls:
            test.rows(table, rows)
            if random.random() < 0.4:
                output += test.output()
        test.finish()
        output += test.output()
        late = test.late_dropped()
    for number, (_, rows) in enumerate(calls):
        file = tmp_path / f"{number}.json"
        file.write_text("".join(json.dumps({"n": n, "ts": f"1970-01-01 00:{_clock(ts)}"}) + "\n" for n, ts in rows))
        os.utime(file, (number, number))
    options = (
        f"'connector' = 'filesystem', 'format' = 'json', 'path' = '{tmp_path}', 'source.max-files-per-trigger' = '1'"
    )
    session.sql(TABLE.format(name="t", options=options))
    query = session.sql(QUERY.format(source=TUMBLE.format(table="t")))
    assert sorted(row[1:] for row in output) == sorted(
        (end.replace(tzinfo=None), *rest) for end, *rest in query.fetchall()
    )
    assert late == query.job.progress().late_rows == len(late_by_model(calls, "a"))


def _clock(ms: int) -> str:
    return f"{ms // MINUTE:02}:{ms % MINUTE // 1000:02}"
