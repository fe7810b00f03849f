"""Files as Arrow tables of declared types: CSV, JSON (one object per line), Parquet, ORC, Arrow and lines of text.

They are interpreted as in a stream: an unreadable row fails the file unless bad rows are dropped, an empty field of CSV
is NULL, a column that a Parquet, ORC or Arrow file lacks fails the file unless the table defines it as NULL, and a text
of a timestamp without an offset is in the session's time zone. Values that Arrow cannot convert, such as decimals that
must be rounded, are converted one by one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from sqlstream.types import STRING, DataType
from sqlstream.udfs.lookup.sources.scalars import from_text, shown

_TEXTS = frozenset({"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_NTZ"})
"""Types that JSON spells as texts."""
_IN_JSON = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "ARRAY", "STRUCT"}
)
_COLUMNAR = frozenset({"arrow", "orc", "parquet"})
_STANDARDS = {"SQL": re.compile(r"\d+-\d+-\d+ "), "ISO-8601": re.compile(r"\d+-\d+-\d+T")}


@dataclass(frozen=True)
class FileFormat:
    """The format of a table's files, with its options.

    ``columns`` are those of the files, in order; ``quote`` and ``escape`` None: the format has none. ``timestamps``:
    "SQL" or "ISO-8601" where JSON must use that spelling. ``drop``: unreadable rows are skipped. ``nulls``: columns
    that Parquet and ORC files lack are NULL. ``line_feeds``: quoted fields of CSV may contain line feeds.
    """

    name: str
    columns: tuple[tuple[str, DataType], ...]
    zone: str = "UTC"
    header: bool = False
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null: str | None = None
    comments: bool = False
    timestamps: str | None = None
    drop: bool = False
    nulls: bool = False
    line_feeds: bool = False

    def reads(self, kind: DataType) -> bool:
        """Whether columns of the type can be read from files of this format."""
        if self.name in _COLUMNAR:
            return all(member.name not in ("VARIANT", "INTERVAL") for member in kind.parts())
        if self.name != "json":
            return kind.name not in ("ARRAY", "MAP", "STRUCT", "BINARY", "INTERVAL", "VARIANT")
        return kind.name in _TEXTS or all(member.name in _IN_JSON for member in kind.parts())

    def read(self, path: str, wanted: Sequence[str]) -> pa.Table:
        """The wanted columns of a file. ValueError, its subclass ArrowInvalid or OSError where the file
        cannot be read.
        """
        kinds = {name: kind for name, kind in self.columns if name in wanted}
        if self.name in _COLUMNAR:
            return _columnar(path, self, kinds)
        with pa.input_stream(path, compression="detect") as stream:
            data = stream.read().removeprefix(b"\xef\xbb\xbf")
        _require_text(data)
        if self.name == "json":
            rows = _json(data, self, kinds)
        elif self.name == "csv":
            rows = _csv(data, self, kinds)
        else:
            lines = re.split("\r\n|\n|\r", data.decode("utf-8"))
            lines = lines if lines[-1] else lines[:-1]
            rows = pa.table({name: pa.array(lines, pa.string()) for name in kinds} or {"": lines})
        return _typed(rows, self, kinds)


def _require_text(data: bytes) -> None:
    """ValueError with the line that is not UTF-8, which not every parser looks at."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8 text") from None


def _csv(data: bytes, form: FileFormat, kinds: dict[str, DataType]) -> pa.Table:
    """The columns as texts."""
    if form.comments:
        data = b"\n".join(line for line in data.splitlines() if not line.startswith(b"#"))
    parsing = csv.ParseOptions(
        delimiter=form.delimiter,
        quote_char=form.quote or False,
        double_quote=form.escape is None,
        escape_char=form.escape or False,
        newlines_in_values=form.line_feeds,
        invalid_row_handler=(lambda row: "skip") if form.drop else None,
    )
    names = [name for name, _ in form.columns]
    if form.header:
        header, _, data = data.lstrip(b"\r\n").partition(b"\n")
        _check_header(header, names, parsing)
    if not data.strip():
        return pa.table({name: pa.array([], pa.string()) for name in kinds})
    return csv.read_csv(
        io.BytesIO(data),
        csv.ReadOptions(column_names=names),
        parsing,
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(kinds),
            null_values=["", *([] if form.null is None else [form.null])],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _check_header(header: bytes, names: list[str], parsing: object) -> None:
    if not header.strip():  # an empty file
        return
    columns = csv.read_csv(io.BytesIO(header + b"\n"), csv.ReadOptions(), parsing).column_names
    if [name.casefold() for name in columns] != [name.casefold() for name in names]:
        raise ValueError(f"its header names the columns {', '.join(columns)}, the table has {', '.join(names)}")


def _json(data: bytes, form: FileFormat, kinds: dict[str, DataType]) -> pa.Table:
    """The columns, dates and times among them as texts."""
    schema = pa.schema([(name, (STRING if k.name in _TEXTS else k).to_arrow()) for name, k in kinds.items()])
    parsing = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def parsed(text: bytes) -> pa.Table:
        if not text.strip():
            return schema.empty_table()
        blocks = json.ReadOptions(block_size=max(len(text), 1))  # else a line must be shorter than a block
        rows = json.read_json(io.BytesIO(text), blocks, parsing)
        if rows.num_rows != sum(1 for line in text.splitlines() if line.strip()):
            raise pa.ArrowInvalid("a line is no JSON object, or something follows the object")
        return rows

    try:
        return parsed(data)
    except pa.ArrowInvalid:
        if not form.drop:
            raise
    return pa.concat_tables([schema.empty_table(), *_readable(data.splitlines(), parsed)])


def _readable(lines: list[bytes], parsed: object) -> list[pa.Table]:
    rows = []
    for line in lines:
        try:
            rows.append(parsed(line))  # type: ignore[operator]
        except pa.ArrowInvalid:
            continue
    return rows


def _columnar(path: str, form: FileFormat, kinds: dict[str, DataType]) -> pa.Table:
    """Columns are found by name, without regard to case, and read as in streams."""
    from sqlstream.udfs.columnar_files import ColumnarFiles  # takes longer to load than a table of text to be read

    files = ColumnarFiles(form.name, tuple(kinds.items()), form.nulls)
    return (
        pa.Table.from_batches(files.batches(path))
        if not kinds
        else pa.Table.from_batches(files.batches(path), files.schema)
    )


# --- texts ----------------------------------------------------------------------------------------------------


def _typed(rows: pa.Table, form: FileFormat, kinds: dict[str, DataType]) -> pa.Table:
    """Texts as values of the declared types; where they spell none, the row is dropped or the file fails."""
    columns, good = {}, np.ones(rows.num_rows, bool)
    for name, kind in kinds.items():
        column = rows.column(name)
        if kind.name != "STRING" and pa.types.is_string(column.type):
            column, spelled = _values(column, name, kind, form)
            good &= spelled
        columns[name] = column
    typed = pa.table(columns) if columns else rows
    return typed if good.all() else typed.filter(pa.array(good))


def _values(
    column: pa.ChunkedArray, name: str, kind: DataType, form: FileFormat
) -> tuple[pa.Array | pa.ChunkedArray, np.ndarray]:
    try:
        return _cast_texts(column, kind, form), np.ones(len(column), bool)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _one_by_one(column, name, kind, form)


def _cast_texts(column: pa.ChunkedArray, kind: DataType, form: FileFormat) -> pa.ChunkedArray:
    if kind.is_timestamp and form.timestamps is not None:
        raise pa.ArrowInvalid("each must be looked at")
    if kind.name != "TIMESTAMP":
        return column.cast(kind.to_arrow())
    return pc.assume_timezone(
        column.cast(pa.timestamp("us")), form.zone, ambiguous="earliest", nonexistent="latest"
    ).cast(kind.to_arrow())


def _one_by_one(column: pa.ChunkedArray, name: str, kind: DataType, form: FileFormat) -> tuple[pa.Array, np.ndarray]:
    zone, standard = ZoneInfo(form.zone), _STANDARDS.get(form.timestamps or "") if kind.is_timestamp else None
    values, good = [], np.ones(len(column), bool)
    for i, text in enumerate(column.to_pylist()):
        value = None
        try:
            if text is not None and standard is not None and not standard.match(text):
                raise ValueError(f"{shown(text)} is no timestamp as {form.timestamps} spells it")
            value = None if text is None else from_text(text, kind, zone)
        except ValueError as error:
            if not form.drop:
                raise ValueError(f'column "{name}": {error}') from None
            good[i] = False
        values.append(value)
    return pa.array(values, kind.to_arrow()), good


def with_constants(table: pa.Table, values: dict[str, str | None], kinds: dict[str, DataType], zone: str) -> pa.Table:
    """Adds columns that have one value in all rows, such as partition columns. ``values``: the value of each column as
    text, None for NULL; ``kinds``: the columns' types; ``zone``: the time zone of timestamps without an offset.
    """
    for name, text in values.items():
        value = None if text is None else from_text(text, kinds[name], ZoneInfo(zone))
        constant = pa.array([value], kinds[name].to_arrow()).take(pa.array(np.zeros(table.num_rows, np.int64)))
        table = table.append_column(name, constant)
    return table


def without(form: FileFormat, names: Sequence[str]) -> FileFormat:
    """A copy of the format without the named columns, for columns that are not in the files."""
    return replace(form, columns=tuple(c for c in form.columns if c[0] not in names))
