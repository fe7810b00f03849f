"""Which ranges of files each micro-batch reads: bounded, in order, each byte once, also after a process has ended."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.files.ranges import (
    POSITIONS,
    FileRanges,
    Limits,
    Unread,
    folder_of_ranges,
    ranges_to_copy,
)
from sqlstream.errors import ConnectorError, ExecutionError
from sqlstream.udfs.files.directories import path_of_url
from sqlstream.udfs.files.listed import files_of
from sqlstream.udfs.files.splits import BEGIN, END, FILE, LENGTH, MODIFIED, SHARE, SHARES, ranges_of
from tests.depth import depth


def ranges(folder: Path, path: Path, most: int | None = 10, files: int | None = None, **given: object) -> FileRanges:
    limits = Limits(most, files, lambda name: not name.endswith(".gz"))
    of_table, given = folder_of_ranges(folder, "bids", str(path)), {"retained": 100, **given}
    return FileRanges(of_table, str(path), limits, None, **given)  # type: ignore[arg-type]


def put(folder: Path, **sizes: int) -> None:
    """Files of these sizes, one after another by their times."""
    folder.mkdir(exist_ok=True)
    for name, size in sizes.items():
        file = folder / name.replace("_", ".")
        time = len([*folder.iterdir()])
        file.write_bytes(b"x" * size)
        os.utime(file, (time, time))


def written(of: FileRanges) -> list[list[tuple[str, int, int]]]:
    """The ranges of each micro-batch, in the order in which Spark takes them."""
    files = sorted(of.folder.glob("[!.]*.jsonl"), key=lambda file: file.stat().st_mtime)
    lines = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    return [[(Path(e[FILE]).name, e[BEGIN], e[END]) for e in entries] for entries in lines]


def test_a_large_file_is_cut_and_small_ones_are_packed(tmp_path: Path) -> None:
    put(tmp_path / "in", a=25, b=3, c=4)
    of = ranges(tmp_path, tmp_path / "in")
    of.look()
    assert written(of) == [[("a", 0, 10)], [("a", 10, 20)], [("a", 20, 25), ("b", 0, 3), ("c", 0, 2)], [("c", 2, 4)]]


def test_what_cannot_be_cut_is_whole_in_one_micro_batch(tmp_path: Path) -> None:
    put(tmp_path / "in", a_gz=25, b_gz=6, c_gz=4, d_gz=1)
    of = ranges(tmp_path, tmp_path / "in")
    of.look()
    assert written(of) == [[("a.gz", 0, 25)], [("b.gz", 0, 6), ("c.gz", 0, 4)], [("d.gz", 0, 1)]]


@pytest.mark.parametrize(
    ("most", "files", "expected"),
    [
        (None, None, [[("a", 0, 25), ("b", 0, 3)]]),
        (None, 1, [[("a", 0, 25)], [("b", 0, 3)]]),
        (20, 1, [[("a", 0, 20)], [("a", 20, 25)], [("b", 0, 3)]]),
    ],
)
def test_files_are_limited_too(most: int | None, files: int | None, expected: object, tmp_path: Path) -> None:
    put(tmp_path / "in", a=25, b=3)
    of = ranges(tmp_path, tmp_path / "in", most, files)
    of.look()
    assert written(of) == expected


def test_each_file_is_found_once_and_new_ones_follow(tmp_path: Path) -> None:
    put(tmp_path / "in", a=5)
    of = ranges(tmp_path, tmp_path / "in")
    of.look()
    put(tmp_path / "in", b=5, _hidden=5, empty=0)
    for again in (of, of, ranges(tmp_path, tmp_path / "in")):
        again.look()
        assert written(of) == [[("a", 0, 5)], [("b", 0, 5), ("empty", 0, 0)]]


def test_what_a_process_that_was_killed_had_not_written_follows_with_the_length_that_it_saw(tmp_path: Path) -> None:
    put(tmp_path / "in", a=35)
    of = ranges(tmp_path, tmp_path / "in")
    of.look()
    for file in sorted(of.folder.iterdir())[2:]:
        file.unlink()
    put(tmp_path / "in", b=2)
    with (tmp_path / "in" / "a").open("ab") as appended:
        appended.write(b"yyyyyyyyyyyy")
    ranges(tmp_path, tmp_path / "in", 12).look()
    assert written(of) == [[("a", 0, 10)], [("a", 10, 20)], [("a", 20, 32)], [("a", 32, 35), ("b", 0, 2)]]


@pytest.mark.parametrize("text", [None, '{"__file": "file:///x'])
def test_what_a_process_that_was_killed_had_written_in_part_does_not_count(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", a=35)
    of = ranges(tmp_path, tmp_path / "in")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", _killed_at(2))
        with pytest.raises(KeyboardInterrupt):
            of.look()
    (unfinished,) = of.folder.glob(".*.jsonl")
    if text is not None:
        unfinished.write_text(text)
    ranges(tmp_path, tmp_path / "in").look()
    assert written(of) == [[("a", 0, 10)], [("a", 10, 20)], [("a", 20, 30)], [("a", 30, 35)]]
    assert not [*of.folder.glob(".*")]


def _killed_at(call: int, method: str = "rename") -> Callable[..., object]:
    """A method of ``Path`` that does not return from this call, counted from 1."""
    whole, calls = getattr(Path, method), count(1)

    def killed(self: Path, *given: object, **named: object) -> object:
        if next(calls) == call:
            raise KeyboardInterrupt
        return whole(self, *given, **named)

    return killed


@pytest.mark.parametrize("pattern", ["*", "*.csv", "[._a-z]*", "[a-z_]*.csv"])
def test_patterns_fit_no_hidden_names(pattern: str, tmp_path: Path) -> None:
    put(tmp_path / "in", _csv=1, _b_csv=1, a_csv=1, c_csv=1)
    (tmp_path / "in" / "_late.csv").write_bytes(b"x")
    put(tmp_path / "in" / "_folder", d_csv=1)
    of = ranges(tmp_path, tmp_path / "in" / pattern, 100)
    of.look()
    expected = ["a.csv", "c.csv"]
    assert [name for pack in written(of) for name, _, _ in pack] == expected
    (tmp_path / "in" / ".csv").rename(tmp_path / "in" / "z.csv")
    of.look()
    assert [name for pack in written(of)[1:] for name, _, _ in pack] == ["z.csv"]


def test_a_copy_of_the_folder_keeps_the_order(tmp_path: Path) -> None:
    put(tmp_path / "in", a=100)
    of = ranges(tmp_path, tmp_path / "in")
    of.look()
    before = written(of)
    shutil.copytree(tmp_path / "ranges", tmp_path / "copy" / "ranges")
    for file in sorted((tmp_path / "copy").rglob("*.jsonl"), reverse=True):
        file.touch()
    copy = ranges(tmp_path / "copy", tmp_path / "in")
    copy.look()
    assert written(copy) == before


def test_another_path_of_the_table_has_other_names(tmp_path: Path) -> None:
    """Spark knows files of ranges by their names alone."""
    put(tmp_path / "in", a=1)
    put(tmp_path / "other", a=1)
    names = set()
    for path in ("in", "other"):
        of = ranges(tmp_path, tmp_path / path)
        of.look()
        names |= {file.name for file in of.folder.iterdir()}
    assert len(names) == 2


def test_directories_are_values_and_the_checkpoint_is_no_input(tmp_path: Path) -> None:
    put(tmp_path / "day=2024-01-31", a=1)
    put(tmp_path / "day=__HIVE_DEFAULT_PARTITION__", b=1)
    put(tmp_path / "day=a%3Ab", c=1)
    put(tmp_path / "day=a\u2028b\x85", d=1)  # which end lines elsewhere
    put(tmp_path / "day=%E2%80%A9", e=1)
    of = ranges(tmp_path, tmp_path, partitions=("day",), checkpoint=tmp_path / "ranges")
    of.look()
    of.look()
    ranges(tmp_path, tmp_path, partitions=("day",), checkpoint=tmp_path / "ranges").look()
    entries = [json.loads(line) for file in of.folder.iterdir() for line in file.read_text().splitlines()]
    days = {Path(path_of_url(e[FILE])).name: e["__directories"]["day"] for e in entries}
    assert days == {"a": "2024-01-31", "b": None, "c": "a:b", "d": "a\u2028b\x85", "e": "\u2029"}


def test_of_a_sink_only_the_files_of_its_log_count(tmp_path: Path) -> None:
    put(tmp_path / "in", a=1, b=1)
    (tmp_path / "in" / "_spark_metadata").mkdir()
    entry = json.dumps({"path": (tmp_path / "in" / "b").as_uri()})
    (tmp_path / "in" / "_spark_metadata" / "0").write_text(f"v1\n{entry}")
    of = ranges(tmp_path, tmp_path / "in")
    of.look()
    assert written(of) == [[("b", 0, 1)]]


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "ranges").write_text("")
    with pytest.raises(ConnectorError, match=r"ranges/bids/.* of the checkpoint cannot be written: Not a directory"):
        ranges(tmp_path, tmp_path)


def test_directories_that_cannot_be_listed_are_named_and_those_that_are_gone_are_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", a=1)
    for name in ("closed", "gone"):
        put(tmp_path / "in" / name, b=1)
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "closed" and closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        if path.name == "gone":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return listed(path)

    closed = True
    monkeypatch.setattr(Path, "iterdir", iterdir)
    of = ranges(tmp_path, tmp_path / "in")
    with pytest.raises(ConnectorError, match=r'SS508: path "[^"]*/in/closed" cannot be listed: Permission denied'):
        of.look()
    assert not written(of)
    closed = False
    of.look()
    assert written(of) == [[("a", 0, 1), ("b", 0, 1)]]
    ranges(tmp_path, tmp_path / "nowhere").look()


def _log(checkpoint: Path, path: Path) -> Path:
    """Spark's checkpoint after its first micro-batch has begun, which reads the file."""
    spark = checkpoint / "spark"
    (spark / "offsets").mkdir(parents=True)
    (spark / "sources" / "0").mkdir(parents=True)
    (spark / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    entry = json.dumps({"path": path.as_uri(), "timestamp": 1, "batchId": 0}, separators=(",", ":"))
    (spark / "sources" / "0" / "0").write_text(f"v1\n{entry}")
    return spark


def test_the_files_of_a_micro_batch_are_those_of_its_ranges(tmp_path: Path) -> None:
    put(tmp_path / "in", a=15, b=2)
    of = ranges(tmp_path, tmp_path / "in", 100)
    of.look()
    (file,) = of.folder.iterdir()
    spark = _log(tmp_path, file)
    assert [*files_of(spark, 0)] == [str(tmp_path / "in" / "a"), str(tmp_path / "in" / "b")]
    file.unlink()
    with pytest.raises(ExecutionError, match="was listed, and is gone"):
        [*files_of(spark, 0)]


def cut_by_one(folder: Path, checkpoint: Path | None = None) -> FileRanges:
    """Ranges of one byte each."""
    job = checkpoint or folder / "job"
    return ranges(job, folder / "in", 1, checkpoint=job, retained=5)


def logged(of: FileRanges, *newest: int) -> None:
    """Spark's sources with logs up to these files of ranges, as text or compact."""
    for source, number in enumerate(newest):
        assert of.checkpoint is not None
        log = of.checkpoint / "spark" / "sources" / str(source)
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir(parents=True)
        url = (Path("/elsewhere", *of.folder.parts[-3:]) / f"{of.folder.name}-{number:09}.jsonl").as_uri()
        entry = json.dumps({"path": url, "timestamp": 1, "batchId": number}, separators=(",", ":"))
        earlier = entry.replace(f"{number:09}", "000000000")
        name, lines = (str(number), [entry]) if number % 10 != 9 else (f"{number}.compact", [earlier, entry])
        (log / name).write_text("\n".join(["v1", *lines]))
    control = log.parent / str(len(newest))
    control.mkdir(exist_ok=True)
    (control / "0").write_text('v1\n{"path":"file:///checkpoint/control/0","timestamp":1,"batchId":0}')


def numbers(of: FileRanges) -> list[int]:
    return sorted(int(file.stem[-9:]) for file in of.folder.glob("[!.]*.jsonl"))


def test_what_no_micro_batch_reads_again_is_removed_and_found_no_second_time(tmp_path: Path) -> None:
    put(tmp_path / "in", a=25, b=3)
    of = cut_by_one(tmp_path)
    of.look()
    assert numbers(of) == [*range(28)], "nothing was read yet"
    logged(of, 9, 10)
    of.look()
    assert numbers(of) == [*range(28)], "too few to write what remains of them"
    logged(of, 19, 26)
    of.look()
    assert numbers(of) == [*range(13, 28)]
    logged(of, 27, 27)
    for start in (lambda: of, lambda: cut_by_one(tmp_path)):
        start().look()
        assert numbers(of) == [*range(21, 28)]
        assert json.loads((of.folder / POSITIONS).read_text().splitlines()[0]) == {"removed": 21}
    put(tmp_path / "in", c=2)
    cut_by_one(tmp_path).look()
    assert [pack[0] for pack in written(of)[-3:]] == [("b", 2, 3), ("c", 0, 1), ("c", 1, 2)]


def test_a_log_that_cannot_be_read_removes_nothing(tmp_path: Path) -> None:
    put(tmp_path / "in", a=25)
    of = cut_by_one(tmp_path)
    of.look()
    logged(of, 20, 20)
    (tmp_path / "job" / "spark" / "sources" / "1" / "20").write_text('v1\n{"path":"file:///x')
    of.look()
    assert numbers(of) == [*range(25)]
    (tmp_path / "job" / "spark" / "sources" / "1" / "20").unlink()
    of.look()
    assert numbers(of) == [*range(14, 25)]


def test_epochs_do_not_fill_the_checkpoint(tmp_path: Path) -> None:
    job = tmp_path / "job"
    of = ranges(job, tmp_path / "in", 7, checkpoint=job, retained=10)
    for number in range(200):
        put(tmp_path / "in", **{f"file{number:03}": 7})
        of.look()
        logged(of, number)
        assert len(numbers(of)) <= 23
    found = [e for e, _ in [*_positions(of), *((n, end) for pack in written(of) for n, _, end in pack)]]
    assert sorted(set(found)) == [f"file{number:03}" for number in range(200)]


def _positions(of: FileRanges) -> list[tuple[str, int]]:
    entries = map(json.loads, (of.folder / POSITIONS).read_text().splitlines()[1:])
    return [(Path(e[FILE]).name, e[END]) for e in entries]


@pytest.mark.parametrize(("call", "number"), [("rename", 1), ("unlink", 1), ("unlink", 2), ("unlink", 5)])
def test_a_kill_while_they_are_removed_loses_and_repeats_nothing(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in", a=25)
    of = cut_by_one(tmp_path)
    of.look()
    logged(of, 24)
    with monkeypatch.context() as patched:
        patched.setattr(Path, call, _killed_at(number, call))
        with pytest.raises(KeyboardInterrupt):
            of.look()
    put(tmp_path / "in", b=1)
    again = cut_by_one(tmp_path)
    again.look()
    assert numbers(again) == [*range(18, 26)]
    assert written(again)[-2:] == [[("a", 24, 25)], [("b", 0, 1)]]
    assert not [*again.folder.glob(".*")]


def test_a_savepoint_that_is_copied_meanwhile_has_each_position(tmp_path: Path) -> None:
    put(tmp_path / "in", **{f"f{n:02}": 1 for n in range(28)})
    of = cut_by_one(tmp_path)
    of.look()
    for read in (0, 19, 27):  # nothing is removed, then for the first time, then once more
        logged(of, read)
        listed = ranges_to_copy(tmp_path / "job")
        copy = tmp_path / f"copy-{read}"
        for number, name in enumerate(listed):
            if number == 5:
                of.look()
            if (tmp_path / "job" / name).exists():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(tmp_path / "job" / name, copy / name)
        again = cut_by_one(tmp_path, copy)
        again.look()
        assert numbers(again)[-1] == 27, "nothing is read twice"
        assert numbers(again)[0] <= max(read - 5, 0), "nor is what a repeated micro-batch reads missing"


@settings(max_examples=depth(100, 2000))
@example([(1, True), (0, True), (1, True)], None, None, 1)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 3),
    st.integers(1, 5),
)
def test_every_byte_is_read_once_and_in_order(
    files: list[tuple[int, bool]], most: int | None, count: int | None, shares: int
) -> None:
    unread = [Unread(f"/{i}", size, i) for i, (size, _) in enumerate(files)]
    limits = Limits(most, count, lambda path: files[int(path[1:])][1])
    read: dict[str, list[tuple[int, int]]] = {}
    for pack in limits.packed(unread):
        cut = [(file, end) for file, end in pack if files[int(file.path[1:])][1]]
        assert most is None or sum(end - file.begin for file, end in cut) <= most
        assert count is None or len(pack) <= count
        entries = [
            {FILE: f.path, LENGTH: f.length, MODIFIED: f.modified, BEGIN: f.begin, END: end, SHARES: shares}
            for f, end in pack
        ]
        for share in range(shares):
            for part in ranges_of([entry | {SHARE: share} for entry in entries]):
                read.setdefault(part.file[FILE], []).append((part.begin, part.end))
    for file in unread:
        parts = read.get(file.path, [])
        assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])][: len(parts)]
        assert (parts[-1][1] if parts else 0) == file.length
    assert [*read] == [file.path for file in unread if file.length]


def test_of_a_file_that_has_become_shorter_no_other_range_is_read(tmp_path: Path) -> None:
    put(tmp_path, a=10)
    entry = {FILE: (tmp_path / "a").as_uri(), LENGTH: 20, MODIFIED: 1, BEGIN: 0, END: 10, SHARE: 0, SHARES: 1}
    (part,) = ranges_of([entry])
    with pytest.raises(ExecutionError, match="was cut from 20 to 10 bytes"):
        part.as_it_is()
    (whole,) = ranges_of([{key: value for key, value in entry.items() if key not in (BEGIN, END)}])
    assert whole.as_it_is() is whole


@pytest.mark.parametrize("shares", [1, 3])
def test_of_a_file_that_has_grown_one_task_reads_the_last_range_to_its_end(shares: int, tmp_path: Path) -> None:
    put(tmp_path, a=30)
    entries = [
        {FILE: (tmp_path / "a").as_uri(), LENGTH: 20, MODIFIED: 1, BEGIN: begin, END: begin + 10, SHARES: shares}
        for begin in (0, 10)
    ]
    parts = [
        part.as_it_is() for entry in entries for share in range(shares) for part in ranges_of([entry | {SHARE: share}])
    ]
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == 30
    assert 10 in {part.end for part in parts}
