"""Values and keys of messages as rows, with the place of those that cannot be read, without a broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.connectors.on_spark.topic_records import topic_records
from sqlstream.errors import ExecutionError
from sqlstream.formats.decoder import Field, OptionalRecords
from sqlstream.formats.json import JsonDecoder
from sqlstream.planner.catalog import Column, Table, Watermark
from sqlstream.types import parse_type
from sqlstream.udfs.kafka.records import KeyRecords, RowsOfMessages, TopicRecords
from sqlstream.udfs.messages import VALUE


class Zone:
    """As much of a session of Spark as says which time zone it has."""

    conf: ClassVar = {"spark.sql.session.timeZone": "UTC"}


def decoded(
    form: str, values: list[bytes | None], payload: tuple[str, ...], on_error: str = ""
) -> list[dict[str, Any]]:
    options = {"format": form, "topic": "t", "properties.bootstrap.servers": "h:1"}
    options |= {"on-error": on_error} if on_error else {}
    table = Table(
        "t", (Column("a", parse_type("STRING" if form == "raw" else "INT")),), "kafka", tuple(options.items())
    )
    records = topic_records(cast(SparkSession, Zone()), table, payload, Kafka().values(table))
    assert records is not None
    count = len(values)
    columns = [pa.array(values, pa.binary()), pa.array(["t"] * count), pa.array([3] * count), pa.array(range(count))]
    batch = pa.RecordBatch.from_arrays(columns, [VALUE, "topic", "partition", "offset"])
    return [row for rows in records.rows(iter([batch])) for row in rows.to_pylist()]


@pytest.mark.parametrize("payload", [("a",), ()])
@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("json", [b'{"a": 1}', None, b" ", b'{"a": 2}'], {0: 1, 3: 2}),
        ("csv", [b"1", None, b"2"], {0: 1, 2: 2}),
        ("raw", [b"x", None, b""], {0: "x", 1: None, 2: ""}),
    ],
)
def test_messages_without_a_value_are_as_in_flink(form: str, values: Any, expected: Any, payload: tuple[str, ...]):
    rows = decoded(form, values, payload)
    assert [row["offset"] for row in rows] == list(expected)
    if payload:
        assert [row["a"] for row in rows] == list(expected.values())


def test_messages_that_cannot_be_read_have_their_place():
    values = [b"1", b"x", None, b""]
    with pytest.raises(ExecutionError, match=r'SS402: a row at t\[3\]@1 cannot be read: column "a" of type INT is "x"'):
        decoded("csv", values, ("a",))
    rows = decoded("csv", values, ("a",), "skip")
    places = [(row["offset"], row["__bad"] and row["__bad"]["place"]) for row in rows]
    assert places == [(0, None), (1, "t[3]@1"), (3, None)]


# --- keys -------------------------------------------------------------------------------------------------------

PAIRS: list[tuple[bytes | None, bytes | None]] = [
    (b'{"id": 1}', b'{"v": 10}'), (None, b'{"v": 20}'), (b'{"id": "x"}', b'{"v": 30}'), (b'{"id": 4}', b'{"v": "y"}'),
    (b'{"id": 5}', None), (b"no", b'{"v": "z"}'), (b'{"id": 7}', b'{"v": 70}'),
]  # fmt: skip
"""Keys and values. The key of message 2 is bad, the value of 3, both of 5, and 4 has no value."""


def keyed(pairs: list[Any], columns: tuple[str, ...], *, of_deletes: bool = False, **given: Any) -> list[Any]:
    """Each row's offset, values, and error; ``given``: of TopicRecords, but for those of KeyRecords."""
    id_, v = Field("id", parse_type("INT"), "id" in columns), Field("v", parse_type("INT"), "v" in columns)
    names = tuple(name for name in ("id",) if name in columns)
    of_keys = {name: given.pop(name) for name in ("tolerant_keys", "drops") if name in given}
    tolerant = of_keys.pop("tolerant_keys", False)
    keys = KeyRecords(OptionalRecords(JsonDecoder((id_,))), names, tolerant, of_deletes=of_deletes, **of_keys)
    values: Any = JsonDecoder((id_, v) if of_deletes else (v,), arrays=given.pop("arrays", False))
    records = TopicRecords(OptionalRecords(values) if given.get("upserts") else values, keys=keys, **given)
    arrays = [pa.array(part, pa.binary()) for part in zip(*pairs, strict=True)]
    place = [pa.array(["t"] * len(pairs)), pa.array([3] * len(pairs)), pa.array(range(len(pairs)))]
    batch = pa.record_batch([*arrays, *place], ["key", "value", "topic", "partition", "offset"])
    (rows,) = RowsOfMessages(records, ("offset",)).rows(iter([batch]))
    assert rows.schema.names == [*RowsOfMessages(records, ()).names, "offset"]
    named = rows.rename_columns([*records.schema.names, "offset"]).to_pylist()
    hidden = ("__row_kind",) if records.upserts else ()
    return [
        (row["offset"], *(row[name] for name in (*columns, *hidden)), *([row["__bad"]] if records.tolerant else []))
        for row in named
    ]


def test_columns_of_keys_stand_beside_those_of_values():
    good = [PAIRS[0], PAIRS[1], PAIRS[4], PAIRS[6]]
    assert keyed(good, ("v", "id")) == [(0, 10, 1), (1, 20, None), (3, 70, 7)]
    assert keyed(good, ("id",)) == [(0, 1), (1, None), (3, 7)]
    assert keyed(good, ()) == [(0,), (1,), (3,)]


def test_a_message_is_bad_for_its_value_or_else_for_its_key():
    rows = keyed(PAIRS, ("v", "id"), tolerant=True, tolerant_keys=True)
    assert [row[:3] for row in rows] == [
        (0, 10, 1), (1, 20, None), (2, None, None), (3, None, None), (5, None, None), (6, 70, 7),
    ]  # fmt: skip
    bad = [row[3] for row in rows]
    assert [b and (b["record"], b["place"], b["error"]) for b in bad] == [
        None,
        None,
        (b'{"id": "x"}', "t[3]@2", 'SS402: column "id" of type INT is "x"'),
        (b'{"v": "y"}', "t[3]@3", 'SS402: column "v" of type INT is "y"'),
        (b'{"v": "z"}', "t[3]@5", 'SS402: column "v" of type INT is "z"'),
        None,
    ]


@pytest.mark.parametrize("columns", [("v", "id"), ()])
def test_a_bad_key_fails_or_is_left_out_whichever_columns_are_read(columns: tuple[str, ...]):
    wrong = r'SS402: a row at t\[3\]@2 cannot be read: column "id" of type INT is "x": \{"id": "x"\}'
    with pytest.raises(ExecutionError, match=wrong):
        keyed(PAIRS[:3], columns)
    with pytest.raises(ExecutionError, match=wrong):  # though bad values are tolerated
        keyed(PAIRS[:3], columns, tolerant=True)
    assert [row[0] for row in keyed(PAIRS[:3], columns, drops=True)] == [0, 1]


def test_good_rows_have_their_place_where_a_column_may_make_them_bad():
    rows = keyed([PAIRS[0], PAIRS[3], PAIRS[1]], ("v",), tolerant=True, placed=True)
    assert [row[2] for row in rows] == [
        {"record": b'{"v": 10}', "error": None, "place": "t[3]@0"},
        {"record": b'{"v": "y"}', "error": 'SS402: column "v" of type INT is "y"', "place": "t[3]@1"},
        {"record": b'{"v": 20}', "error": None, "place": "t[3]@2"},
    ]
    a = Column("a", parse_type("INT"))
    options = {"format": "json", "topic": "t", "properties.bootstrap.servers": "h:1", "on-error": "dead-letter:dead"}
    table = Table("t", (a,), "kafka", tuple(options.items()))
    time = Column("at", parse_type("TIMESTAMP"), metadata_key="timestamp")
    timed = replace(table, columns=(a, time), watermark=Watermark("at", 0))
    required = replace(table, columns=(replace(a, nullable=False),))
    for placed, given in ((True, required), (True, timed), (False, table)):
        records = topic_records(cast(SparkSession, Zone()), given, ("a",), Kafka().values(given))
        assert records is not None and records.placed is placed


def test_the_key_of_an_array_is_looked_at_once():
    pairs = [(b"no", b'[{"v": 1}, {"v": 2}]'), (b'{"id": 5}', b'[{"v": 3}, {"v": 4}]'), (b'{"id": 6}', b"[]")]
    rows = keyed(pairs, ("v", "id"), tolerant=True, tolerant_keys=True, arrays=True)
    assert [(row[0], row[1], row[2], row[3] and row[3]["record"]) for row in rows] == [
        (0, None, None, b"no"), (1, 3, 5, None), (1, 4, 5, None),
    ]  # fmt: skip


def test_upserts_take_keys_for_columns_where_there_is_no_value():
    apart = keyed([*PAIRS[:2], PAIRS[4], (None, None)], ("v", "id"), upserts=True)
    assert apart == [(0, 10, 1, "+U"), (1, 20, None, "+U"), (2, None, 5, "-D"), (3, None, None, "-D")]
    whole = [(b"bad", b'{"id": 1, "v": 2}'), (b'{"id": 3}', None), (b'{"id": 4}', b" "), (b"bad", None)]
    rows = keyed(
        whole, ("id", "v"), of_deletes=True, upserts=True, skips_blank=True, tolerant=True, tolerant_keys=True
    )  # fmt: skip
    assert [row[:4] for row in rows[:2]] == [(0, 1, 2, "+U"), (1, 3, None, "-D")]
    assert [(row[0], row[4] and row[4]["record"]) for row in rows] == [(0, None), (1, None), (3, b"bad")]
