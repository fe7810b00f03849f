"""Rows on their way to other tables: packed, and passed on where they are."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.udfs.exchange import LATE, LATE_TABLE, from_bytes
from sqlstream.udfs.spark.batches import SideRows

STRUCT = pa.struct([("id", pa.int64()), ("why", pa.string())])


def batch(*rows: tuple[int | None, tuple | None, tuple | None, str | None, bytes | None]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    kinds = (pa.int64(), STRUCT, STRUCT, pa.string(), pa.binary())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["v", "first", "second", LATE_TABLE, LATE])


def test_rows_leave_together_for_each_table_and_others_stay_in_order():
    rows = batch(
        (1, None, None, None, None),
        (2, (2, "x"), None, "0/a", None),
        (None, None, None, "1/late", b"rows"),
        (3, None, (3, "y"), "1/b", None),
        (4, (4, None), None, "0/a", None),
        (5, None, None, None, None),
    )
    side = SideRows((("first", "0/a"), ("second", "1/b")))
    actual = pa.Table.from_batches(side.rows(iter([rows])))
    assert actual.column_names == ["v", LATE_TABLE, LATE]
    assert actual.column("v").to_pylist() == [1, None, 5, None, None]
    assert actual.column(LATE_TABLE).to_pylist() == [None, "1/late", None, "0/a", "1/b"]
    blobs = actual.column(LATE).to_pylist()
    assert blobs[1] == b"rows"
    assert from_bytes(blobs[3]).to_pylist() == [{"id": 2, "why": "x"}, {"id": 4, "why": None}]
    assert from_bytes(blobs[4]).to_pylist() == [{"id": 3, "why": "y"}]


def test_a_batch_without_such_rows_stays_as_it_is():
    (only,) = SideRows((("first", "0/a"), ("second", "1/b"))).rows(iter([batch((1, None, None, None, None))]))
    assert only.to_pylist() == [{"v": 1, LATE_TABLE: None, LATE: None}]
