"""Expected and actual rows: lines of golden files and their comparison, and files of rows."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.formats.values import text_rule
from sqlstream.testing.golden_format import FAILS
from sqlstream.testing.values import KINDS, Change, columns_of, from_arrow, read, spell, to_arrow
from sqlstream.types import DataType
from sqlstream.udfs.lookup.sources.json_paths import JsonPath
from sqlstream.udfs.lookup.sources.json_values import JsonDocument, JsonNodes, Misfit, has_json

_DIGITS = {"FLOAT": 1e-6, "DOUBLE": 1e-9}
"""What sums in another order may differ by."""
_ABSOLUTE = 1e-12
_MOST_PAIRS = 10_000

Types = Mapping[str, Sequence[DataType]]
"""By table in lower case, "" for the result, the types of its columns."""


@dataclass(frozen=True)
class Line:
    """An output line in its parts: the table (before the colon), the kind of the row, and the texts of its columns."""

    table: str
    kind: str
    columns: tuple[str, ...]


def cut(line: str, types: Types) -> Line:
    """Splits a line of expected output into the name of its table, the kind of the row and the texts of its columns.
    ``types`` has the names of tables that a line may begin with, as keys.
    """
    table, rest = "", line
    name, colon, behind = line.partition(": ")
    if colon and name.casefold() in types:
        table, rest = name, behind
    kind = rest[:2] if rest[:2] in KINDS and rest[2:3] in ("", " ") else ""
    return Line(table, kind, tuple(columns_of(rest[len(kind) :])))


class Pair(NamedTuple):
    """An expected line and the actual line that is compared with it, None where one is missing; ``differs`` says
    whether they differ.
    """

    differs: bool
    expected: str | None
    actual: str | None


@dataclass(frozen=True)
class LineComparison:
    """Compares expected and actual output lines. ``types`` are the types of the columns by table; ``tolerance`` and
    ``unordered`` are as in ``StreamOptions``.
    """

    types: Types
    tolerance: float | None = None
    unordered: bool = False

    def same(self, expected: Sequence[str], actual: Sequence[str]) -> bool:
        """Whether all actual lines are as expected."""
        return not any(pair.differs for pair in self.aligned(expected, actual))

    def aligned(self, expected: Sequence[str], actual: Sequence[str]) -> list[Pair]:
        """Pairs each expected line with an actual one. Ordered lines stay in order. Unordered lines are paired with
        equal ones first, then with the most similar one that is left.
        """
        if self.unordered:
            return self._unordered(expected, actual)
        if len(expected) == len(actual) and all(map(self.alike, expected, actual)):
            return [Pair(False, *lines) for lines in zip(expected, actual, strict=True)]
        return list(self._ordered(expected, actual))

    def _ordered(self, expected: Sequence[str], actual: Sequence[str]) -> Iterator[Pair]:
        matcher = SequenceMatcher(None, expected, actual, autojunk=False)
        for _, i, end, j, other_end in matcher.get_opcodes():
            for one, other in zip_longest(expected[i:end], actual[j:other_end]):
                yield Pair(one is None or other is None or not self.alike(one, other), one, other)

    def _unordered(self, expected: Sequence[str], actual: Sequence[str]) -> list[Pair]:
        same: list[Pair] = []
        left, missing = list(actual), list[str]()
        for line in expected:
            partner = line if line in left else next((other for other in left if self.alike(line, other)), None)
            if partner is None:
                missing.append(line)
            else:
                left.remove(partner)
                same.append(Pair(False, line, partner))
        return [*same, *self._likest(missing, left)]

    def _likest(self, missing: Sequence[str], surplus: Sequence[str]) -> Iterator[Pair]:
        """Each line next to the line that has most columns in common with it, the most similar first."""
        lines, others = dict(enumerate(missing)), dict(enumerate(surplus))
        if len(missing) * len(surplus) <= _MOST_PAIRS:
            likeness = {(i, j): self._equal_columns(missing[i], surplus[j]) for i in lines for j in others}
            for i, j in sorted(likeness, key=lambda pair: -likeness[pair]):
                if i in lines and j in others and likeness[i, j]:
                    yield Pair(True, lines.pop(i), others.pop(j))
        for line, other in zip_longest(lines.values(), others.values()):
            yield Pair(True, line, other)

    def _equal_columns(self, one: str, other: str) -> int:
        return sum(a == b for a, b in zip(cut(one, self.types).columns, cut(other, self.types).columns, strict=False))

    def alike(self, expected: str, actual: str) -> bool:
        """True where the lines are equal, up to the last digits of floating-point numbers."""
        if expected == actual:
            return True
        if expected.startswith(FAILS) or actual.startswith(FAILS):
            return expected != FAILS and actual.startswith(expected)  # its beginning will do
        one, other = cut(expected, self.types), cut(actual, self.types)
        same_row = (one.table.casefold(), one.kind) == (other.table.casefold(), other.kind)
        if not same_row or len(one.columns) != len(other.columns):
            return False
        return not self.differing_columns(one, other)

    def differing_columns(self, one: Line, other: Line) -> list[int]:
        """The positions, from 0, of the columns in which two lines differ."""
        types = self.types.get(one.table.casefold(), ())
        longest = max(len(one.columns), len(other.columns))
        return [i for i in range(longest) if not self._same_column(one, other, i, types[i] if i < len(types) else None)]

    def _same_column(self, one: Line, other: Line, i: int, kind: DataType | None) -> bool:
        if i >= len(one.columns) or i >= len(other.columns):
            return False
        first, second = one.columns[i], other.columns[i]
        if first == second or kind is None:
            return first == second
        width = _float_of(kind)
        if width is None:
            return False
        try:
            values = read(first, kind), read(second, kind)
        except (KeyError, ValueError, ArithmeticError):
            return False
        return _close(*values, self.tolerance if self.tolerance is not None else _DIGITS[width])


def _float_of(kind: DataType) -> str | None:
    """FLOAT or DOUBLE where values of the type contain such numbers, FLOAT if both."""
    inner = [argument[1] if isinstance(argument, tuple) else argument for argument in kind.args]
    names = [kind.name, *(_float_of(argument) for argument in inner if isinstance(argument, DataType))]
    return next((name for name in _DIGITS if name in names), None)


def _close(one: Any, other: Any, tolerance: float) -> bool:
    match one, other:
        case float(), float():
            both_nan = math.isnan(one) and math.isnan(other)
            return both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=min(tolerance, _ABSOLUTE))
        case list(), list():
            return len(one) == len(other) and all(_close(a, b, tolerance) for a, b in zip(one, other, strict=True))
        case dict(), dict():
            return one.keys() == other.keys() and all(_close(one[key], other[key], tolerance) for key in one)
    return bool(one == other)


# --- Files of rows: CSV with a header, JSON lines, Parquet -----------------------------------------------------
# A column ``row_kind`` says which kind each row has, where the table has no such column of its own; without it all
# are +I. Values are read by the rules of the formats csv and json, with numbers that count milliseconds for timestamps;
# what is no value by these is spelled as in golden files. In CSV an empty field is NULL.


ROW_KIND_COLUMN = "row_kind"
FORMATS = (".csv", ".jsonl", ".parquet")

Columns = Sequence[tuple[str, DataType]]


def read_rows_of_file(path: Path, columns: Columns) -> list[Change]:
    """The rows of a CSV, JSON Lines or Parquet file, each with its kind (+I where the file has none). ValueError for
    other formats, or if the columns of the file are not ``columns``.
    """
    try:
        records = _records(path, dict(columns))
    except OSError as error:
        raise ValueError(f'file "{path}" cannot be read: {error.strerror or error}') from error
    return [_change(path, number, record, columns) for number, record in enumerate(records, 1)]


def _records(path: Path, types: Mapping[str, DataType]) -> list[dict[str, Any]]:
    match path.suffix:
        case ".csv":
            return _csv_records(path)
        case ".jsonl":
            return _json_records(path)
        case ".parquet":
            return _parquet_records(path, types)
    raise ValueError(f'file "{path}" is none of {", ".join(FORMATS)}')


def _text(path: Path) -> str:
    """The text of a file with its line ends as they are, which may be in a value."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f'line {line} of file "{path}" is no UTF-8') from error


def _csv_records(path: Path) -> list[dict[str, Any]]:
    lines = csv.reader(io.StringIO(_text(path), newline=""), skipinitialspace=True, strict=True)
    try:
        header, *rows = [row for row in lines if row] or [[]]
    except csv.Error as error:  # such as a quote that is never closed
        raise ValueError(f'line {lines.line_num} of file "{path}": {error}') from error
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f'row {number} of file "{path}" has {len(row)} fields, and its header {len(header)}')
    return [{name: value or None for name, value in zip(header, row, strict=True)} for row in rows]


class _InJson(NamedTuple):
    """A value of a JSON object: as Python's parser gives it, and where it is."""

    value: Any
    record: JsonNodes
    key: str

    def as_column(self, kind: DataType) -> Any:
        """The value by the rules of the format json."""
        return self.record.column(JsonPath((self.key,)), self.key, kind, "UTC")[0]


def _json_records(path: Path) -> list[Any]:
    records = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        try:
            records += [_json_record(line)] if line.strip() else []
        except json.JSONDecodeError as error:
            raise ValueError(f'line {number} of file "{path}" is no JSON: {error}') from error
    return records


def _json_record(line: str) -> Any:
    record = json.loads(line)
    if not isinstance(record, dict):
        return record
    nodes = JsonDocument(line).root()
    return {key: value if key == ROW_KIND_COLUMN else _InJson(value, nodes, key) for key, value in record.items()}


def _parquet_records(path: Path, types: Mapping[str, DataType]) -> list[dict[str, Any]]:
    table = pq.read_table(path)
    by_name = {name.casefold(): kind for name, kind in types.items()}
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = by_name.get(name.casefold())
        columns[name] = (column if kind is None else column.cast(kind.to_arrow())).to_pylist()
        if kind is not None:
            columns[name] = [from_arrow(value, kind) for value in columns[name]]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _change(path: Path, number: int, record: Any, columns: Columns) -> Change:
    if not isinstance(record, dict):
        raise ValueError(f'row {number} of file "{path}" is no object with columns')
    given = {name.casefold(): value for name, value in record.items()}
    names = [name.casefold() for name, _ in columns]
    kind = "+I" if ROW_KIND_COLUMN in names else given.pop(ROW_KIND_COLUMN, None) or "+I"
    if kind not in KINDS:
        raise ValueError(f'row {number} of file "{path}" has the kind "{kind}"; there are {", ".join(KINDS)}')
    unknown = given.keys() - set(names)
    if unknown or (missing := [name for name in names if name not in given and path.suffix != ".jsonl"]):
        wrong = f'has the column "{sorted(unknown)[0]}", which is' if unknown else f'lacks the column "{missing[0]}"'
        raise ValueError(f'file "{path}" {wrong} {"none of the table" if unknown else "of the table"}')
    try:
        return (kind, *(_value(given.get(name.casefold()), type_, path) for name, type_ in columns))
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f'row {number} of file "{path}": {error}') from error


def _value(value: Any, kind: DataType, path: Path) -> Any:
    """The value as a job would return it."""
    if isinstance(value, _InJson):
        value = _from_json(value, kind)
    elif path.suffix == ".csv" and value is not None:
        value = _from_csv(value, kind)
    else:
        value = to_arrow(value, kind)
    (canonical,) = pa.array([value], kind.to_arrow()).to_pylist()
    return from_arrow(canonical, kind)


_SPELLED_HERE = frozenset({"BINARY", "INTERVAL", "STRING", "VARIANT"})


def _from_csv(text: str, kind: DataType) -> Any:
    if kind.name not in (*_SPELLED_HERE, "ARRAY", "MAP", "STRUCT"):
        values, misfits = text_rule(kind).read(pa.array([text], pa.string()))
        if not misfits[0]:
            return values[0]
    return to_arrow(read(text, kind), kind)


def _from_json(given: _InJson, kind: DataType) -> Any:
    if has_json(kind) and not any(part.name == "BINARY" for part in kind.parts()):
        try:
            return given.as_column(kind)
        except Misfit as misfit:
            try:
                return to_arrow(given.value, kind)
            except (ArithmeticError, KeyError, TypeError, ValueError):
                raise misfit from None
    return to_arrow(given.value, kind)


def write_rows_to_file(path: Path, columns: Columns, changes: Iterable[Change], *, kinds: bool) -> None:
    """Write rows to a CSV, JSON Lines or Parquet file, as ``read_rows_of_file`` reads them. With ``kinds`` there is a
    column with the kind of each row, unless all are +I.
    """
    rows = list(changes)
    kinds = kinds and any(change[0] != "+I" for change in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".csv":
            path.write_text(_csv_text(columns, rows, kinds), encoding="utf-8")
        case ".jsonl":
            records = ({**({ROW_KIND_COLUMN: kind} if kinds else {}), **_json_of(values, columns)}
                       for kind, *values in rows)  # fmt: skip
            path.write_text("".join(f"{json.dumps(r, ensure_ascii=False)}\n" for r in records), encoding="utf-8")
        case ".parquet":
            pq.write_table(_arrow(columns, rows, kinds), path)
        case _:
            raise ValueError(f'file "{path}" is none of {", ".join(FORMATS)}')


def _csv_text(columns: Columns, rows: Sequence[Change], kinds: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*([ROW_KIND_COLUMN] if kinds else []), *(name for name, _ in columns)])
    for kind, *values in rows:
        spelled = ["" if v is None else spell(v, type_) for v, (_, type_) in zip(values, columns, strict=True)]
        writer.writerow([*([kind] if kinds else []), *spelled])
    return text.getvalue()


def _json_of(values: Sequence[Any], columns: Columns) -> dict[str, Any]:
    return {name: _json_value(v, type_) for v, (name, type_) in zip(values, columns, strict=True)}


def _json_value(value: Any, kind: DataType) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case datetime():
            return str(value)
        case date():
            return value.isoformat()
        case timedelta():
            return spell(value, kind)
        case Mapping():
            return {str(name): _json_value(v, kind) for name, v in value.items()}
        case _:
            return [_json_value(v, kind) for v in value]


def _arrow(columns: Columns, rows: Sequence[Change], kinds: bool) -> pa.Table:
    by_column = list(zip(*rows, strict=True)) or [()] * (len(columns) + 1)
    arrays = [
        pa.array([to_arrow(v, type_) for v in values], type_.to_arrow())
        for values, (_, type_) in zip(by_column[1:], columns, strict=True)
    ]
    table = pa.table(arrays, names=[name for name, _ in columns])
    return table.add_column(0, ROW_KIND_COLUMN, pa.array(by_column[0], pa.string())) if kinds else table
