"""Blocks of records: nothing is lost, doubled or cut, whatever the ranges, the sizes, the compression, the encoding."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import threading
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.formats import blocks
from sqlstream.formats.blocks import Block, LineNumbers, TextFile
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.csv_records import Dialect
from sqlstream.formats.decoder import Field
from sqlstream.types import STRING
from tests.depth import depth

LINES = st.lists(st.sampled_from([b"", b"a", b"\xc3\xa9t\xc3\xa9", b"a longer line of text", b"\r"]), max_size=12)


def in_blocks(codec: str, data: bytes, pieces: int = 1) -> bytes:
    """As Hadoop writes it: blocks of a hundred bytes, of so many compressed pieces each."""
    packed = b""
    for block in (data[i : i + 100] for i in range(0, len(data), 100)):
        size = -(-len(block) // pieces)
        parts = (pa.compress(block[i : i + size], codec, asbytes=True) for i in range(0, len(block), size))
        packed += len(block).to_bytes(4, "big") + b"".join(len(p).to_bytes(4, "big") + p for p in parts)
    return packed


def in_frames(data: bytes) -> bytes:
    """The framing format of Snappy: a mark, compressed and plain pieces with checksums, and one to skip."""
    packed = pa.compress(data[:50], "snappy", asbytes=True)
    pieces = ((b"\xff", b"sNaPpY"), (b"\x00", b"sum " + packed), (b"\xfe", b"skip"), (b"\x01", b"sum " + data[50:]))
    return b"".join(kind + len(content).to_bytes(3, "little") + content for kind, content in pieces if content)


def in_lz4_frame(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "a.csv": bytes,
    "a.csv.gz": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "a.csv.bz2": bz2.compress,
    "a.csv.ZST": lambda data: pa.compress(data, "zstd", asbytes=True),
    "a.csv.deflate": lambda data: zlib.compress(data[:7]) + zlib.compress(data[7:]),
    "a.csv.snappy": lambda data: in_blocks("snappy", data),
    "b.csv.SNAPPY": lambda data: in_blocks("snappy", data, 3),
    "c.csv.snappy": in_frames,
    "a.csv.lz4": lambda data: in_blocks("lz4_raw", data),
    "b.csv.lz4": lambda data: in_blocks("lz4_raw", data, 3),
    "c.csv.lz4": in_lz4_frame,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def texts(blocks: list[Block]) -> list[bytes]:
    return [block.data.to_pybytes() for block in blocks]


@given(LINES, st.booleans(), st.booleans(), st.integers(1, 40), st.lists(st.integers(0, 80), max_size=4))
def test_ranges_have_each_record_once(
    folder: Path, lines: list[bytes], ends: bool, marked: bool, size: int, cuts: list[int]
) -> None:
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    data = (codecs.BOM_UTF8 if marked else b"") + text
    file = TextFile(written(folder / "a.csv", data), size=size)
    bounds = [0, *sorted(cuts), 1 << 40]
    blocks = [(block, begin, end) for begin, end in pairwise(bounds) for block in file.blocks(begin, end)]
    assert b"".join(texts([block for block, _, _ in blocks])) == text
    for block, begin, end in blocks:
        record = block.data.to_pybytes()
        assert data[block.start : block.start + len(record)] == record
        assert record.endswith(b"\n") or block.start + len(record) == len(data)
        first, last = block.start, block.start + record[:-1].rfind(b"\n") + 1
        assert begin <= (0 if first == len(codecs.BOM_UTF8) and marked else first)
        assert last < end or (marked and last == len(codecs.BOM_UTF8))


@given(LINES, st.booleans(), st.integers(1, 40), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80))))
def test_lines_are_counted_from_wherever_a_process_has_counted_before(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    marked: bool,
    size: int,
    ranges: list[tuple[int, int]],
) -> None:
    data = (codecs.BOM_UTF8 if marked else b"") + b"\n".join(lines)
    file = TextFile(written(tmp_path_factory.mktemp("lines") / "a.csv", data), size=size)
    for begin, end in ranges:  # in any order, as a micro-batch is repeated or another task reads it
        numbers = LineNumbers(file)
        for block in file.blocks(begin, end):
            assert numbers.before(block) == data[: block.start].count(b"\n")
            numbers.passed(block)


def test_a_file_that_is_read_in_many_ranges_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TextFile(written(tmp_path / "a.csv", b"0123456789abcde\n" * 1_000), size=160)
    counted, of_data = 0, blocks._breaks

    def breaks(data: pa.Buffer, returns: bool) -> int:
        nonlocal counted
        counted += data.size
        return of_data(data, returns)

    monkeypatch.setattr(blocks, "_breaks", breaks)
    for begin in range(0, 16_000, 320):  # another process reads each second range
        numbers = LineNumbers(file)
        for block in file.blocks(begin, begin + 160):
            assert numbers.before(block) == block.start // 16
            numbers.passed(block)
    assert counted <= 16_000
    (tmp_path / "a.csv").write_bytes(b"0123456\n" * 2_100)
    (block,) = file.blocks(320, 480)
    assert LineNumbers(file).before(block) == 40, "another file"


def test_carriage_returns_alone_end_lines_where_the_decoder_says_so(folder: Path) -> None:
    data = b"1,2\r3,4\r\n\r5,6\n7"
    file = TextFile(written(folder / "returns.csv", data), size=12)
    for returns, lines in ((True, [1, 2, 4, 5]), (False, [1, 1, 2, 3])):
        numbers, found = LineNumbers(file, returns), []
        for block in file.blocks():
            starts = [at - block.start for at in (0, 4, 10, 14) if 0 <= at - block.start < block.data.size]
            found += numbers.of(block, starts)
            numbers.passed(block)
        assert found == lines


@pytest.mark.parametrize("name", PACKED)
@given(lines=LINES, size=st.integers(1, 40), encoding=st.sampled_from(["utf-8", "utf-16", "latin-1", "cp1252"]))
def test_packed_and_encoded_files_are_the_text_that_they_hold(
    folder: Path, name: str, lines: list[bytes], size: int, encoding: str
) -> None:
    text = b"\n".join(lines)
    data = text.decode().encode(encoding)
    file = TextFile(written(folder / name, PACKED[name](data)), encoding, size=size)
    blocks = [*file.blocks(-5, 3), *file.blocks(3, 1 << 40)]
    assert b"".join(texts(blocks)) == text
    assert all(record.endswith(b"\n") for record in texts(blocks)[:-1])
    numbers = LineNumbers(file)
    for block in blocks:
        assert numbers.before(block) == text[: block.start].count(b"\n")
        numbers.passed(block)


@given(
    rows=st.lists(st.lists(st.sampled_from(["a", 'a "quoted"\nb', "\n\n", '""', ""]), min_size=1, max_size=3)),
    size=st.integers(1, 30),
    packs=st.booleans(),
)
def test_line_feeds_between_quotes_end_no_record(folder: Path, rows: list[list[str]], size: int, packs: bool) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    data = text.getvalue().encode()
    name = "q.csv.gz" if packs else "q.csv"
    file = TextFile(
        written(folder / name, gzip.compress(data) if packs else data), dialect=Dialect(multi_line=True), size=size
    )
    read = [row for record in texts([*file.blocks()]) for row in csv.reader(io.StringIO(record.decode(), newline=""))]
    assert read == rows


def test_an_escape_takes_quotes_and_itself_literally(folder: Path) -> None:
    data = b'"a\\"\n",1\n"b\\\\"\n"c\\\\\\"\n",2\n'
    path = written(folder / "e.csv", data)
    for size in range(1, len(data) + 1):
        blocks = texts([*TextFile(path, dialect=Dialect(escape="\\", multi_line=True), size=size).blocks()])
        assert b"".join(blocks) == data
        assert {sum(map(len, blocks[:number])) for number in range(len(blocks))} <= {0, 9, 15}


def test_quotes_with_line_breaks_are_not_cut_before_the_end_of_their_line_is_read(folder: Path) -> None:
    data = b'1,2\n"x\n#y"\r\n3,4\n'
    path = written(folder / "r.csv", data)
    for size in range(1, len(data) + 1):
        blocks = [*TextFile(path, dialect=Dialect(comments=True, multi_line=True), size=size).blocks()]
        assert b"".join(texts(blocks)) == data
        assert {block.start for block in blocks} <= {0, 4, 12}


ODD_CSV = [
    "1", ",", '"', "#", "\n", "\r\n", "a", "\\",
    "1,2\n", '1,"x\ny"\n', '\n1,"a\nb"\n', '"x\n#y"', '#it"s\n', '5" pipe,x\n'
]  # fmt: skip


@given(
    pieces=st.lists(st.sampled_from(ODD_CSV), max_size=16),
    size=st.integers(1, 40),
    comments=st.booleans(),
    escape=st.sampled_from([None, "\\"]),
)
def test_what_csv_has_in_any_quotes_and_comments_is_cut_nowhere_else_than_in_the_whole(
    folder: Path, pieces: list[str], size: int, comments: bool, escape: str | None
) -> None:
    data = "".join(pieces).encode()
    dialect = Dialect(escape=escape, comments=comments, multi_line=True)
    decoder = CsvDecoder([Field("a", STRING), Field("b", STRING)], dialect)
    rows, faults = [], []
    for block in TextFile(written(folder / "o.csv", data), dialect=dialect, size=size).blocks():
        decoded = decoder.block(block.data)
        rows += decoded.rows.to_pylist()
        faults += [(block.start + fault.start, fault.text, fault.reason) for fault in decoded.faults]
    whole = decoder.block(pa.py_buffer(data))
    assert rows == whole.rows.to_pylist()
    assert faults == [(fault.start, fault.text, fault.reason) for fault in whole.faults]
    starts = decoder.starts(pa.py_buffer(data))
    assert len(starts) == whole.records
    assert [int(starts[fault.record]) for fault in whole.faults] == [fault.start for fault in whole.faults]


@settings(max_examples=depth(30, 1_000))
@given(
    pieces=st.lists(st.sampled_from([*ODD_CSV, '1,"x\n2,y"\n', '",', '\n"x,\r"\n']), max_size=10),
    size=st.integers(1, 40),
    comments=st.booleans(),
    escape=st.sampled_from([None, "\\"]),
    packs=st.booleans(),
)
def test_a_record_with_line_breaks_in_quotes_is_one_fault_wherever_the_file_is_cut(
    folder: Path, pieces: list[str], size: int, comments: bool, escape: str | None, packs: bool
) -> None:
    data = "".join(pieces).encode()
    dialect = Dialect(escape=escape, comments=comments)
    decoder = CsvDecoder([Field("a", STRING), Field("b", STRING)], dialect)

    def read(blocks: list[Block]) -> list[object]:
        found: list[object] = []
        for block in blocks:
            decoded = decoder.block(block.data)
            found += decoded.rows.to_pylist()
            found += [(block.start + fault.start, fault.text, fault.reason) for fault in decoded.faults]
        return sorted(found, key=str)

    whole = read([Block(0, pa.py_buffer(data))])
    if packs:
        assert read([*TextFile(written(folder / "b.csv.gz", gzip.compress(data)), dialect=dialect).blocks()]) == whole
    file = TextFile(written(folder / "b.csv", data), dialect=dialect, size=size)
    for cut in range(len(data) + 1):
        assert read([*file.blocks(0, cut), *file.blocks(cut, len(data))]) == whole


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz"])
def test_line_breaks_in_quotes_are_one_fault_between_the_blocks_of_a_large_file(folder: Path, name: str) -> None:
    line, broken = b'7,"seven"\n', b'1,"x\n2,y"\n'
    before = line * 20_000
    data = before + broken + line * 20_000
    path = written(folder / name, gzip.compress(data) if name.endswith("gz") else data)
    decoder = CsvDecoder([Field("a", STRING), Field("b", STRING)])
    for cut in range(len(before) - 2, len(before) + len(broken) + 2):
        file = TextFile(path, dialect=decoder.dialect, size=cut)  # the first block ends there
        ranges = (file.blocks(0, cut), file.blocks(cut)) if file.divides else (file.blocks(),)
        read = [decoder.block(block.data) for blocks in ranges for block in blocks]
        assert sum(block.rows.num_rows for block in read) == 40_000
        (fault,) = (fault.text for block in read for fault in block.faults)
        assert fault == broken.strip()


def test_a_quote_that_is_closed_far_behind_is_never_closed(folder: Path) -> None:
    rest = b"2,b\n" * 20_000
    data = b'1,"a\n' + rest + b'3,"\n' + rest
    decoder = CsvDecoder([Field("a", STRING), Field("b", STRING)])
    for cut in (0, 3, 8, 70_000, len(data)):
        file = TextFile(written(folder / "far.csv", data), dialect=decoder.dialect, size=50_000)
        read = [decoder.block(block.data) for part in ((0, cut), (cut, None)) for block in file.blocks(*part)]
        assert sum(block.rows.num_rows for block in read) == 40_000
        assert [fault.text for block in read for fault in block.faults] == [b'1,"a', b'3,"']


def test_a_line_without_end_is_read_in_pieces_that_are_joined_once(folder: Path) -> None:
    data = b"x" * 1000 + b"\n" + b"y" * 500
    for dialect in (None, Dialect(multi_line=True)):
        file = TextFile(written(folder / "l.csv.gz", gzip.compress(data)), dialect=dialect, size=7)
        assert texts([*file.blocks()]) == [data[:1001], data[1001:]]


def test_bytes_that_the_encoding_does_not_have_are_no_utf8(folder: Path) -> None:
    file = TextFile(written(folder / "w.csv", b"a\x80\nb\x81\n"), "cp1252")
    assert texts([*file.blocks()]) == ["a€\n".encode() + b"b\xff\n"]
    lone = TextFile(written(folder / "u.csv", "a\n".encode("utf-16-le") + b"\x00\xdc" + b"b\x00"), "utf-16-le")
    assert texts([*lone.blocks()]) == [b"a\n", b"\xffb"]


def test_a_quote_that_is_never_closed_does_not_keep_the_file_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.formats.blocks._LONGEST_QUOTED", 40)
    data = b'1,"a\n' + b"2,b\n" * 50
    blocks = texts([*TextFile(written(folder / "n.csv", data), dialect=Dialect(multi_line=True), size=10).blocks()])
    assert b"".join(blocks) == data
    assert max(map(len, blocks)) <= 60


def test_a_file_is_unpacked_ahead_of_its_reader_and_no_longer_than_it_reads(folder: Path) -> None:
    file = TextFile(
        written(folder / "ahead.csv.gz", gzip.compress(b"".join(b"%d\n" % n for n in range(2000)))), size=64
    )
    reading = file.blocks()
    first = next(reading)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("sqlstream-unpack")]
    assert b"".join([first.data.to_pybytes(), *texts([*reading])]).split() == [b"%d" % n for n in range(2000)]
    given_up = file.blocks()
    next(given_up)
    del given_up
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sqlstream-unpack")]


def test_a_torn_file_is_an_error(folder: Path) -> None:
    data = gzip.compress(bytes(range(256)) * 999)
    with pytest.raises((OSError, pa.ArrowException)):
        list(TextFile(written(folder / "t.gz", data[: len(data) // 2])).blocks())


@pytest.mark.parametrize("name", [name for name in PACKED if name != "a.csv"])
@pytest.mark.parametrize("tear", [lambda packed: packed[: len(packed) * 2 // 3], lambda packed: b"1,a\n2,b\n" * 9])
def test_what_is_torn_or_not_compressed_is_an_error_whatever_its_name(folder: Path, name: str, tear: Any) -> None:
    data = bytes(range(256)) * 9
    with pytest.raises((OSError, pa.ArrowException)):
        list(TextFile(written(folder / f"torn {name}", tear(PACKED[name](data)))).blocks())


def test_repetitions_of_lz4_of_any_length_are_unpacked(folder: Path) -> None:
    data = b"".join(bytes([65 + n % 26]) * n + bytes(range(n % 200)) for n in range(0, 900, 7))
    block = len(data).to_bytes(4, "big")
    for half in (data[:9999], data[9999:]):
        packed = pa.compress(half, "lz4_raw", asbytes=True)
        block += len(packed).to_bytes(4, "big") + packed
    assert b"".join(texts([*TextFile(written(folder / "r.csv.lz4", block)).blocks()])) == data
