"""A kernel's processor on its way to Spark's Python processes.

At the start of a query Spark asks a new Python process for the names of its state. That process needs no kernel, and
importing kernels takes it as long as everything else. It also lacks packages that were sent to workers. So this module
is sent by value, and the processor remains bytes until the first rows arrive.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from sqlstream.udfs.spark.internals import can_declare_late, declared_late
from sqlstream.udfs.spark.state_server import KEY, NAME, VALUE

if TYPE_CHECKING:
    from sqlstream.udfs.spark.adapter import KernelProcessor


class ShippedProcessor(StatefulProcessor):
    """The ``StatefulProcessor`` that Spark pickles and sends to its workers. It unpickles its ``KernelProcessor`` when
    the first rows arrive, which is faster for tasks without rows.
    """

    def __init__(self, processor: KernelProcessor) -> None:
        self._pickled: bytes = cloudpickle.dumps(processor)  # type: ignore[no-untyped-call]

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark at the start of a task."""
        self._handle = handle
        self._state = None if can_declare_late(handle) else _declared(handle)
        self._arrived: KernelProcessor | None = None

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        """Called by Spark with the new rows of a key group. Each is a blob, which has many input rows as bytes; so is
        each row of the returned output.
        """
        return self._processor().rows(rows, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Called by Spark when a timer of a key group has expired. Returns the output as blobs, rows that have many
        result rows as bytes.
        """
        return self._processor().expired(timerValues, expiredTimerInfo)

    def close(self) -> None:
        """Called by Spark at the end of a task."""

    def _processor(self) -> KernelProcessor:
        if self._arrived is None:
            # This module is sent to processes that lack the package until their first rows arrive.
            from sqlstream.udfs.garbage import spare_imports
            from sqlstream.udfs.spark.state_server import entries_of

            self._arrived = pickle.loads(self._pickled)
            state = declared_late(self._handle, _declared) if self._state is None else self._state
            self._arrived.begin(entries_of(self._handle, state))
            spare_imports()
        return self._arrived


def _declared(handle: StatefulProcessorHandle) -> Any:
    """The map state of all entries.

    Spark wants it declared before a task has rows, and then makes its encoders. They take the JVM 14 ms of processor
    time while it is not warm, and most tasks of small micro-batches have no rows: where it can be, the state is
    declared when the first rows or timers are there.
    """
    return handle.getMapState(NAME, KEY, VALUE)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
