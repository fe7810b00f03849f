"""The log of Spark's file sink that goes on in another directory."""

from __future__ import annotations

import json

import pytest

from sqlstream.connectors.files.sink import newest_batch
from sqlstream.udfs.files.sink_log import LOG, begin_after, bytes_of_batch, log_batch


def entries(folder):
    return sorted(p.name for p in (folder / LOG).iterdir())


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (0, ["0"]),
        (8, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]),
        (9, ["9.compact"]),
        (31, ["29.compact", "30", "31"]),
    ],
)
def test_a_new_log_has_what_the_next_compact_entry_wants(tmp_path, batch, expected):
    begin_after(tmp_path, batch)
    assert entries(tmp_path) == expected
    assert {(tmp_path / LOG / name).read_text() for name in expected} == {"v1"}
    assert newest_batch(tmp_path) == batch


def test_a_gap_is_filled_and_what_is_known_stays(tmp_path):
    (tmp_path / LOG).mkdir()
    for n in range(9):
        (tmp_path / LOG / str(n)).write_text(f'v1\n{{"path":"{n}"}}' if n % 2 else "v1")
    begin_after(tmp_path, 10)
    assert entries(tmp_path)[-2:] == ["8", "9.compact"]
    assert "10" in entries(tmp_path)
    assert (tmp_path / LOG / "9.compact").read_text().splitlines() == [
        "v1", '{"path":"1"}', '{"path":"3"}', '{"path":"5"}', '{"path":"7"}'
    ]  # fmt: skip
    begin_after(tmp_path, 4)
    assert newest_batch(tmp_path) == 10


def test_the_newest_batch_is_that_of_folders_too(tmp_path):
    assert newest_batch(tmp_path) is None
    (tmp_path / "sqlstream_batch=7").mkdir()
    (tmp_path / "day=3").mkdir()
    assert newest_batch(tmp_path) == 7


def test_the_log_says_how_many_bytes_a_batch_has_written(tmp_path):
    assert bytes_of_batch(tmp_path, 0, 0) is None
    for n in range(10):
        log_batch(tmp_path, n, [(tmp_path / f"{n}a", 10 * n, 1000 * n), (tmp_path / f"{n}b", 1, 1000 * n + 500)])
    assert [bytes_of_batch(tmp_path, n, 1000 * n) for n in (3, 8, 9, 10)] == [31, 81, 91, None]
    assert entries(tmp_path)[-1] == "9.compact"
    log_batch(tmp_path, 10, [])
    assert bytes_of_batch(tmp_path, 10, 10_000) == 0


@pytest.mark.spark
@pytest.mark.parametrize(("after", "compact"), [(8, 9), (17, 19)])
def test_spark_goes_on_behind_the_log_and_past_its_compact_entries(spark, tmp_path, after, compact):
    (tmp_path / "in").mkdir()

    def run(out, *names):
        for name in names:
            (tmp_path / f"in/{name}.json").write_text(json.dumps({"v": name}))
        rows = spark.readStream.schema("v INT").option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        writer = rows.writeStream.format("json").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / out))
        query.awaitTermination()

    run("first", 1)
    for folder in ("offsets", "commits"):
        for crc in (tmp_path / "checkpoint" / folder).glob(".*.crc"):
            crc.unlink()
        entry = tmp_path / "checkpoint" / folder / "0"
        (entry.parent / str(after - 1)).write_bytes(entry.read_bytes())
        entry.rename(entry.parent / str(after))
    begin_after(tmp_path / "second", after)
    run("second", 2, 3, 4)
    assert f"{compact}.compact" in entries(tmp_path / "second")
    assert sorted(row.v for row in spark.read.json(str(tmp_path / "second")).collect()) == [2, 3, 4]
