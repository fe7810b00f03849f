"""``'parquet.missing-columns'`` and the like: what a column is that a file lacks."""

from __future__ import annotations

from sqlstream.planner.catalog import Table

FORMATS = ("json", "orc", "parquet")
"""Formats of files that name the columns of each row or file, and may lack some."""


def missing_are_null(table: Table) -> bool:
    """True where the table says that columns which its files lack are NULL, and no mistake."""
    stated = table.option(f"{(table.option('format') or '').strip().lower()}.missing-columns") or ""
    return stated.strip().lower() == "null"
