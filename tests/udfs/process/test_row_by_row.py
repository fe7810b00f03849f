# ruff: noqa: A002
"""Process functions without keys, over Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from sqlstream.udfs.exchange import CLOCK, LATE, LATE_TABLE
from sqlstream.udfs.kernel import KEY_HASH
from sqlstream.udfs.process import ProcessContext, ProcessFunction, Row
from sqlstream.udfs.process.kernel import Process, RowByRow
from sqlstream.udfs.process.process_call import ROWTIME, TIME, InputTable, input_column


class Seen(NamedTuple):
    value: int
    clock: int


class See(ProcessFunction):
    processing_time = True

    def eval(self, ctx: ProcessContext, input: Row) -> Iterator[Seen]:
        assert ctx.key == ()
        assert ctx.watermark is None
        yield from [Seen(input.v, ctx.processing_time)] * input.v


SCHEMA = pa.schema(
    [
        (TIME, pa.int64()),
        (input_column(0, 0), pa.int32()),
        (LATE_TABLE, pa.string()),
        (LATE, pa.binary()),
        (CLOCK, pa.timestamp("us", "UTC")),
    ]
)


def test_rows_give_rows_and_hidden_columns_go_along():
    kernel = Process(
        "see", See, (InputTable("input", (input_column(0, 0),), ("v",)),),
        SCHEMA.append(pa.field(KEY_HASH, pa.int64())),
        (), (), pa.struct([("value", pa.int64()), ("clock", pa.int64())]), time=TIME, passed=(LATE_TABLE, LATE, CLOCK),
    )  # fmt: skip
    rows = [
        {TIME: 10, input_column(0, 0): 2, CLOCK: 5_000_000},
        {TIME: 11, input_column(0, 0): 0, CLOCK: 6_000_000},
        {LATE_TABLE: "late", LATE: b"rows"},
    ]
    batches = RowByRow(kernel).rows(iter([pa.RecordBatch.from_pylist(rows, SCHEMA)]))
    emitted_rows = pa.Table.from_batches(list(batches), kernel.output)
    assert emitted_rows.column(ROWTIME).to_pylist() == [10, 10, None]
    assert [row["__result_0"] for row in emitted_rows.to_pylist()] == [2, 2, None]
    assert [row["__result_1"] for row in emitted_rows.to_pylist()] == [5000, 5000, None]
    assert [row["__passed_0"] for row in emitted_rows.to_pylist()] == [None, None, "late"]
    assert [row["__passed_1"] for row in emitted_rows.to_pylist()] == [None, None, b"rows"]
