"""Odd and malformed records, and the doors through which they are read: what each makes of a record.

``python -m tests.doors`` prints how many records went through how many doors, and what differs.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.change_formats import TEXT_FORMATS
from sqlstream.connectors.on_spark.change_messages import change_decoder
from sqlstream.errors import ConnectorError
from sqlstream.formats.csv import CsvDecoder
from sqlstream.formats.decoder import Decoder, Field
from sqlstream.formats.json import JsonDecoder
from sqlstream.planner.catalog import ALL_KINDS, Column, Table
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.bad_records import BAD, READ_FROM
from sqlstream.udfs.files.records import RecordRows
from sqlstream.udfs.files.splits import FILE, LENGTH, MODIFIED, SHARE, SHARES
from sqlstream.udfs.files.text import TextFormat
from sqlstream.udfs.lookup.source import Request
from sqlstream.udfs.lookup.sources.files import FileSource, _loaded, signature_of
from sqlstream.udfs.lookup.sources.http import AnswerReader
from sqlstream.udfs.lookup.sources.json_paths import JsonPath
from sqlstream.udfs.lookup.sources.json_values import JsonDocument, has_json
from sqlstream.udfs.messages import BAD_TYPE, PLACE, VALUE, MessageRows

ZONE = "Europe/Berlin"
COLUMN = "v"

Outcome = tuple[str, Any]
"""``("row", value)``, or ``("fault", reason)``."""


# --- records --------------------------------------------------------------------------------------------------

TEXTS = (
    "", " ", "x", "true", "TRUE", "True", "false", "yes", "t", "1", "0", "-1", "+7", " 7 ", "007", "127", "128", "-129",
    "32768", "2147483648", "9223372036854775807", "9223372036854775808", "1.0", "1.5", "-1.5", "1.10", ".5",
    "5.", "1e3",
    "1e-3", "1E400", "-1e400", "1e-400", "1,000", "1,5", "0x10", "1_000", "1.5d", "--1", "-", "NaN", "nan", "Infinity",
    "-Inf", "+INF", "999.994", "999.995", "1.235", "12345678901234567890.12", "aGVsbG8=", "aGVsbG8", "hello!", "é☃",
    "2024-01-31", "2024-1-5", "2024-02-30", "20240131", "0001-01-01", "12024-01-31", "31/01/2024", "2024-01-31 12:30",
    "2024-01-31 12:30:00.5", "2024-01-31T12:30:00.1234567", "2024-01-31T12:30:00Z", "2024-01-31 12:30:00+05:30",
    "2024-01-31 12:30:00 Asia/Tokyo", "2024-01-31 12:30:00 nowhere", "2024-10-27 02:30:00", "2024-03-31 02:30:00",
    "2040-07-01 12:00:00", "1945-07-01 12:00:00", "1969-12-31 23:59:59.9999999", "2024-01-31 24:00:00", "12:30",
    "12:30:00.1234567", "24:00:00", "12:30:60", "12:30:00Z", "12", "1706704200000", "1 02:03:04", "1500", "1 hour",
)  # fmt: skip
"""Texts of values, for any type."""

SPELLED = (
    "null", "true", "false", "0", "-0", "1", "-1", "7.0", "1.5", "1.10", "-0.0", "1e3", "1e-3", "1E400", "128", "-129",
    "32768", "2147483648", "9223372036854775807", "9223372036854775808", "1234567890123456789012", "12345.678",
    "1706704200000", "NaN", "Infinity", "-Infinity", "+INF", "-INF", "01", "1.", ".5", "+1", "0x10", "nul", "tru",
    "'x'", "\"", '"\\u0041"', '"\\ud800"', '"\\ud83d\\ude00"', '"a\\"b"', '"a\\\\b"', '"a\\nb"', '"a\tb"', '"a\\qb"',
    "[]", "[1]", '[1, "x"]', '["7", 1.5, null]', "[[1]]", "[1", "[1,]", "{}", '{"a": 1}', '{"a": "x"}', '{"a": 1.9}',
    '{"a": 1, "a": 2}', '{"b": 1.10, "a": null}', '{"b": {"c": [1, 2]}}', '{"a": 1,}', "{'a': 1}", '{"a" 1}',
    "undefined",
)  # fmt: skip
"""Values as JSON has them, or has not."""

WHOLE_JSON = (
    "{}", '{"w": 1}', '{"V": 1}', '{"v": 1, "v": 2}', '{"v": 1, "w": {"v": "x"}}', '{"\\u0076": 7}', "{'v': 1}",
    '{"v": 1}{"v": 2}', '{"v": 1} {"v": 2}', '{"v": 1},', '{"v": 1} x', '{"v": 1}}', '{"v": 1}]', '{"v": 1', '{"v"}',
    '{"v": }', '{v: 1}', "[1]", '[{"v": 1}]', "1", "null", '"x"', "oops", '  {"v" : 5 }  ', '{"v": "a}b{"}',
    b'{"v": "\xff"}',
    b'{"v": "caf\xc3\xa9"}', b"\xff", '{"v": "a\x00b"}',
)  # fmt: skip
"""Whole records of JSON, or none."""

WHOLE_CSV = (
    "1", "1,2,3", "1,2,3,4", ",", '"",', '"1",2', '"a,b",2', '"a""b",2', '"a', '"a,2', '1,"b', '"a"b,2',
    'a"b,2', '1, "b"',
    "1,'b'", "#1,2", "1,#", "NULL,NULL", "\\,2", "a\\,b,2", "\ta\t,\t", b"\xff,1", b"caf\xc3\xa9,1",
    b"caf\xe9,1", "a\x00b,1",
)  # fmt: skip
"""Whole records of CSV, or none, of two columns."""

SCALARS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 18)", "STRING",
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ",
)  # fmt: skip
NESTED = (
    "ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, DOUBLE>", "MAP<STRING, STRING>", "STRUCT<a: INT, b: STRING>",
    "ARRAY<STRUCT<a: BIGINT, b: ARRAY<DECIMAL(5, 2)>>>",
)  # fmt: skip
OF_JSON = (*SCALARS, "BINARY", "INTERVAL DAY TO SECOND", *NESTED)


@dataclass(frozen=True)
class Records:
    """Records of one column ``v`` of a type; in CSV it is the first of two."""

    kind: DataType
    records: tuple[bytes, ...]

    def some(self, chosen: Sequence[int]) -> Records:
        """Those of the given numbers."""
        return Records(self.kind, tuple(self.records[n] for n in chosen))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The column of JSON."""
        return (Field(COLUMN, self.kind),)


def of_json() -> Iterator[Records]:
    """All records of JSON, by type."""
    values = [*SPELLED, *(json.dumps(text, ensure_ascii=False) for text in TEXTS)]
    records = [f'{{"{COLUMN}": {value}}}'.encode() for value in values]
    whole = [record if isinstance(record, bytes) else record.encode() for record in WHOLE_JSON]
    for name in OF_JSON:
        yield Records(parse_type(name), (*records, *whole))


def wide() -> tuple[tuple[Field, ...], tuple[bytes, ...]]:
    """A column for each type, and records of JSON with a value for one of them: many for few queries."""
    values = [*SPELLED, *(json.dumps(text, ensure_ascii=False) for text in TEXTS)]
    fields = tuple(Field(f"v{n}", parse_type(name)) for n, name in enumerate(OF_JSON))
    return fields, tuple(f'{{"{f.name}": {value}}}'.encode() for f in fields for value in values)


def of_csv() -> Iterator[Records]:
    """All records of CSV, by type."""
    plain = [text for text in TEXTS if "," not in text]
    records = [f"{text},end" for text in plain] + [f'"{text}",end' for text in TEXTS]
    whole = [record if isinstance(record, bytes) else record.encode() for record in WHOLE_CSV]
    for name in SCALARS:
        yield Records(parse_type(name), (*(r.encode() for r in records), *whole))


# --- doors ----------------------------------------------------------------------------------------------------

Door = Callable[[Records, Path], list[Outcome]]
"""Reads all records, in any file of the folder where it needs one."""


def decoder_of(form: str, records: Records) -> Decoder:
    """The decoder of the column, which is wanted."""
    if form == "json":
        return JsonDecoder(records.fields, zone=ZONE)
    return CsvDecoder((*records.fields, Field("e", parse_type("STRING"), wanted=False)), zone=ZONE)


def _outcomes(rows: Mapping[int, Any], faults: Mapping[int, str], count: int) -> list[Outcome]:
    assert sorted([*rows, *faults]) == list(range(count)), "each record is a row or a fault"
    return [("row", rows[n]) if n in rows else ("fault", faults[n]) for n in range(count)]


def _shown(values: pa.Array) -> list[str]:
    """Values as texts: NaN equals NaN, and -0.0 is not 0.0."""
    kind = values.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return [repr(value) for value in values.to_pylist()]
    if pa.types.is_duration(kind):
        values = values.view(pa.int64())
    elif pa.types.is_timestamp(kind) and kind.tz is not None:
        values = values.cast(pa.timestamp("us", "UTC"))
    elif pa.types.is_time(kind):
        values = values.cast(pa.time64("ns"))
    return [repr(text) for text in values.cast(pa.string()).to_pylist()]


def in_batches(form: str) -> Door:
    """Messages, one after the other, as of Kafka."""

    def read(records: Records, folder: Path) -> list[Outcome]:
        decoded = decoder_of(form, records).messages(pa.array(records.records, pa.binary()))
        rows = dict(zip(decoded.numbers.tolist(), _shown(decoded.rows.column(0)), strict=True))
        return _outcomes(rows, {f.record: f.reason for f in decoded.faults}, len(records.records))

    return read


def one_by_one(form: str) -> Door:
    """Each message alone."""

    def read(records: Records, folder: Path) -> list[Outcome]:
        found = [in_batches(form)(Records(records.kind, (r,)), folder) for r in records.records]
        return [outcome for (outcome,) in found]

    return read


def of_messages(form: str, *, lines: bool = False) -> Door:
    """Messages, or lines of a socket, as tasks of Spark decode them."""

    def read(records: Records, folder: Path) -> list[Outcome]:
        reader = MessageRows(decoder_of(form, records), tolerant=True, lines=lines)
        places = [None if lines else f"t[0]@{n}" for n in range(len(records.records))]
        batch = pa.record_batch({VALUE: pa.array(records.records, pa.binary()), PLACE: pa.array(places, pa.string())})
        (read_batch,) = reader.rows(iter([batch]))
        return _with_bad(read_batch.column(COLUMN), read_batch.column(BAD))

    return read


def _with_bad(values: pa.Array, bad: pa.Array) -> list[Outcome]:
    """Outcomes of rows with the column BAD."""
    errors = pc.struct_field(bad, "error").to_pylist()
    return [
        ("row", value) if error is None else ("fault", error.removeprefix("SS402: "))
        for value, error in zip(_shown(values), errors, strict=True)
    ]


def _file(records: Records, folder: Path, form: str) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.{form}"
    path.write_bytes(b"".join(record + b"\n" for record in records.records))
    return path


def of_files(form: str) -> Door:
    """Files, as tasks of streams and finished data read them."""

    def read(records: Records, folder: Path) -> list[Outcome]:
        path = _file(records, folder, form)
        schema = pa.schema([(COLUMN, records.kind.to_arrow()), (BAD, BAD_TYPE), (READ_FROM, pa.string())])
        reader = RecordRows(schema, {}, TextFormat(decoder_of(form, records), tolerant=True))
        place = {FILE: path.as_uri(), LENGTH: path.stat().st_size, MODIFIED: 0, SHARE: 0, SHARES: 1}
        batches = [*reader.rows([pa.RecordBatch.from_pylist([place])])]
        table = pa.Table.from_batches(batches, schema).combine_chunks()
        return _with_bad(table.column(COLUMN).combine_chunks(), table.column(BAD).combine_chunks())

    return read


def of_file_lookups(form: str) -> Door:
    """Files that lookups load: records that cannot be read are dropped, and fail the file where they may not be."""

    def read(records: Records, folder: Path) -> list[Outcome]:
        found: list[Outcome] = []
        path = folder / f"lookup.{form}"
        for record in records.records:
            path.write_bytes(record + b"\n")
            source = FileSource(
                "t", Request((), ((COLUMN, records.kind),)), str(path), TextFormat(decoder_of(form, records)),
                ((COLUMN, records.kind),),
            )  # fmt: skip
            try:
                table = _loaded(source, signature_of(str(path)))
                found.append(("row", _shown(table.column(COLUMN).combine_chunks())[0]))
            except ConnectorError as error:
                reason = error.diagnostics[0].message.partition("cannot be read: line 1: ")[2]
                shown = " ".join(record.decode(errors="replace")[:100].split())
                found.append(("fault", reason.removesuffix(f": {shown}") if shown else reason))
        path.unlink()
        return found

    return read


def of_answers(records: Records, folder: Path) -> list[Outcome]:
    """Answers of HTTP servers, one for each record."""
    reader = AnswerReader(
        "t", Request((), ((COLUMN, records.kind),)), JsonPath(), ((COLUMN, JsonPath((COLUMN,))),), (), ZONE
    )
    found: list[Outcome] = []
    for record in records.records:
        try:
            ((value,),) = reader.of_key((), JsonDocument(record.decode()))
            found.append(("row", _shown(pa.array([value], records.kind.to_arrow()))[0]))
        except ConnectorError as error:
            found.append(
                ("fault", error.diagnostics[0].message.partition(" cannot be read for ")[2].partition(": ")[2])
            )
        except ValueError:
            found.append(("fault", "no JSON"))
    return found


def of_changes(name: str) -> Door:
    """Messages of inserted rows in a change format."""
    form = TEXT_FORMATS[name]
    operation = form.written[0]

    def read(records: Records, folder: Path) -> list[Outcome]:
        table = Table("t", (Column(COLUMN, records.kind),), "kafka", (("format", name),), changelog=ALL_KINDS)
        values = {form.key("ignore-parse-errors"): False, form.key("timestamp-format.standard"): None}
        decoder = change_decoder(form, table, (COLUMN,), values, ZONE)
        start, end = (b"[", b"]") if form.lists else (b"", b"")
        messages = [
            b'{"%s": "%s", "%s": %s%s%s}'
            % (form.operation.encode(), operation.encode(), form.after.encode(), start, record, end)
            for record in records.records
        ]
        decoded = decoder.messages(pa.array(messages, pa.binary()))
        rows = dict(zip(decoded.numbers.tolist(), _shown(decoded.rows.column(0)), strict=True))
        hint = decoder.envelope.number_hint
        faults = {f.record: f.reason.replace(hint, "") if hint else f.reason for f in decoded.faults}
        return _outcomes(rows, faults, len(messages))

    return read


DOORS: Mapping[str, Mapping[str, Door]] = {
    "csv": {
        "each message alone": one_by_one("csv"),
        "messages": of_messages("csv"),
        "socket": of_messages("csv", lines=True),
        "files": of_files("csv"),
        "file lookups": of_file_lookups("csv"),
    },
    "json": {
        "each message alone": one_by_one("json"),
        "messages": of_messages("json"),
        "socket": of_messages("json", lines=True),
        "files": of_files("json"),
        "file lookups": of_file_lookups("json"),
        "http": of_answers,
        **{name: of_changes(name) for name in TEXT_FORMATS},
    },
}


_IS_NUMBER = re.compile(r'.* is "\s*[+-]?\d[\d.eE+-]*\s*"')


def is_documented(door: str, records: Records, number: int, expected: Outcome) -> bool:
    """True where docs/formats.md says that the door reads the record in another way: answers of HTTP may be an array of
    rows, and have numbers that count milliseconds; lookups have years of Python only.
    """
    text = records.records[number]
    counts = records.kind.is_timestamp and _IS_NUMBER.fullmatch(expected[1]) is not None
    other_years = b"12024-" in text or (records.kind.name == "TIMESTAMP" and b"0001-01-01" in text)  # in UTC
    if door == "file lookups":
        return other_years
    return door == "http" and (counts or text.startswith(b"[{") or other_years)


def differs(expected: Outcome, found: Outcome) -> bool:
    """True for another value, or another reason where a value does not fit. Malformed records are faults for reasons
    that depend on what is around them.
    """
    if expected[0] != found[0]:
        return True
    return expected[1] != found[1] if expected[0] == "row" or expected[1].startswith('column "') else False


@dataclass
class Comparison:
    """What doors make of records, beside what the decoder makes of all of them as messages."""

    records: int = 0
    faults: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    documented: int = 0
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.records} records ({self.faults} faults) x {len(self.compared) + 1} doors: {self.compared.total()} "
            f"comparisons, {self.documented} documented and {len(self.differences)} other differences"
        )


def of_rows(rows: pa.Table) -> list[str]:
    """Rows of ``wide`` with the column BAD: of each its values, or what is wrong."""
    columns = [_shown(rows.column(f.name).combine_chunks()) for f in wide()[0]]
    errors = pc.struct_field(rows.column(BAD).combine_chunks(), "error").to_pylist()
    values = (" ".join(row) for row in zip(*columns, strict=True))
    return [row if error is None else error for row, error in zip(values, errors, strict=True)]


SLOW = ("each message alone", "file lookups", "http")
"""Doors that read one record after the other."""


def compare(form: str, folder: Path, step: int = 1) -> Comparison:
    """Reads all records of a format through each of its doors; slow ones read one record of ``step``, another one for
    each type.
    """
    result = Comparison()
    for nth, records in enumerate(of_json() if form == "json" else of_csv()):
        expected = in_batches(form)(records, folder)
        result.records += len(expected)
        result.faults += sum(what == "fault" for what, _ in expected)
        for door, read in DOORS[form].items():
            if door == "http" and not has_json(records.kind):
                continue
            chosen = range(nth % step, len(expected), step) if door in SLOW else range(len(expected))
            for number, found in zip(chosen, read(records.some(chosen), folder), strict=True):
                result.compared[door] += 1
                if not differs(expected[number], found):
                    continue
                if is_documented(door, records, number, expected[number]):
                    result.documented += 1
                else:
                    text = records.records[number]
                    result.differences.append(f"{door}, {records.kind}, {text!r}: {found} for {expected[number]}")
    return result


def main() -> None:
    for form in DOORS:
        with tempfile.TemporaryDirectory() as folder:
            result = compare(form, Path(folder))
        print(f"{form}: {result}", *result.differences, sep="\n  ")


if __name__ == "__main__":
    main()
