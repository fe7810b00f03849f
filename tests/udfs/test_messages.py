"""Messages as rows: the columns beside them, records that cannot be read, and what is said of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.errors import ExecutionError
from sqlstream.formats.changes import DELETE, INSERT, UPDATE, ChangeDecoder, Envelope
from sqlstream.formats.decoder import Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.types import INT
from sqlstream.udfs.bad_records import BAD
from sqlstream.udfs.messages import PLACE, VALUE, MessageRows

JSON = JsonDecoder((Field("a", INT),))
TEXTS = (b'{"a": 1}', b"oops\n twice", b'{"a": 2}', b'{"a": "x"}')


def read(reader: MessageRows, texts: Sequence[bytes], places: Sequence[str | None]) -> list[dict[str, Any]]:
    numbers = pa.array(range(len(texts)), pa.int32())
    batch = pa.record_batch({VALUE: pa.array(texts, pa.binary()), PLACE: pa.array(places, pa.string()), "n": numbers})
    (rows,) = reader.rows(iter([batch]))
    assert rows.schema.names == [*reader.schema.names, PLACE, "n"]
    listed: list[dict[str, Any]] = rows.to_pylist()
    return listed


def test_bad_records_are_rows_at_their_places() -> None:
    rows = read(MessageRows(JSON, tolerant=True), TEXTS, [f"t[0]@{n}" for n in range(4)])
    assert [(row["a"], row["n"], row[PLACE]) for row in rows] == [
        (1, 0, "t[0]@0"), (None, 1, "t[0]@1"), (2, 2, "t[0]@2"), (None, 3, "t[0]@3"),
    ]  # fmt: skip
    assert [row[BAD] for row in rows] == [
        None,
        {"record": TEXTS[1], "error": "SS402: the record is no JSON object", "place": "t[0]@1"},
        None,
        {"record": TEXTS[3], "error": 'SS402: column "a" of type INT is "x"', "place": "t[0]@3"},
    ]


@pytest.mark.parametrize(
    ("options", "place", "where"),
    [
        ({}, "t[0]@1", " at t[0]@1"),
        ({}, None, ""),
        ({"of_files": True}, "file:///data/a%20b.json", ' of file "/data/a b.json"'),
        ({"lines": True}, None, ""),
    ],
)
def test_a_bad_record_is_an_error_with_its_place(options: dict[str, bool], place: str | None, where: str) -> None:
    with pytest.raises(ExecutionError) as error:
        read(MessageRows(JSON, **options), (*TEXTS[:1], b"oops"), [place, place])
    assert error.value.diagnostic.message == f"a row{where} cannot be read: the record is no JSON object: oops"
    assert (error.value.code, "on-error" in str(error.value.diagnostic.hint)) == ("SS402", True)


def test_lines_without_content_are_no_records() -> None:
    reader = MessageRows(JSON, tolerant=True, lines=True)
    rows = read(reader, [b"", b'{"a": 1}', b" \t", b"no"], [None] * 4)
    assert [(row["a"], (row[BAD] or {}).get("record")) for row in rows] == [(1, None), (None, b"no")]
    assert read(reader, [], []) == read(reader, [b""], [None]) == []


def test_both_rows_of_an_update_have_the_columns_of_their_message() -> None:
    envelope = Envelope("op", (("c", INSERT), ("u", UPDATE), ("d", DELETE)))
    reader = MessageRows(ChangeDecoder((Field("a", INT),), envelope, "kind"), tolerant=True)
    texts = [b"no", b'{"op": "u", "before": {"a": 1}, "after": {"a": 2}}', b'{"op": "c", "after": {"a": 3}}', b"{}"]
    rows = read(reader, texts, list("pqrs"))
    assert [(row["kind"], row["a"], row["n"], row[PLACE], row[BAD] is None) for row in rows] == [
        (None, None, 0, "p", False), ("-U", 1, 1, "q", True), ("+U", 2, 1, "q", True), ("+I", 3, 2, "r", True),
        (None, None, 3, "s", False),
    ]  # fmt: skip
