"""Where the event time of a message is found by the source, of tables of all formats; no Kafka and no Spark job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import connector
from sqlstream.connectors.on_spark.kafka_times import watermark_of_topics
from sqlstream.session import Session
from sqlstream.sources.kafka.ranges import TopicWatermark
from tests.sqlstream.connectors.jobs_of_tables import named

_MARK = "WATERMARK FOR at AS at"
_ROW = "id INT, at TIMESTAMP(3)"


class _Settings:
    def get(self, name: str) -> str:
        assert name == "spark.sql.session.timeZone"
        return "Europe/Paris"


class _Spark:
    conf = _Settings()


@dataclass
class _Environment:
    spark: Any = field(default_factory=_Spark)
    finished: bool = False
    timed: frozenset[str] = frozenset({"t"})
    idle_timeout_ms: int = 7


def watermark(columns: str, kind: str = "kafka", **options: str) -> TopicWatermark | None:
    """How the source of a table finds its watermark; its event time is the column ``at``."""
    given = {"connector": kind, "topic": "t", "properties.bootstrap.servers": "h:1"}
    given |= named(options)
    session, words = Session(), ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    session.sql(f"CREATE TABLE t ({columns}, {_MARK}) WITH ({words})")
    (table,) = session.workspace.catalog.tables()
    values = connector(kind).resolved_values(table)
    return watermark_of_topics(_Environment(), table, values, by_rows=True)  # type: ignore[arg-type]


def times(found: TopicWatermark | None, *values: object, keys: Sequence[object] | None = None) -> list[float | None]:
    """The seconds since 1970 that are found in messages, whose keys and values are JSON unless they are bytes."""
    assert found is not None and found.times.part == ""
    count = len(values)
    given = {"key": pa.array(map(_bytes, keys or [None] * count), pa.binary())}
    given["value"] = pa.array(map(_bytes, values), pa.binary())
    given |= {"topic": pa.array(["t"] * count), "partition": pa.array([0] * count), "offset": pa.array(range(count))}
    micros, _ = found.times.found(pa.RecordBatch.from_pydict(given))
    return [None if m is None else m / 1_000_000 for m in micros.to_pylist()]


def _bytes(part: object) -> bytes | None:
    return part if part is None or isinstance(part, bytes) else json.dumps(part).encode()


def second(n: int) -> str:
    return f"1970-01-01 01:00:{n:02d}"  # in Paris


def test_the_event_time_of_a_value_is_found_beside_a_key_of_another_format():
    keys = {"format": "json", "key__format": "csv", "key__fields": "id"}
    found = watermark(_ROW, **keys)
    assert times(found, {"id": 1, "at": second(5)}, None, b"no json", {"at": None}) == [5, None]
    assert found is not None and (found.idle_ms, found.by_rows) == (7, "t")
    apart = watermark(_ROW, value__fields_include="EXCEPT_KEY", **keys)
    given = (b"1", b"no", None, b"2")
    assert times(apart, {"at": second(6)}, {"at": second(7)}, {"at": second(8)}, b"no json", keys=given) == [6, 8]


def test_the_event_time_of_a_key_is_found_there():
    options = {"format": "json", "key__format": "json", "value__fields_include": "EXCEPT_KEY"}
    found = watermark("k_at TIMESTAMP(3), v INT, at AS k_at", key__fields="k_at", key__fields_prefix="k_", **options)
    assert found is None  # computed otherwise than from a whole number
    found = watermark("at TIMESTAMP(3), v INT", key__fields="at", **options)
    ends: list[dict[str, str]] = [{"at": second(n)} for n in (5, 6, 7, 8)]
    # No row, and a bad one, have no times.
    assert times(found, {"v": 1}, None, {"v": "x"}, {}, {}, keys=[*ends, None]) == [5, 8, None]
    counted = watermark("ms BIGINT, v INT, at AS TO_TIMESTAMP_LTZ(ms, 3)", key__fields="ms", **options)
    assert times(counted, {}, {}, keys=[{"ms": 5000}, {"ms": None}]) == [5, None]


@pytest.mark.parametrize("expression", ["TO_TIMESTAMP(text)", "CAST(text AS TIMESTAMP(3))", "text::TIMESTAMP"])
def test_the_event_time_may_be_a_text(expression: str):
    found = watermark(f"id INT, text STRING, at AS {expression}", format="json")
    texts = (second(5), "1970-01-01T00:00:06Z", "1970-01-01 01:00:07.5", "no time", None)
    assert times(found, *({"id": 1, "text": text} for text in texts)) == [5, 6, 7.5, None, None]
    key = {"key__format": "raw", "key__fields": "text", "value__fields_include": "EXCEPT_KEY"}
    in_key = watermark(f"id INT, text STRING, at AS {expression}", format="json", **key)
    assert times(in_key, {}, keys=[second(5).encode()]) == [5]


@pytest.mark.parametrize("expression", ["TO_TIMESTAMP(text, 'dd.MM.yyyy')", "CAST(text || '' AS TIMESTAMP)"])
def test_other_texts_move_the_watermark_by_their_rows(expression: str):
    assert watermark(f"id INT, text STRING, at AS {expression}", format="json") is None


@pytest.mark.parametrize("form", ["json", "debezium-json"])
def test_the_time_of_a_message_itself_needs_no_decoding(form: str):
    found = watermark("id INT, at TIMESTAMP(3) METADATA FROM 'timestamp'", format=form)
    assert found is not None and (found.times.part, found.times.records) == ("timestamp", None)


def test_rows_of_changes_have_their_times_in_images():
    def change(operation: str, **images: int) -> dict[str, Any]:
        return {"op": operation} | {name: {"id": 1, "at": second(n)} for name, n in images.items()}

    found = watermark(_ROW, format="debezium-json")
    changes = (change("c", after=5), change("u", before=5, after=7), change("d", before=9), None, b"", change("u"))
    assert times(found, *changes) == [5, 5, 7, 9]
    counted = watermark("id INT, ms BIGINT, at AS TIMESTAMP_MILLIS(ms)", format="debezium-json")
    assert times(counted, {"op": "c", "after": {"id": 1, "ms": 5000}}) == [5]


@pytest.mark.parametrize(
    ("form", "key", "message"),
    [
        ("debezium-json", "ingestion-timestamp", {"op": "c", "after": {"id": 1}, "ts_ms": 5000}),
        ("debezium-json", "source.timestamp", {"op": "c", "after": {"id": 1}, "source": {"ts_ms": 5000, "db": "d"}}),
        ("canal-json", "ingestion-timestamp", {"type": "INSERT", "data": [{"id": 1}], "ts": 5000}),
        ("canal-json", "event-timestamp", {"type": "INSERT", "data": [{"id": "1"}], "es": 5000}),
        ("maxwell-json", "ingestion-timestamp", {"type": "insert", "data": {"id": 1}, "ts": 5}),
        ("ogg-json", "ingestion-timestamp", {"op_type": "I", "after": {"id": 1}, "current_ts": "1970-01-01T01:00:05"}),
        ("ogg-json", "event-timestamp", {"op_type": "I", "after": {"id": 1}, "op_ts": "1970-01-01 01:00:05.000000"}),
    ],
)
def test_envelopes_of_changes_have_times(form: str, key: str, message: dict[str, Any]):
    found = watermark(f"id INT, at TIMESTAMP(3) METADATA FROM 'value.{key}'", format=form)
    assert times(found, message, b"no json") == [5]


def test_messages_of_other_tables_do_not_count():
    found = watermark(_ROW, format="canal-json", canal_json__table__include="a.*", canal_json__database__include="d")

    def row(n: int, **fields: str) -> dict[str, Any]:
        return {"type": "INSERT", "data": [{"id": 1, "at": second(n)}], **fields}

    messages = (row(1, table="ab", database="d"), row(2, table="ba", database="d"), row(3, table="a", database="da"))
    assert times(found, *messages, row(4)) == [1, None, None, 4]
    assert watermark(_ROW, format="canal-json", canal_json__table__include=r"\p{Alpha}+") is None  # not Python's


def test_rows_of_upserts_have_their_times_in_values_or_keys():
    formats = {"kind": "upsert-kafka", "key__format": "json", "value__format": "csv"}
    found = watermark("id INT PRIMARY KEY NOT ENFORCED, at TIMESTAMP(3)", **formats)
    assert times(found, f"1,{second(5)}".encode(), None) == [5, None]
    apart = watermark("at TIMESTAMP(3) PRIMARY KEY NOT ENFORCED, v INT", value__fields_include="EXCEPT_KEY", **formats)
    assert times(apart, b"1", None, keys=[{"at": second(5)}, {"at": second(6)}]) == [5, 6]
    whole = watermark("at TIMESTAMP(3) PRIMARY KEY NOT ENFORCED, v INT", **formats)
    assert times(whole, f"{second(5)},1".encode()) == [5]
