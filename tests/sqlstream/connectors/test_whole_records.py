"""Records are whole: what follows the object of a line of JSON makes it a bad one, and is never lost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors import source_connector
from sqlstream.udfs.bad_records import BAD

pytestmark = pytest.mark.spark

GOOD = [
    b'{"a": 1}',
    b'  {"a": 2}  \r',
    b'{"a": 3, "b": "} {"}',
    b'{"a": 4, "o": {"x": {"y": []}}}\t',
    '{"a": 5, "b": "é☃}"}'.encode(),
    b'{"a": 6, "b": "]"}',
    b'{"a": 7, "b": "a tab\tas it is"}',
    b'[{"a": 8}, {"a": 9}]',
    b"",
    b"  \t ",
]
BAD_ONES = {
    b'{"a": 1}{"a": 2}': "something follows the JSON object",
    b'{"a": 1} {"a": 2}': "something follows the JSON object",
    b'{"a": 1},{"a": 2}': "something follows the JSON object",
    b'{"a": 1},': "something follows the JSON object",
    b'{"a": 1} junk': "something follows the JSON object",
    b'{"a": 1}}': "something follows the JSON object",
    b'{"a": 1}]': "something follows the JSON object",
    b'{"a": 1, "o": {"x": 1}} # {}': "something follows the JSON object",
    b'{"b": "\xff"}': "it is no UTF-8",
    b'[{"a": 1},{"a": 2}] 3': "the record is no JSON object",
    b'[{"a": 1},{"a": "y"}]': 'element 2: column "a" of type INT is "y"',
    b'{"a": "x"}': 'column "a" of type INT is "x"',
    b'{"a": 1': "the record is no JSON object",
}


def table_of(make_table, folder: Path, records: list[bytes], **options: object):
    folder.mkdir()
    (folder / "a +%b.json").write_bytes(b"\n".join(records) + b"\n")
    return make_table("filesystem", "a INT; b STRING", path=folder, format="json", **options)


def test_what_follows_a_json_object_makes_a_bad_record_and_nothing_else_does(
    make_table, read_all, environment, tmp_path
) -> None:
    table = table_of(make_table, tmp_path / "in", [*GOOD, *BAD_ONES], on_error="dead-letter:dead")
    rows = source_connector("filesystem").read(environment, table, ("a",))
    collected: list[tuple[Any, ...]] = []
    query = (
        rows.select("a", f"{BAD}.record", f"{BAD}.error")
        .writeStream.foreachBatch(lambda batch, _: collected.extend(map(tuple, batch.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(a for a, _, error in collected if error is None) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert {bytes(record): error for _, record, error in collected if error is not None} == {
        record: f"SS402: {wrong}" for record, wrong in BAD_ONES.items()
    }


@pytest.mark.parametrize("columns", [("a",), ("f",)])
def test_the_job_fails_at_such_a_record_with_the_file_and_the_record(make_table, read_all, tmp_path, columns) -> None:
    table = table_of(make_table, tmp_path / "in", [*GOOD, b'{"a": 1}{"a": 2}'])
    table = make_table("filesystem", "a INT; b STRING", {"f": "file.name"}, **dict(table.options))
    name = re.escape(str(tmp_path / "in" / "a +%b.json"))
    said = 'cannot be read: something follows the JSON object: {"a": 1}{"a": 2}'
    text = rf'SS402: a row in line 11 of file "{name}" {re.escape(said)}'
    with pytest.raises(Exception, match=text):
        read_all(table, *columns)
