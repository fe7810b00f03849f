"""Micro-batches of a running query as epochs: whether one is under way, waiting until none is, asking for one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS = 0.05
_UNDER_WAY = ("Processing new data", "No new data but cleaning up state")  # Spark's words, from MicroBatchExecution
_WAITING = "Waiting for"


def under_way(query: StreamingQuery) -> bool:
    """True while a micro-batch is being computed or written."""
    return query.isActive and str(query.status["message"]).startswith(_UNDER_WAY)


def last_epoch(query: StreamingQuery) -> int:
    """The number of the last complete micro-batch that this query has reported, -1 before the first."""
    report = query.lastProgress
    return -1 if report is None else int(report["batchId"])


def wait_for_rest(query: StreamingQuery) -> None:
    """Until the micro-batch that is under way or about to begin, if any, is complete, or the query has ended.

    One that is stopped meanwhile may be written and not reported, so that its rows are never counted.
    """
    before = last_epoch(query)
    while query.isActive and not _waits(query) and last_epoch(query) == before:
        time.sleep(_POLL_SECONDS)


def wait_for_first_trigger(query: StreamingQuery) -> None:
    """Until a query that has just been started has looked for data once and written what there was."""
    while query.isActive and not _waits(query):
        time.sleep(_POLL_SECONDS)


def wait_for_all_there_is(query: StreamingQuery, before: int, ended: Callable[[], bool]) -> None:
    """Until what was there for a query without pauses when this was called is in a complete micro-batch.

    The micro-batch after the one under way has it all, also where more comes all the time; ``before`` is the number
    of the last complete one.
    """
    whole = Thread(target=_process_all, args=(query,), name="sqlstream-epoch", daemon=True)
    whole.start()
    while whole.is_alive() and last_epoch(query) < before + 2 and not ended():
        whole.join(_POLL_SECONDS)


def _waits(query: StreamingQuery) -> bool:
    return str(query.status["message"]).startswith(_WAITING)


def _process_all(query: StreamingQuery) -> None:
    with suppress(Exception):  # what the query fails with is the job's to tell
        query.processAllAvailable()
