"""Rows that are read for several readers: packed in small pieces, and unpacked by each reader as it needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from sqlstream.udfs.exchange import BYTES_PER_BLOB, CLOCK
from sqlstream.udfs.files.shared import CONTENT, ROWS, TASK, PackedRows, SharedRows
from sqlstream.udfs.files.splits import FromFile, SplitRows
from sqlstream.udfs.lifts import LIFT, lift_of

READ = pa.schema({"k": pa.string(), "n": pa.int64(), "ts": pa.timestamp("us")})
SPLITS = pa.RecordBatch.from_pydict({CLOCK: [17]}, pa.schema({CLOCK: pa.int64()}))


@dataclass(frozen=True)
class Given(SplitRows):
    """Reads what it is given where there are splits."""

    batches: tuple[pa.RecordBatch, ...] = field(default=())

    def rows(self, places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in places:
            yield from self.batches


def packed(*batches: pa.RecordBatch, splits: pa.RecordBatch = SPLITS) -> list[pa.RecordBatch]:
    return [*PackedRows(Given(READ, {}, batches)).packed([splits.slice(0, 0), splits], 5)]


def numbers(start: int, count: int) -> pa.RecordBatch:
    columns = {"k": [f"key {i}" for i in range(start, start + count)], "n": range(start, start + count)}
    return pa.RecordBatch.from_pydict({**columns, "ts": [*range(start, start + count)]}, schema=READ)


def test_packs_are_small_and_say_which_task_has_read_how_many_rows() -> None:
    packs = packed(numbers(0, 9_000), numbers(9_000, 41_000))
    assert len(packs) > 5
    assert {value for pack in packs for value in pack.column(TASK).to_pylist()} == {5}
    assert sum(value for pack in packs for value in pack.column(ROWS).to_pylist()) == 50_000
    assert max(len(value) for pack in packs for value in pack.column(CONTENT).to_pylist()) < 1.1 * BYTES_PER_BLOB


def test_there_are_no_packs_without_rows_or_splits() -> None:
    assert packed() == packed(numbers(0, 9), splits=SPLITS.slice(0, 0)) == []


def test_how_far_the_watermark_may_go_comes_with_the_rows_and_without_any() -> None:
    splits = pa.RecordBatch.from_pydict({CLOCK: [17, 17], LIFT: [None, 99]})
    for rows in ([], [numbers(0, 3)]):
        packs = packed(*rows, splits=splits)
        assert lift_of(packs) == 99
        together = pa.Table.from_batches(packs).combine_chunks().to_batches()
        reader = SharedRows(pa.schema({"n": pa.int64()}), {"n": FromFile("n", pa.int64())}, lifting=True)
        assert reader.lifts
        assert [batch.to_pydict() for batch in reader.rows(together)] == [{"n": [0, 1, 2]} for _ in rows]
    assert lift_of(packed(numbers(0, 3))) is None


def test_a_reader_takes_its_columns_of_all_packs_at_once() -> None:
    together = pa.Table.from_batches(packed(numbers(0, 20_000))).combine_chunks().to_batches()
    schema = pa.schema({"time": pa.int64(), "n": pa.int64()})
    columns = {"time": FromFile("ts", pa.timestamp("us"), micros=True), "n": FromFile("n", pa.int64())}
    (rows,) = SharedRows(schema, columns).rows(together)
    assert rows.schema == schema
    assert rows.column("time").to_pylist() == rows.column("n").to_pylist() == [*range(20_000)]
    assert [*SharedRows(schema, columns).rows([together[0].slice(0, 0)])] == []


def test_a_reader_gets_the_time_at_which_the_rows_came() -> None:
    schema = pa.schema({"n": pa.int64(), CLOCK: pa.int64()})
    (rows,) = SharedRows(schema, {"n": FromFile("n", pa.int64())}).rows(packed(numbers(0, 3)))
    assert rows.to_pydict() == {"n": [0, 1, 2], CLOCK: [17, 17, 17]}
