"""OVER in windows of event time: each row with the results of functions over the rows of its key and window, once the
watermark has passed the window.

Results such as NTILE depend on all rows of a key, so they are final no earlier. A row whose window has closed is late
and dropped, as in a Top-N of windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import KEY_HASH, Context
from sqlstream.udfs.over.functions import OverFunction, columns_of
from sqlstream.udfs.over.whole import WholeKeys, lined_up
from sqlstream.udfs.state.buckets import EVENT_TIMER
from sqlstream.udfs.top_n.order import Order
from sqlstream.udfs.windows.until_close import RowsUntilClose


@dataclass(frozen=True)
class WindowOverKernel(RowsUntilClose):
    """The kernel of OVER in windows. ``input`` has the ``keys``, among which is the window, the columns of the
    ``order``, those that ``functions`` read, those ``passed``, which are emitted before the results, and ``closes``:
    the watermark, in microseconds, at which the window of a row is complete. Rows of equal order are peers, in order of
    arrival.
    """

    input: pa.Schema
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    passed: tuple[str, ...]
    functions: tuple[OverFunction, ...]
    closes: str

    @cached_property
    def output(self) -> pa.Schema:
        return pa.schema([*map(self.input.field, self.passed), *(function.field for function in self.functions)])

    # --- results ------------------------------------------------------------------------------------------------

    def _emit(self, rows: pa.Table, context: Context) -> None:
        """Window by window, and key by key, in order."""
        if not rows.num_rows:
            return
        rows, line, _ = lined_up(rows, self.keys, self.order)
        results = self._computed.results(rows, line)
        by_window = pa.array(np.argsort(rows.column(EVENT_TIMER).to_numpy(), kind="stable"))
        columns = [*rows.select(self.passed).take(by_window).columns, *results.take(by_window).columns]
        context.emit(pa.Table.from_arrays(columns, schema=self.output))

    @cached_property
    def _computed(self) -> WholeKeys:
        return WholeKeys(self.input, self.functions)

    # --- state --------------------------------------------------------------------------------------------------

    @cached_property
    def _kept(self) -> list[str]:
        """The columns of the input that keys, order, functions and results read."""
        read = [*self.passed, *(name for function in self.functions for name in columns_of(function))]
        return list(dict.fromkeys((KEY_HASH, *self.keys, *(o.column for o in self.order), *read)))
