"""A kernel in Spark: exchange, adapter and decoding around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sqlstream.errors import UnsupportedError
from sqlstream.planner.lowering.columnar.inputs import TIME, Files, InputField, Inputs, files_of, hashed_by_exchange
from sqlstream.planner.lowering.context import Context
from sqlstream.planner.lowering.hidden_columns import END_OF_INPUT_MS, EPOCH_SHIFT_MS, column, event_time, present
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.planner.lowering.time import EVENT_TIME, observed
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.steps import BlobWatermark, Operator
from sqlstream.udfs.exchange import BLOBS, FIRED, HOLD, LATE, LATE_TABLE, PARTS, TICK, Content, Exchange, Handover
from sqlstream.udfs.kernel import BARRIER, EMITTED_AHEAD, KEY_HASH, LATE_ROWS, ROWS_TAKEN, Kernel
from sqlstream.udfs.lifts import LIFT
from sqlstream.udfs.spark import Watermark, internals
from sqlstream.udfs.spark.adapter import OUTPUT, PENDING, ROWS_GIVEN, KernelProcessor, Stage
from sqlstream.udfs.spark.batches import (
    BLOBS_DDL,
    Decoder,
    numbers_of,
    shuffle_tasks,
    to_blobs,
    to_blobs_of_ports,
    to_calls,
)
from sqlstream.udfs.spark.call import Clocks
from sqlstream.udfs.spark.shipped import ShippedProcessor

# --- watermarks from blobs ------------------------------------------------------------------------------------
# Spark looks at the event time of each row in ``withWatermark``, which no generated code does. Where all rows of a time
# attribute reach one operator, the newest time of each blob says as much, and control rows become blobs themselves.
# The physical plan decides where (``BlobWatermark``).

_PLACE = ("partition", "number", "port")


def watermark_column(watermark: BlobWatermark, rows: DataFrame, runtime: Runtime) -> str | None:
    """The name of the column whose maximum the exchange reports to Spark as watermark: that with the times of the
    ``rows``, or with what their source says. None if only control rows advance the watermark.
    """
    if not runtime.event_time_from_rows(watermark.source.table):
        return None
    return LIFT if LIFT in rows.columns else TIME


def with_watermark(watermark: BlobWatermark, blobs: DataFrame, key_group: int, runtime: Runtime) -> DataFrame:
    """Adds Spark's ``withWatermark`` to the ``blobs`` of an exchange (rows packed as bytes), and the control rows that
    advance the watermark of the source table. As blobs, control rows need a key group; they get ``key_group``, whose
    kernels ignore them.

    Control rows are the left side of the union, because Spark looks for new data from left to right: it never sees a
    control row without the rows that were written before.
    """
    lifted = F.expr(f"(watermark_ms + {watermark.source.delay_ms}L) * 1000L")
    values = {"key_group": F.lit(key_group), "content": F.lit(Content.LIFT.value), "clock": lifted}
    columns = (values.get(f.name, F.lit(0 if f.name in _PLACE else None)).cast(f.dataType) for f in blobs.schema)
    blobs = runtime.control(watermark.source.table).select(*columns).toDF(*blobs.columns).union(blobs)
    newest = f"CASE WHEN content = {Content.LIFT.value} THEN {event_time('clock')} END"
    timed = observed(blobs.select("*", F.expr(newest).alias(EVENT_TIME)), watermark.source, watermark.metric)
    timed = runtime.timed(timed, EVENT_TIME, watermark.source.delay_ms, watermark.source.table)
    return timed.select(*map(column, BLOBS.names))


METRIC = "operator"
"""What the names of the metrics of operators begin with, before the number of the operator. That of a chained operator
ends with the number of the lowest of its chain, in whose call it runs and whose state of Spark it shares."""

COUNTS = (LATE_ROWS, PENDING, ROWS_TAKEN, ROWS_GIVEN)
"""The metrics of an operator, in order."""

_TICK_TIME = "__tick_time"
_PASSED = f"processing_time_ms - IF(processing_time_ms < {END_OF_INPUT_MS}, 1L, 0L)"
"""How much of processing time has passed at a tick: rows of its millisecond may still arrive."""


@dataclass(frozen=True)
class Running:
    """A kernel with all settings that it needs to run as an operator of the physical plan (``steps.Operator``).

    ``output``: the schema of the kernel's output, in Spark's types. ``number``: that of the operator in the plan.
    ``late_table``: the value of the hidden column LATE_TABLE in its late rows. ``chained``: there is a stateful
    operator downstream. ``keyed``: False if all rows go to one key group. ``goes_on``: rows also arrive in the
    micro-batches after the end of the input. ``watermarks_by_port``: for each input, the watermark that its exchange
    reports to Spark, None if it reports none. ``hashed``: the key columns whose hash the exchanges compute, so that
    Spark does not. ``spread``: the columns among them in which NULL means that the row matches nothing, and may go to
    any key group. ``held_back_ms``: by how many milliseconds the operator's watermark is earlier than that of the
    query.
    """

    kernel: Kernel
    output: StructType
    number: int
    watermark: Watermark
    ticks: bool = False
    chained_by_clock: bool = False
    late_table: str | None = None
    chained: bool = False
    keyed: bool = True
    goes_on: bool = False
    watermarks_by_port: tuple[BlobWatermark | None, ...] = (None,)
    hashed: tuple[str, ...] = ()
    spread: tuple[str, ...] = ()
    held_back_ms: int = 0

    @property
    def clocks(self) -> Clocks:
        ends, by_clock = not self.goes_on, self.chained_by_clock
        delays = (watermark.source.delay_ms for watermark in self.watermarks_by_port if watermark is not None)
        delay_ms = next(delays, 0)
        return Clocks(self.watermark, EPOCH_SHIFT_MS, END_OF_INPUT_MS, by_clock, ends, self.held_back_ms, delay_ms)


def running(step: Operator, plan: PhysicalPlan, kernel: Kernel, output: StructType) -> Running:
    """Returns the stateful operator ``step`` of a plan with its kernel, ready to ``run``. ``output`` is the schema of
    the kernel's output.
    """
    node = step.node
    return Running(
        kernel,
        output,
        step.number,
        plan.watermark_of(step),
        ticks=step.ticks,
        chained_by_clock=node.emits_ahead_of_clock,
        chained=step.stateful_above is not None,
        keyed=step.keyed,
        goes_on=plan.clocks.rows_wait,
        watermarks_by_port=tuple(port.watermark for port in step.ports),
        held_back_ms=step.held_back_ms,
    )


@dataclass(frozen=True)
class Above:
    """A downstream operator that is chained to the one upstream: its kernel runs in the same call, without an exchange.
    ``handover`` says how it takes the upstream rows.
    """

    operator: Running
    handover: Handover

    @property
    def stage(self) -> Stage:
        return Stage(self.operator.kernel, self.operator.late_table, self.handover)


@dataclass(frozen=True, eq=False)
class Together:
    """Rows for several inputs of an operator, its ``ports``: the number of one of these in BRANCH, or their count for
    rows that pass by, which the first takes; and for each port a struct of its columns (``own_column``).
    """

    rows: DataFrame
    ports: tuple[int, ...]


def own_column(port: int) -> str:
    """The column of rows for several ports that has those of this one."""
    return f"__port_{port}"


def kernel_schema(rows: DataFrame) -> pa.Schema:
    """The Arrow schema of the rows as kernels see it, without the hidden columns of control rows."""
    none = (EMITTED_AHEAD, FIRED, HOLD, BARRIER, TICK, LATE_TABLE, LATE, LIFT, *PARTS)
    return pa.schema([f for f in arrow_schema(rows.schema) if f.name not in none])


def arrow_schema(schema: StructType) -> pa.Schema:
    """Converts Spark's schema to Arrow. All fields are nullable, because they are NULL in control rows.
    UnsupportedError SS396 for types that Arrow lacks.
    """
    nullable = StructType([StructField(f.name, f.dataType, True, f.metadata) for f in schema])
    try:
        return internals.arrow_schema(nullable)
    except PySparkTypeError as error:
        hint = "Cast the value, for instance to BIGINT or STRING, or SET 'sqlstream.engine' = 'native'."
        raise UnsupportedError(
            "SS396", f"kernels do not take all of the types: {error.getMessage()}", hint=hint
        ) from error


def run(
    rows: DataFrame | Sequence[DataFrame],
    operator: Running,
    runtime: Runtime,
    files: Files | Sequence[Files | None] | None = None,
    above: Sequence[Above] = (),
    together: Sequence[Together] = (),
) -> DataFrame:
    """Runs an operator: returns the DataFrame of its kernel's output, with hidden columns. ``rows`` is one DataFrame
    per input, with KEY_HASH and the columns that the kernel reads.

    ``files``: for each input the files that its exchange reads itself, None if Spark reads them. ``above``: the chained
    downstream operators, each reading the output of the one before; the output of the last one is returned.
    ``together``: the rows of some inputs, whose own frame then only says which columns they have.
    """
    inputs = [rows] if isinstance(rows, DataFrame) else list(rows)
    readers = list(files) if isinstance(files, Sequence) else [files] * len(inputs)
    assert len(inputs) == len(readers) == operator.kernel.ports, "one input for each port"
    passing = {name for frame in inputs for name in present(frame, (LATE_TABLE, HOLD))}
    operators = (operator, *(link.operator for link in above))
    late = any(link.late_table is not None for link in operators) or LATE_TABLE in passing
    group_of = {port: group for group in together for port in group.ports}
    blobs = reduce(
        DataFrame.union,  # in the order of the plan's steps, in which Spark then numbers operators and sources
        (
            _blobs_together(group_of[port], operator, runtime)
            if port in group_of
            else _blobs(inputs[port], readers[port], operator, port, runtime)
            for port in range(len(inputs))
            if port not in group_of or port == group_of[port].ports[0]
        ),
    )
    blobs = blobs.union(_calls(operator, runtime)) if operator.kernel.deferring else blobs
    stages = [link.stage for link in above]
    processor = KernelProcessor(operator.kernel, operator.clocks, operator.late_table, stages, runtime.state_memory)
    runtime.runs(tuple(link.number for link in operators), processor)
    stepped = runtime.stepped(blobs, processor, operator.number)
    out = _processed(blobs, operator, processor) if stepped is None else stepped
    for stage, link in enumerate(operators):
        counted = (F.sum(F.expr(f"IF(stage = {stage}, {name}, 0L)")).alias(name) for name in COUNTS)
        chained = f"/{operator.number}" if stage else ""
        out = out.observe(f"{METRIC}/{link.number}{chained}", *counted)
    top = operators[-1]
    hold = top.chained and (operator.kernel.deferring or HOLD in passing)
    decoder = Decoder(arrow_schema(top.output), top.kernel, ahead=top.chained, late=late, hold=hold)
    return out.mapInArrow(decoder.rows, _decoded(top.output, decoder))


def run_by_keys(
    kernel: Kernel,
    rows: DataFrame,
    keys: tuple[str, ...],
    fields_of: Mapping[str, InputField],
    inputs: Inputs,
    step: Operator,
    context: Context,
) -> DataFrame:
    """Runs a kernel with one input, and returns the DataFrame of its output. If it can, the exchange hashes the
    ``keys`` and reads files itself.

    ``fields_of`` maps the input columns that are unchanged fields, keys included, to these fields.
    """
    operator = running(step, context.plan, kernel, spark_schema(kernel.output, rows.schema))
    schema = kernel_schema(rows)
    hashed = hashed_by_exchange(keys, schema)
    files = files_of(step, fields_of, inputs, schema, hashed, context)
    return run(rows, replace(operator, hashed=hashed), context.runtime, files)


def _groups(operator: Running, runtime: Runtime) -> int:
    return runtime.max_parallelism if operator.keyed else 1


def _blobs(rows: DataFrame, files: Files | None, operator: Running, port: int, runtime: Runtime) -> DataFrame:
    """The input of the exchange of a port. Ticks, which reach all key groups, go through the first port."""
    assert KEY_HASH in rows.columns, rows.columns
    rows = rows.drop(KEY_HASH) if operator.hashed else rows
    rows = _with_ticks(rows, operator, runtime) if operator.ticks and port == 0 else rows
    watermark, groups = operator.watermarks_by_port[port], _groups(operator, runtime)
    time = watermark_column(watermark, rows, runtime) if watermark is not None else None
    at_once = watermark is not None and watermark.at_once
    exchange = Exchange(operator.kernel, groups, time, operator.hashed, port, operator.spread, at_once)
    if files is None:
        blobs = rows.mapInArrow(to_blobs(exchange, arrow_schema(rows.schema)), BLOBS_DDL)
    else:
        blobs = files.blobs(exchange, operator.number)
    if watermark is None:
        return blobs
    timed = with_watermark(watermark, blobs, int(numbers_of(groups)[0]), runtime)
    is_one_task = files is not None and shuffle_tasks(runtime.spark) == 1
    # Spark's node of watermarks does not say that there is one partition, and a shuffle costs a stage.
    return timed.coalesce(1) if at_once and is_one_task else timed


def _blobs_together(together: Together, operator: Running, runtime: Runtime) -> DataFrame:
    """The input of the exchanges of several ports, which divide the same rows."""
    groups, ports = _groups(operator, runtime), dict[str, tuple[Exchange, pa.Schema]]()
    for port in together.ports:
        rows = together.rows.schema[own_column(port)].dataType
        assert isinstance(rows, StructType), rows
        exchange = Exchange(operator.kernel, groups, None, operator.hashed, port, operator.spread)
        ports[own_column(port)] = exchange, arrow_schema(rows)
    return together.rows.mapInArrow(to_blobs_of_ports(ports), BLOBS_DDL)


def spark_schema(output: pa.Schema, rows: StructType) -> StructType:
    """Converts the schema of a kernel's ``output`` to Spark's. Columns that are also in its input (``rows``) keep their
    Spark types.
    """
    names = set(rows.names)
    return StructType([
        StructField(f.name, rows[f.name].dataType if f.name in names else internals.spark_type(f.type)) for f in output
    ])  # fmt: skip


def _processed(blobs: DataFrame, operator: Running, processor: KernelProcessor) -> DataFrame:
    shipped = ShippedProcessor(processor)
    grouped = blobs.groupBy("key_group")
    if operator.watermark is Watermark.NONE:
        return grouped.transformWithState(shipped, OUTPUT, "append", "None")
    if operator.goes_on:  # Spark refuses rows with a time that the watermark has passed, as it has passed every one
        return grouped.transformWithState(shipped, OUTPUT, "append", "EventTime")
    return grouped.transformWithState(shipped, OUTPUT, "append", "EventTime", eventTimeColumnName="never")


def _decoded(output: StructType, decoder: Decoder) -> StructType:
    hidden = {pa.bool_(): "boolean", pa.int64(): "long", pa.string(): "string", pa.binary(): "binary"}
    decoded = StructType([StructField(f.name, f.dataType, True) for f in output])
    for extra in decoder.hidden:
        decoded = decoded.add(extra.name, hidden[extra.type])
    return decoded


def _calls(operator: Running, runtime: Runtime) -> DataFrame:
    """Blobs that call every key group in every micro-batch, also where nothing has come.

    Spark drops operators over sources without new rows, but none that observes; ``coalesce`` then makes the one task.
    """
    ticks = runtime.clock().select(F.expr(f"({_PASSED}) * 1000L").alias(TICK))
    ticks = ticks.observe(f"calls/{operator.number}", F.count(TICK).alias("ticks")).coalesce(1)
    return ticks.mapInArrow(to_calls(Exchange(operator.kernel, _groups(operator, runtime))), BLOBS_DDL)


def _with_ticks(rows: DataFrame, operator: Running, runtime: Runtime) -> DataFrame:
    """The rows and the ticks of the clock, which nothing stands between here and the exchange to filter out.

    Where the query has no watermark of a table, that of the ticks is its clock.
    """
    ticks = runtime.clock().select(F.expr(_PASSED).alias("processing_time_ms"))
    if operator.watermark is Watermark.CLOCK:
        shifted = F.expr(f"timestamp_millis(processing_time_ms + {EPOCH_SHIFT_MS}L)")
        ticks = runtime.timed(ticks.select("*", shifted.alias(_TICK_TIME)), _TICK_TIME, 0, None)
    nulls = [F.lit(None).cast(f.dataType).alias(f.name) for f in rows.schema]
    tick = F.expr("processing_time_ms * 1000L").alias(TICK)
    return rows.select("*", F.lit(None).cast("BIGINT").alias(TICK)).union(ticks.select(*nulls, tick))
