"""Values of rows in the order in which their rows arrived.

Spark's aggregation sees rows in that order, except in sessions: to merge them it sorts rows by time. There each
value travels with its place in the order of arrival, and the list is sorted by it when the session closes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

_ARRIVAL = "__arrival"
# The micro-batch, the partition of its source, the row: the clock of a JVM never goes back while a task runs. Spark
# has no number of the row for streams. A batch that runs again gives other numbers in the same order.
_PLACE = (
    "named_struct('batch', unix_micros(current_timestamp()), 'partition', spark_partition_id(), "
    "'row', CAST(java_method('java.lang.System', 'nanoTime') AS BIGINT))"
)
_EARLIER_FIRST = "(l, r) -> CASE WHEN l.arrival < r.arrival THEN -1 WHEN l.arrival > r.arrival THEN 1 ELSE 0 END"


def with_arrival(rows: DataFrame) -> DataFrame:
    """The rows with the hidden column that ``Collecting`` by arrival reads; below the aggregation's exchange."""
    return rows.select("*", F.expr(_PLACE).alias(_ARRIVAL))


@dataclass(frozen=True)
class Collecting:
    """SQL texts that collect values, and read them out again.

    ``by_arrival`` is for rows ``with_arrival``; NULLs are values too where they are respected.
    """

    by_arrival: bool
    respecting_nulls: bool = False

    def partial(self, value: str, kept: str | None = None) -> str:
        """The aggregate of the values of rows where the condition ``kept`` holds."""
        if not self.by_arrival:
            respected = " RESPECT NULLS" if self.respecting_nulls else ""
            return f"collect_list({value})" + (f" FILTER (WHERE {kept})" if kept is not None else "") + respected
        placed = f"named_struct('arrival', {_ARRIVAL}, 'value', {value})"
        conditions = [] if kept is None else [f"({kept})"]
        conditions += [] if self.respecting_nulls else [f"({value}) IS NOT NULL"]
        return f"collect_list({placed})" + (f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else "")

    def picked(self, extreme: str, value: str, kept: str | None, *, ignores_nulls: bool) -> str:
        """The value of the row with the least or greatest arrival, as a struct: ``extreme`` is min_by or max_by."""
        assert self.by_arrival, "rows have no arrival"
        conditions = [f"({text})" for text in (kept,) if text is not None]
        conditions += [f"({value}) IS NOT NULL"] if ignores_nulls else []
        where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        return f"{extreme}(named_struct('value', {value}), {_ARRIVAL}){where}"

    def values(self, name: str) -> str:
        """The list, from the column that holds the aggregate."""
        return f"transform(array_sort({name}, {_EARLIER_FIRST}), v -> v.value)" if self.by_arrival else name
