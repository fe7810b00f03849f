"""The interface through which lowering uses the layer that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sqlstream.planner.catalog import Function
from sqlstream.planner.nodes import Scan
from sqlstream.planner.operators.lookup import Lookup
from sqlstream.udfs.kafka.rows import SplitFormat
from sqlstream.udfs.lookup.source import LookupSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlstream.udfs.spark.adapter import KernelProcessor


class Runtime(Protocol):
    """What lowering needs from the job in which the query will run: the rows of sources, control rows, lookup sources
    and users' functions.
    """

    @property
    def spark(self) -> SparkSession: ...

    @property
    def max_parallelism(self) -> int:
        """The number of key groups of stateful operators on the columnar engine; the checkpoint fixes it when a query
        first starts.
        """
        ...

    @property
    def state_memory(self) -> int:
        """The bytes of memory, on each machine, in which workers may keep state between micro-batches."""
        ...

    @property
    def run_id(self) -> str:
        """An identifier of this query, different from earlier runs of the same text, but the same after a restart from
        its checkpoint. It keeps the cached answers of lookups apart from those of other queries.
        """
        ...

    @property
    def steps_clock(self) -> bool:
        """True if a test moves the processing-time clock. Sources then stamp its time on their rows, and ticks report
        it instead of the machine's.
        """
        ...

    def read(self, scan: Scan, *, in_order: bool = False, located: bool = False) -> DataFrame:
        """Reads a table: a streaming DataFrame with exactly the columns of the scan, in order.

        It may add the hidden column ``__processing_time TIMESTAMP``, the clock of each row; without it the clock is
        that of the micro-batch. ``in_order``: where Spark interleaves the splits of a source, such as files, the hidden
        columns ``udfs.exchange.PARTS`` define their order. ``located``: rows of files say where they were read, in the
        hidden columns of ``udfs.bad_records``, as far as that is known.
        """
        ...

    def places(self, scan: Scan, *, in_order: bool = False) -> DataFrame:
        """Lists the files of the scan, for tasks that read them without Spark's reader (see ``udfs.files.splits``).

        A streaming DataFrame in which each task gets all files and its own number: FILE (path), LENGTH (bytes),
        MODIFIED (microseconds since 1970), SHARE (number of the task) and SHARES (number of tasks). With ``in_order``,
        where the files' times do not define their order, it also has the file's name (PARTS). Of topics it has the
        ranges of offsets that a task fetches (``udfs.kafka.fetch.RANGES``).
        """
        ...

    def record_format(self, scan: Scan) -> SplitFormat | None:
        """How tasks decode the records of the files, or the messages, of ``places``; None for Parquet."""
        ...

    def control(self, table: str) -> DataFrame:
        """A new streaming DataFrame of the table's control rows: one column ``watermark_ms BIGINT``.

        Each row advances the watermark of the table to exactly ``watermark_ms`` (milliseconds since 1970).
        """
        ...

    def clock(self) -> DataFrame:
        """A new streaming DataFrame of ticks, the control rows that report processing time: one column
        ``processing_time_ms BIGINT`` (milliseconds since 1970). The tick END_OF_INPUT_MS says that the input has ended.
        It is requested only if ``PlanClocks.needs_ticks``.
        """
        ...

    def lookup(self, node: Lookup) -> LookupSource:
        """The source that answers the lookups of ``node``. Its request has the keys, the ``read`` fields and the
        filters of the node.
        """
        ...

    def runs(self, numbers: tuple[int, ...], processor: KernelProcessor) -> None:
        """Reports a stateful operator of Spark that runs kernels. Called once for each.

        ``numbers`` are the operators of the plan that run in it as a chain, upstream first; the stateful operators of a
        plan are numbered from its root.
        """
        ...

    def timed(self, rows: DataFrame, column: str, delay_ms: int, table: str | None) -> DataFrame:
        """Returns the rows with Spark's ``withWatermark``: the watermark is the maximum of ``column`` minus
        ``delay_ms`` milliseconds.

        It is the watermark of ``table``, or the clock of processing time if that is None.
        """
        ...

    def stepped(self, blobs: DataFrame, processor: KernelProcessor, number: int) -> DataFrame | None:
        """In a test that runs micro-batches one by one, returns the output of operator ``number``; the test keeps the
        operator's state. None in ordinary queries, where Spark keeps it.
        """
        ...

    def event_time_from_rows(self, table: str) -> bool:
        """True if rows advance the watermark of the table, as its declaration says; False if only control rows do."""
        ...

    def function(self, name: str) -> Function | None:
        """The user's function with this name, regardless of case; None if there is none, so that it is a function of
        Spark.
        """
        ...

    def implementation(self, function: Function) -> object:
        """The Python object that implements a function."""
        ...
