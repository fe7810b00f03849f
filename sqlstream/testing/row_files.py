"""Rows of tests in files: CSV with a header, JSON lines, Parquet; columns are found by their names.

A column ``row_kind`` says which kind each row has, where the table has no such column of its own; without it all are
+I. In CSV values are spelled as in golden files, an empty field is NULL.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream.testing.changelog import KINDS, Change
from sqlstream.testing.spelling import read, spell
from sqlstream.testing.values import from_arrow, to_arrow
from sqlstream.types import DataType

if TYPE_CHECKING:
    import pyarrow as pa

ROW_KIND_COLUMN = "row_kind"
FORMATS = (".csv", ".jsonl", ".parquet")

Columns = Sequence[tuple[str, DataType]]


def read_rows_of_file(path: Path, columns: Columns) -> list[Change]:
    """The rows of a file with their kinds; ValueError where it is none of these, or does not have these columns."""
    try:
        records = _records(path, dict(columns))
    except OSError as error:
        raise ValueError(f'file "{path}" cannot be read: {error.strerror or error}') from error
    return [_change(path, number, record, columns) for number, record in enumerate(records, 1)]


def _records(path: Path, types: Mapping[str, DataType]) -> list[dict[str, Any]]:
    match path.suffix:
        case ".csv":
            text = path.read_text(encoding="utf-8")
            rows = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
            return [{str(name): value or None for name, value in row.items()} for row in rows]
        case ".jsonl":
            lines = path.read_text(encoding="utf-8").splitlines()
            return [json.loads(line) for line in lines if line.strip()]
        case ".parquet":
            return _parquet_records(path, types)
    raise ValueError(f'file "{path}" is none of {", ".join(FORMATS)}')


def _parquet_records(path: Path, types: Mapping[str, DataType]) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

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
    """The value as it would come out of a job."""
    import pyarrow as pa

    if path.suffix == ".csv" and value is not None:
        value = read(value, kind)
    (canonical,) = pa.array([to_arrow(value, kind)], kind.to_arrow()).to_pylist()
    return from_arrow(canonical, kind)


def write_rows_to_file(path: Path, columns: Columns, changes: Iterable[Change], *, kinds: bool) -> None:
    """Write the rows as ``read_rows_of_file`` reads them, with their kinds where one is not +I."""
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
            import pyarrow.parquet as pq

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
    import pyarrow as pa

    by_column = list(zip(*rows, strict=True)) or [()] * (len(columns) + 1)
    arrays = [
        pa.array([to_arrow(v, type_) for v in values], type_.to_arrow())
        for values, (_, type_) in zip(by_column[1:], columns, strict=True)
    ]
    table = pa.table(arrays, names=[name for name, _ in columns])
    return table.add_column(0, ROW_KIND_COLUMN, pa.array(by_column[0], pa.string())) if kinds else table
