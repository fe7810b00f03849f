"""The hash of keys is Spark's."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.udfs import keys as key_hash_module
from sqlstream.udfs.keys import can_hash, hash_of_values, key_hash

LONGS = [0, 1, -1, 2**63 - 1, -(2**63), None, 5, None]
INTS = [0, 1, -1, 2**31 - 1, -(2**31), None, None, 7]

# SELECT xxhash64(l), xxhash64(i), xxhash64(l, i), xxhash64(i, l) in Spark 4.3
OF_LONGS = [-5252525462095825812, -7001672635703045582, 3858142552250413010, -3246596055638297850,
            -8619748838626508300, 42, 6251837290343458373, 42]  # fmt: skip
OF_INTS = [3614696996920510707, -6698625589789238999, 2017008487422258757, 1508894993788531228,
           2073849959933241805, 42, 42, 2786828215451145335]  # fmt: skip
OF_BOTH = [8050503502868583368, 5986642287525340116, -3952536233041051073, -7460319139571789295,
           8374054464285114328, 42, 6251837290343458373, 2786828215451145335]  # fmt: skip
OF_BOTH_TURNED = [-2984540310115537990, 4849469239693327440, -6496982715928276311, 4952670576263560265,
                  -4703392273743291564, 42, 6251837290343458373, 2786828215451145335]  # fmt: skip


def column(values, kind):
    return pa.chunked_array([pa.array(values, kind)])


LONG, INT = column(LONGS, pa.int64()), column(INTS, pa.int32())


@pytest.mark.parametrize(
    ("columns", "expected"),
    [((LONG,), OF_LONGS), ((INT,), OF_INTS), ((LONG, INT), OF_BOTH), ((INT, LONG), OF_BOTH_TURNED)],
)
def test_hashes_of_whole_numbers_and_nulls_are_those_of_spark(columns, expected):
    assert key_hash(columns).tolist() == expected


def test_rows_are_hashed_in_blocks(monkeypatch):
    values = column(np.arange(1000), pa.int64())
    at_once = key_hash([values]).tolist()
    monkeypatch.setattr(key_hash_module, "_BLOCK", 7)
    assert key_hash([values]).tolist() == at_once


def test_no_rows_have_no_hashes():
    assert key_hash([column([], pa.int64())]).tolist() == []


def test_whole_numbers_of_32_and_64_bits_and_texts_are_hashed():
    hashed = [pa.int64(), pa.int32(), pa.string()]
    assert [kind for kind in (*hashed, pa.int16(), pa.float64(), pa.binary()) if can_hash(kind)] == hashed


def test_texts_are_hashed_alike_wherever_they_stand():
    texts = ["", "a", None, "ab", "ba", "é", "a", "", "b" * 100, "b" * 101]
    actual = hash_of_values([column(texts, pa.string())], len(texts)).tolist()
    turned = hash_of_values([column(texts[::-1], pa.string())], len(texts)).tolist()
    assert turned[::-1] == actual
    assert len(set(actual)) == len(set(texts))


VALUES = [
    (["a", "b", "", None, "ab", "ba", "a", "é" * 99], pa.string()),
    ([b"a", b"\0", b"", None, b"\0\0", b"a\0"], pa.binary()),
    ([0.5, 0.25, None, -1.0, float("inf")], pa.float32()),
    ([True, False, None], pa.bool_()),
    ([0, 1, None, -5], pa.date32()),
    ([0, 1, None, -5], pa.timestamp("us", "UTC")),
    ([Decimal("1.50"), Decimal("-1.50"), None, Decimal("15.00")], pa.decimal128(10, 2)),
]


@pytest.mark.parametrize(("values", "kind"), VALUES, ids=str)
def test_values_of_all_types_have_hashes_that_tell_them_apart_wherever_they_stand(values, kind):
    actual = hash_of_values([column(values, kind)], len(values)).tolist()
    assert len(set(actual)) == len(set(values))
    assert dict(zip(values, actual, strict=True)) == {
        value: hash_of_values([column([None, value], kind)], 2)[1] for value in values
    }


def test_hashes_of_several_values_and_of_none():
    both = column(["a", "b", "a"], pa.string()), column([1, 1, 2], pa.int64())
    assert len(set(hash_of_values(both, 3).tolist())) == 3
    assert hash_of_values([LONG], len(LONGS)).tolist() == OF_LONGS
    assert hash_of_values([], 2).tolist() == [0, 0]
