"""Sources that are idle hold no watermark back."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sqlstream.jobs import Job
from sqlstream.jobs.checkpoints.watermarks import IdleSources, LiftedSources
from sqlstream.query import Query
from sqlstream.session import Session
from sqlstream.testing.spark import LocalSession
from tests.depth import usually


@dataclass
class Lifts:
    """In place of control rows: what was lifted."""

    all: list[tuple[str, int]] = field(default_factory=list)

    def lift(self, table: str, watermark_ms: int, name: str) -> None:
        self.all.append((table, watermark_ms))

    def take(self) -> list[tuple[str, int]]:
        taken, self.all = self.all, []
        return taken


@dataclass
class Sources:
    """Idle sources with a clock by hand, and reports of micro-batches as Spark gives them."""

    timeouts_ms: dict[str, int]
    now_ms: int = 0
    lifts: Lifts = field(default_factory=Lifts)

    def __post_init__(self) -> None:
        self.idle = IdleSources(self.lifts, self.timeouts_ms, lambda: self.now_ms)  # type: ignore[arg-type]

    def batch(self, watermarks: dict[str, int], rows: dict[str, int] | None = None) -> None:
        told: dict[str, Any] = {
            f"watermark/{i}/{t}": {"watermark_ms": ms} for i, (t, ms) in enumerate(watermarks.items())
        }
        told |= {f"source/{i}/{quote(t, safe='')}": {"rows": n} for i, (t, n) in enumerate((rows or {}).items())}
        self.idle.take_in([{"observedMetrics": told}])

    def look(self, now_ms: int) -> list[tuple[str, int]]:
        self.now_ms = now_ms
        self.idle.look()
        return self.lifts.take()


def test_positions_of_sources_ask_for_lifts():
    lifts = Lifts()
    lifted = LiftedSources(lifts, {"a": 5000, "b": 0})  # type: ignore[arg-type]

    def report(*ends: str | None) -> dict[str, Any]:
        return {"sources": [{"endOffset": end} for end in ends]}

    asks = json.dumps({"next": {}, "lift": 12_345_678, "lifts": "a"})
    lifted.take_in([report(json.dumps({"next": {}, "lift": 1}), "3", None, asks), report(asks)])
    assert lifts.take() == [("a", 7345)]
    lifted.take_in([report(json.dumps({"lift": 1, "lifts": "another"})), {}])
    assert lifts.take() == []


def test_an_idle_source_goes_along_with_the_least_of_the_others() -> None:
    sources = Sources({"a": 10, "b c": 10, "d": 10})
    sources.batch({"a": 100, "b c": 50})
    assert sources.look(9) == []
    sources.batch({"a": 120, "b c": 60}, {"a": 1, "b c": 1})
    assert sources.look(11) == [("d", 60)]
    sources.batch({"d": 60})  # the control row is no activity
    assert sources.look(12) == []
    sources.batch({"a": 200, "b c": 70})
    assert sources.look(13) == [("d", 70)]


def test_a_source_counts_again_with_its_next_row() -> None:
    sources = Sources({"a": 10, "b": 10})
    sources.now_ms = 8
    sources.batch({"a": 100})
    assert sources.look(10) == [("b", 100)]
    sources.batch({"b": 100}, {"b": 2})  # rows that are late move nothing, and are there
    sources.now_ms = 15
    sources.batch({"a": 150})
    assert sources.look(19) == []
    assert sources.look(20) == [("b", 150)]


def test_where_all_are_idle_the_greatest_counts() -> None:
    sources = Sources({"a": 10, "b": 10})
    sources.batch({"a": 100, "b": 30})
    assert sources.look(20) == [("b", 100)]
    assert sources.look(40) == []


def test_a_source_without_a_timeout_always_counts() -> None:
    sources = Sources({"a": 10, "b": 0})
    sources.batch({"a": 100})
    assert sources.look(1000) == []
    sources.batch({"b": 300})
    assert sources.look(2000) == [("a", 300)]


@pytest.mark.spark
@pytest.mark.parametrize("of_table", usually([False, True], True))
def test_windows_close_though_a_source_is_silent(spark, tmp_path: Path, of_table: bool) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    times = ("2024-01-01 00:00:01", "2024-01-01 00:00:30")
    (tmp_path / "a/0.json").write_text("".join(json.dumps({"ts": t}) + "\n" for t in times))
    option = ", 'source.idle-timeout' = '1 s'" if of_table else ""
    with LocalSession({} if of_table else {"table.exec.source.idle-timeout": "1 s"}) as session:
        for name in ("a", "b"):
            session.sql(
                f"CREATE TABLE {name} (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', "
                f"'path' = '{tmp_path / name}', 'format' = 'json', 'source.monitor-interval' = '100 ms'{option})"
            )
        session.sql("CREATE TABLE out (n BIGINT) WITH ('connector' = 'memory')")
        job = session.sql(
            "INSERT INTO out SELECT COUNT(*) FROM TUMBLE(TABLE (SELECT ts FROM a UNION ALL SELECT ts FROM b), "
            "DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end"
        )
        assert isinstance(job, Job)
        try:
            assert _first_rows(session) == [(1,)]
        finally:
            job.stop()


def _first_rows(session: Session) -> list[tuple[Any, ...]]:
    for _ in range(60):
        query = session.sql("SELECT n FROM out")
        assert isinstance(query, Query)
        if rows := query.fetchall():
            return rows
        time.sleep(0.5)
    return []
