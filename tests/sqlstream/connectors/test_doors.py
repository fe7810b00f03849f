"""A record is the same row, or the same fault, at each door (tests/doors.py has the records and the doors)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors import Environment, source_connector
from sqlstream.connectors.kafka.connector import Kafka
from sqlstream.connectors.kafka.upsert import UpsertKafka
from sqlstream.connectors.on_spark.messages import decoded
from sqlstream.formats.json import JsonDecoder
from sqlstream.planner.catalog import ALL_KINDS
from sqlstream.udfs.messages import PLACE, VALUE, MessageRows
from tests.depth import depth, usually
from tests.doors import DOORS, compare, of_rows, wide
from tests.sqlstream.connectors.test_change_formats import SCHEMA


@pytest.mark.parametrize("form", usually(DOORS, "csv"))
def test_records_are_the_same_at_each_door(form: str, tmp_path: Path) -> None:
    result = compare(form, tmp_path, step=depth(10, 1))
    assert result.differences == []
    assert result.records > 2_000
    assert all(result.compared.values())


@pytest.mark.spark
def test_records_are_the_same_in_spark(make_table: Any, environment: Environment, tmp_path: Path) -> None:
    """In streams and finished data, and as messages and rows of changes."""
    spark: Any = environment.spark
    fields, records = wide()
    decoder = JsonDecoder(fields, zone=spark.conf.get("spark.sql.session.timeZone"))
    (own,) = MessageRows(decoder, tolerant=True).rows(
        iter([pa.record_batch({VALUE: pa.array(records), PLACE: pa.nulls(len(records), pa.string())})])
    )
    expected = of_rows(pa.Table.from_batches([own]))
    names = tuple(f.name for f in fields)
    columns = "; ".join(f"{f.name} {f.type.ddl()}" for f in fields)

    def file(name: str, lines: list[bytes]) -> dict[str, Any]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.json").write_bytes(b"\n".join(lines))
        os.utime(folder / "a.json", (1, 1))
        return {"path": folder, "format": name, "on_error": "dead-letter:dead"}

    def of_stream(table: Any) -> pa.Table:
        batches: list[pa.Table] = []
        rows = source_connector("filesystem").read(environment, table, names)
        query = (
            rows.writeStream.foreachBatch(lambda batch, _: batches.append(batch.toArrow()))
            .option("checkpointLocation", str(tmp_path / f"checkpoint-{len(list(tmp_path.iterdir()))}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return pa.concat_tables(batches)

    table = make_table("filesystem", columns, **file("json", [*records]))
    changes = [b'{"op": "c", "after": %s}' % record for record in records]
    of_changes = replace(make_table("filesystem", columns, **file("debezium-json", changes)), changelog=ALL_KINDS)
    given = {"topic": "t", "properties__bootstrap__servers": "h:1", "format": "debezium-json", "on_error": "skip"}
    kafka = replace(make_table("kafka", columns, **given), changelog=ALL_KINDS)
    messages = spark.createDataFrame([(None, m, "t", 0, n, None, 0) for n, m in enumerate(changes)], SCHEMA)
    keyed = {"key__format": "json", "key__fields": "the_key", "value__fields_include": "EXCEPT_KEY"}
    with_keys = make_table("kafka", f"{columns}; the_key BIGINT", **{**given, "format": "json", **keyed})
    brokers = {"topic": "t", "properties__bootstrap__servers": "h:1", "on_error": "skip"}
    formats = {"key__format": "json", "value__format": "json"}
    upserts = replace(make_table("upsert-kafka", columns, **brokers, **formats), primary_key=names[:1])
    values = spark.createDataFrame([(b'{"the_key": 1}', r, "t", 0, n, None, 0) for n, r in enumerate(records)], SCHEMA)
    values = values.coalesce(1).persist()
    finished = replace(environment, finished=True)
    found = {
        "stream of files": of_stream(table),
        "finished files": source_connector("filesystem").read(finished, table, names).toArrow(),
        "stream of changes": of_stream(of_changes),
        "messages of changes": Kafka().rows_of_messages(messages.coalesce(1), kafka, names).toArrow(),
        "messages": decoded(values, values["value"], MessageRows(decoder, tolerant=True)).toArrow(),
        "messages with keys": Kafka().rows_of_messages(values, with_keys, names).toArrow(),
        "upserts": UpsertKafka().rows_of_messages(values, upserts, names).toArrow(),
    }
    hint = ", and neither a schema nor debezium-json.time-unit fits it"
    for door, rows in found.items():
        assert [text.replace(hint, "") for text in of_rows(rows)] == expected, door
