"""When Spark's query is at rest: between its micro-batches, and not before the first."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.jobs.lifecycle import running_query
from sqlstream.jobs.lifecycle.running_query import RunningQuery, last_epoch
from tests.sqlstream.telemetry.figures import report

START = [("Initializing sources", -1), ("Getting offsets from FileStreamSource[file:/in]", -1)]


class Told:
    """A query that says something else at each look."""

    def __init__(self, *told: tuple[str, int]) -> None:
        self.told = list(told)

    @property
    def isActive(self) -> bool:  # noqa: N802
        return len(self.told) > 0

    @property
    def status(self) -> dict[str, str]:
        return {"message": self.told[0][0]}

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        there_is = self.told and self.told[0][1] >= 0
        return {"batchId": self.told[0][1], "durationMs": {"addBatch": 1}} if there_is else None


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ([*START, ("Waiting for data to arrive", -1)], 1),
        ([*START, ("Processing new data", -1), ("Processing new data", 0)], 1),
        ([("Processing new data", 4), ("Getting offsets from FileStreamSource[file:/in]", 5)], 1),
        ([("Waiting for next trigger", 4), ("Processing new data", 4)], 2),
        ([("Processing new data", 4)], 0),
    ],
)
def test_a_query_rests_once_the_micro_batch_that_is_about_to_begin_is_complete(monkeypatch, told, left) -> None:
    query: Any = Told(*told)
    monkeypatch.setattr("sqlstream.jobs.lifecycle.running_query.time.sleep", lambda _: query.told.pop(0))
    running_query.wait_for_rest(query)
    assert len(query.told) == left


def idle(epoch: int, second: int) -> dict[str, Any]:
    """Spark's report that nothing has run, which it makes every ten seconds, with the number of what comes next."""
    more = {"timestamp": f"2023-11-14T22:13:{second}.000Z", "durationMs": {"latestOffset": 1, "triggerExecution": 3}}
    return report(epoch, 3, **{**more, "stateOperators": [], "observedMetrics": {}, "sources": []})


def test_a_micro_batch_after_a_pause_is_counted() -> None:
    """The report of the pause has its number, and comes first."""
    batches = [report(0, sources=[]), report(1, timestamp="2023-11-14T22:13:50.000Z", sources=[])]
    reports = [batches[0], idle(1, 30), idle(1, 40), batches[1], idle(2, 59)]
    query: Any = SimpleNamespace(recentProgress=[], lastProgress=None)
    taken: list[Any] = []
    nothing: Any = SimpleNamespace(start=lambda: query, row_limit=None, watermarks=None, lifted=None, idle=None)
    running = RunningQuery(nothing, None, Event(), lambda found, _: taken.extend(found))  # type: ignore[arg-type]
    last = []
    for number in range(len(reports)):
        query.recentProgress, query.lastProgress = reports[: number + 1], reports[number]
        running.report()
        last.append(last_epoch(query))
    assert last == [0, 0, 0, 1, 1]
    assert (running.progress.batches, running.progress.last_batch) == (2, 1)
    assert running.progress.given_by_operator == {0: 4}
    assert [each["batchId"] for each in taken] == [0, 0, 1] and idle(1, 30) not in taken
