"""Texts that are none."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.errors import ConnectorError
from sqlstream.udfs.columnar import python_values
from sqlstream.udfs.texts import is_text, python_list

BROKEN = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"\xed\xa0\x80")])


def test_halves_of_surrogates_are_no_text():
    assert [is_text(text) for text in ("", "a", "é", "😀", "\ud83d")] == [True, True, True, True, False]


def test_bytes_that_are_no_utf8_are_an_error_of_ours():
    """Spark lets a STRING hold any bytes: CAST(X'EDA080' AS STRING)."""
    rows = pa.RecordBatch.from_arrays([BROKEN], ["k"])
    with pytest.raises(ConnectorError, match=r'SS585: a value of table "t" is no Unicode text: b\'\\xed'):
        python_list(rows, 'a value of table "t"')
    with pytest.raises(ConnectorError, match="SS585"):
        python_values(BROKEN)
    assert python_values(pa.array(["a", None])) == ["a", None]
