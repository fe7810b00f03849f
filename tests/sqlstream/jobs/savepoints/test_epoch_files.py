"""Which files of Spark's checkpoint make up an epoch."""

from __future__ import annotations

import json
import zipfile

import pytest

from sqlstream.jobs.savepoints.epoch_files import files_of_epoch, last_epoch


@pytest.fixture
def spark_folder(tmp_path):
    """A checkpoint after the micro-batches 0 to 3, of which 3 is under way."""
    write(tmp_path, "metadata", '{"id": "x"}')
    for n in range(4):
        write(tmp_path, f"offsets/{n}", f'v1\n{{"conf": {{}}}}\n-\n{{"logOffset":{n}}}\n{{"seconds": {n}}}')
        write(tmp_path, f"offsets/.{n}.crc")
    for n in range(3):
        write(tmp_path, f"commits/{n}")
    return tmp_path


def write(folder, path, text=""):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def write_zip(folder, path, files):
    with zipfile.ZipFile(folder / path, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": f} for f in files]}))


def below(folder, actual, start):
    return [name.removeprefix(start) for name in actual if name.startswith(start)]


def test_the_last_epoch_is_the_last_complete_one(spark_folder, tmp_path_factory):
    assert last_epoch(spark_folder) == 2
    assert last_epoch(tmp_path_factory.mktemp("none")) is None


def test_offsets_of_the_epoch_and_the_one_before(spark_folder):
    assert files_of_epoch(spark_folder, 2) == ("commits/1", "commits/2", "metadata", "offsets/1", "offsets/2")
    assert files_of_epoch(spark_folder, 0) == ("commits/0", "metadata", "offsets/0")


def test_logs_of_files_end_where_the_epoch_does(spark_folder):
    entry = 'v1\n{"path":"file:///a","timestamp":1,"batchId":0}'
    for n in range(4):
        write(spark_folder, f"sources/0/{n}", entry)  # nothing of it has been read
        write(spark_folder, f"sources/1/{n}", entry)
        write(spark_folder, f"sources/1/.{n}.crc")
    write(spark_folder, "sources/2/0", "v1\n{}")
    names = files_of_epoch(spark_folder, 2)
    assert below(spark_folder, names, "sources/") == ["1/0", "1/1", "1/2", "2/0"]


def test_a_log_compacted_behind_the_epoch_is_taken_whole(spark_folder):
    write(spark_folder, "sources/1/3.compact", 'v1\n{"path":"file:///a","timestamp":1,"batchId":0}')
    assert below(spark_folder, files_of_epoch(spark_folder, 2), "sources/") == ["1/3.compact"]


def test_state_is_the_newest_whole_version_and_the_changes_since(spark_folder):
    store = "state/0/0"
    for name in ("1.changelog", "2.changelog", "3.changelog", "4.changelog", "SSTs/a.sst", "SSTs/b.sst", "SSTs/c.sst"):
        write(spark_folder, f"{store}/{name}")
    write_zip(spark_folder, f"{store}/1.zip", ["a.sst"])
    write_zip(spark_folder, f"{store}/2.zip", ["a.sst", "b.sst"])
    write_zip(spark_folder, f"{store}/4.zip", ["c.sst"])
    write(spark_folder, "state/0/_metadata/v2/0")
    write(spark_folder, "state/0/_metadata/v2/3")
    write(spark_folder, "state/0/_stateSchema/default/0_x")
    names = files_of_epoch(spark_folder, 2)
    assert below(spark_folder, names, f"{store}/") == ["2.zip", "3.changelog", "SSTs/a.sst", "SSTs/b.sst"]
    assert below(spark_folder, names, "state/0/_") == ["metadata/v2/0", "stateSchema/default/0_x"]


def test_states_of_hdfs_and_of_several_stores(spark_folder):
    for name in ("1.delta", "2.delta", "3.delta", "2.snapshot", "4.delta"):
        write(spark_folder, f"state/0/1/{name}")
        write(spark_folder, f"state/0/1/left/{name}")
    write(spark_folder, "state/0/_metadata/metadata")
    write(spark_folder, "state/0/0/_metadata/schema")
    write(spark_folder, "state/0/0/_metadata/.schema.crc")
    names = files_of_epoch(spark_folder, 2)
    assert below(spark_folder, names, "state/0/0/") == ["_metadata/schema"]
    assert below(spark_folder, names, "state/0/_") == ["metadata/metadata"]
    assert below(spark_folder, names, "state/0/1/") == [
        "2.snapshot",
        "3.delta",
        "left/2.snapshot",
        "left/3.delta",
    ]


def test_state_without_a_whole_version_is_all_its_changes(spark_folder):
    for n in (1, 2, 3, 4):
        write(spark_folder, f"state/0/0/{n}.changelog")
    names = files_of_epoch(spark_folder, 2)
    assert below(spark_folder, names, "state/0/0/") == ["1.changelog", "2.changelog", "3.changelog"]


ENTRY = 'v1\n{"path":"file:///a","timestamp":1,"batchId":0}'


def logs(tmp_path, offsets, entries):
    """A checkpoint whose sources have been read up to ``offsets``, by micro-batch and line, and list ``entries``."""
    for batch, ends in enumerate(offsets):
        lines = "\n".join("-" if end is None else f'{{"logOffset":{end}}}' for end in ends)
        write(tmp_path, f"offsets/{batch}", f"v1\n{{}}\n{lines}")
        write(tmp_path, f"commits/{batch}")
    for source, newest in enumerate(entries):
        for number in range(newest + 1):
            write(tmp_path, f"sources/{source}/{number}", ENTRY)
    return tmp_path


@pytest.mark.parametrize(
    ("offsets", "entries", "expected"),
    [
        ([[0, 0, 0], [0, 0, 2]], [0, 2], [0, 2]),  # lines of one source side by side
        ([[0, 0, 0, 0], [0, 2, 0, 2]], [1, 3], [0, 2]),  # and apart; both logs are ahead
        ([[1, 1, 4, 4, 1, 1]], [1, 4, 1], [1, 4, 1]),  # the third has been read as far as the first
        ([[1, 4, 1, 4, 5]], [1, 4, 6], [1, 4, 5]),
        ([[0, 0, 0], [2, 2, 1]], [2, 2, 1], [2, 2, 1]),  # a line for each source
        ([[None, None, 3]], [-1, 3], [3]),
    ],
)
def test_a_source_in_several_places_of_a_query_has_several_lines_of_offsets(tmp_path, offsets, entries, expected):
    spark = logs(tmp_path, offsets, entries)
    names = below(spark, files_of_epoch(spark, len(offsets) - 1), "sources/")
    ends = {folder: max(int(name.partition("/")[2]) for name in names if name[0] == folder) for folder in
            sorted({name[0] for name in names})}  # fmt: skip
    assert [*ends.values()] == expected
