"""Values as PostgreSQL prints them. The connector's own tests compare with what a server prints."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.formats.postgres_texts import values_of
from sqlstream.types import parse_type


def read(kind: str, stored: str, *texts: str | None) -> list[object]:
    """The values, "?" for those that are none of the type."""
    values, misfits = values_of(pa.array(texts, pa.string()), parse_type(kind), stored)
    return ["?" if wrong else value for value, wrong in zip(values.to_pylist(), misfits.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("kind", "stored", "texts", "values"),
    [
        ("BOOLEAN", "boolean", ["t", "f", None], [True, False, None]),
        ("BOOLEAN", "boolean", ["true", "false", "yes", "1", None], [True, False, "?", "?", None]),
        ("STRING", "boolean", ["t", None], ["true", None]),
        ("STRING", "bpchar", ["a  ", " "], ["a", ""]),
        ("BINARY", "bytea", ["\\x", "text", "\\x0", "\\x0g", None, "x0ff", "\\x\\x", "\\xff"],
         [b"", "?", "?", "?", None, "?", "?", b"\xff"]),
        ("STRING", "character", ["a  ", " "], ["a", ""]),
        ("STRING", "inet", ["10.0.0.1", "10.0.0.0/8", "::1"], ["10.0.0.1/32", "10.0.0.0/8", "::1/128"]),
        ("BINARY", "bytea", ["\\x", "\\x00ff", None], [b"", b"\0\xff", None]),
        ("DECIMAL(5, 2)", "numeric", ["1.5", "NaN", "1000", "0.005"], [Decimal("1.50"), "?", "?", Decimal("0.01")]),
        ("DATE", "date", ["infinity", "0044-03-15 BC", None], ["?", "?", None]),
        ("TIMESTAMP", "timestamp with time zone", ["-infinity", None], ["?", None]),
        ("ARRAY<INT>", "integer[]", ["{1,NULL}", "{}", None, "{{1}}", "[2:2]={1}", "{99999999999}"],
         [[1, None], [], None, "?", "?", "?"]),
        ("ARRAY<BOOLEAN>", "boolean[]", ["{t,f,NULL}"], [[True, False, None]]),
        ("ARRAY<BINARY>", "bytea[]", ['{"\\\\x00ff"}'], [[b"\0\xff"]]),
    ],
)  # fmt: skip
def test_values_are_read(kind: str, stored: str, texts: list[str | None], values: list[object]):
    assert read(kind, stored, *texts) == values
    assert read(kind, stored) == []


def spelled(element: str | None) -> str:
    """As array_out writes an element."""
    if element is None:
        return "NULL"
    plain = element and element.upper() != "NULL" and not set(element) & set('{},"\\ \t\n\r\v\f')
    return element if plain else '"' + element.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)))
def test_arrays_of_texts_are_read_as_they_were_written(elements: list[str | None]):
    text = "{" + ",".join(map(spelled, elements)) + "}"
    assert read("ARRAY<STRING>", "text[]", text, None) == [elements, None]
