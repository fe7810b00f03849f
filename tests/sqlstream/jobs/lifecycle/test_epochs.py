"""When Spark's query is at rest: between its micro-batches, and not before the first."""

from __future__ import annotations

from typing import Any

import pytest

from sqlstream.jobs.lifecycle import running_query

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
        return {"batchId": self.told[0][1]} if self.told and self.told[0][1] >= 0 else None


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
