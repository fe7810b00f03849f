"""The tables that Ibis's tests expect: ``functional_alltypes`` as Impala has it, the others made of numbers."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet


def write_tables(folder: Path, schemas: dict[str, Any]) -> None:
    """Writes each table as ``parquet/<name>.parquet`` and ``csv/<name>.csv``."""
    for form in ("parquet", "csv"):
        (folder / form).mkdir(parents=True)
    for name, schema in schemas.items():
        columns = all_types() if name == "functional_alltypes" else numbered(schema)
        table = pa.table(columns, schema=schema.to_pyarrow())
        pyarrow.parquet.write_table(table, folder / "parquet" / f"{name}.parquet")
        pyarrow.csv.write_csv(table, folder / "csv" / f"{name}.csv")


def all_types() -> dict[str, list[Any]]:
    """7,300 rows, ten for each day of two years, in the order of Ibis's file: the last two months come first."""
    months = [(2010, 11), (2010, 12), *((2010, m) for m in range(1, 11)), *((2009, m) for m in range(1, 13))]
    rows: list[tuple[Any, ...]] = []
    for year, month in months:
        first = datetime(year, month, 1)
        days = ((first + timedelta(days=32)).replace(day=1) - first).days
        for day in range(days):
            date = first + timedelta(days=day)
            id_of_day = (date - datetime(2009, 1, 1)).days * 10
            for i in range(10):
                time = date + timedelta(minutes=day * 10 + i, milliseconds=450 * day + 10 * (i * (i - 1) // 2))
                rows.append((
                    id_of_day + i, (id_of_day + i) % 2 == 0, i, i, i, i * 10, i * 1.1, i * 10.1, f"{date:%m/%d/%y}",
                    str(i), time, year, month,
                ))  # fmt: skip
    names = ("id", "bool_col", "tinyint_col", "smallint_col", "int_col", "bigint_col", "float_col", "double_col",
             "date_string_col", "string_col", "timestamp_col", "year", "month")  # fmt: skip
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def numbered(schema: Any, rows: int = 100) -> dict[str, list[Any]]:
    """Rows of any schema of numbers and texts."""
    return {
        name: [f"{name} {i % 7}" if dtype.is_string() else i * 0.5 if dtype.is_floating() else i for i in range(rows)]
        for name, dtype in schema.items()
    }
