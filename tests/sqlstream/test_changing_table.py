"""A changelog as the table that it amounts to, beside a plain list that rows are put into and taken from."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.query import ChangingTable

SCHEMA = pa.schema([("op", pa.string()), ("k", pa.int64()), ("k", pa.string())])


def changes(*rows: tuple) -> pa.Table:
    return pa.table(
        [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)], SCHEMA
    )


def rows_of(table: pa.Table) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_a_row_that_is_updated_by_key_keeps_its_place():
    table = ChangingTable(key=[0])
    table.apply(changes(("+I", 1, "a"), ("+I", 2, "b")))
    updated = table.apply(changes(("-U", 1, "a"), ("+U", 1, "c"), ("+I", 3, "d"), ("-D", 2, "b")))
    assert updated.column_names == ["k", "k"]
    assert rows_of(updated) == [(1, "c"), (3, "d")]


def test_without_a_key_one_of_equal_rows_goes():
    table = ChangingTable()
    table.apply(changes(("+I", 1, None), ("+I", 1, None)))
    assert rows_of(table.apply(changes(("-D", 1, None)))) == [(1, None)]


def test_a_row_that_was_never_there_is_not_taken_back():
    with pytest.raises(AssertionError, match="takes no row back"):
        ChangingTable().apply(changes(("-D", 1, "a")))


@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from("ab")), min_size=1), max_size=5))
def test_what_is_left_is_what_a_list_has(batches):
    by_row, by_key = ChangingTable(), ChangingTable(key=[0])
    rows: Counter = Counter()
    newest: dict = {}
    for batch in batches:
        came = []
        for adds, key, text in batch:
            if adds or rows[key, text]:
                came.append(("+I" if adds else "-D", key, text))
                rows[key, text] += 1 if adds else -1
                newest[key] = text if adds else None
        if came:
            assert Counter(rows_of(by_row.apply(changes(*came)))) == +rows
            left = rows_of(by_key.apply(changes(*came)))
            assert dict(left) == {key: text for key, text in newest.items() if text is not None}
