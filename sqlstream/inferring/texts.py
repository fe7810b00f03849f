"""Texts whose form is not known: objects of JSON, rows of CSV with a header or without, or any lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlstream.inferring.types import InferredColumn, columns_of_objects, columns_of_texts
from sqlstream.types import DataType

_DELIMITERS = (",", ";", "\t", "|")
_STRING = DataType("STRING")


@dataclass(frozen=True)
class Form:
    """What records are: their format, its options, and their columns."""

    format: str
    columns: Sequence[InferredColumn]
    options: Mapping[str, str]
    notes: tuple[str, ...] = ()


def form_of(records: Sequence[str], *, headers: bool = False, format: str | None = None) -> Form:  # noqa: A002
    """The form of records, at least one, of which none is blank. ``headers``: the first one may name the columns.
    ``format``: the one they are said to have.
    """
    if format in (None, "json"):
        objects = _objects(records)
        if objects is not None:
            return _of_json(objects)
    if format in (None, "csv"):
        rows = _rows(records, format == "csv")
        if rows is not None:
            return _of_csv(*rows, headers=headers)
    column = InferredColumn("line", _STRING, False, records)
    note = "What was seen is neither JSON nor CSV, so each is one text; REGEXP_EXTRACT or SPLIT take it apart."
    return Form("raw", [column], {}, (note,))


def _objects(records: Sequence[str]) -> list[dict[str, object]] | None:
    try:
        values = [json.loads(record) for record in records]
    except (json.JSONDecodeError, RecursionError):
        return None
    return values if all(isinstance(value, dict) for value in values) else None


def _of_json(objects: Sequence[dict[str, object]]) -> Form:
    bodies = [body if isinstance(body := value.get("payload"), dict) else value for value in objects]
    if all({"op", "after"} <= body.keys() or {"op", "before"} <= body.keys() for body in bodies):
        rows = [row for body in bodies for row in (body.get("before"), body.get("after")) if isinstance(row, dict)]
        within = all("schema" in value and "payload" in value for value in objects)
        options = {"debezium-json.schema-include": "true"} if within else {}
        note = "Messages are changes of a table, as Debezium writes them; a PRIMARY KEY makes them cheaper to follow."
        return Form("debezium-json", columns_of_objects(rows), options, (note,))
    return Form("json", columns_of_objects(objects), {})


def _rows(records: Sequence[str], certain: bool) -> tuple[str, list[list[str]]] | None:
    """The delimiter and the fields of each record; None where they have not as many everywhere."""
    for delimiter in _DELIMITERS:
        rows = [*csv.reader(records, delimiter=delimiter)]
        widths = {len(row) for row in rows}
        if len(widths) == 1 and widths != {1} and len(rows) == len(records):
            return delimiter, rows
    return (",", [[record] for record in records]) if certain else None


def _of_csv(delimiter: str, rows: list[list[str]], *, headers: bool) -> Form:
    options = {} if delimiter == "," else {"csv.field-delimiter": "\\t" if delimiter == "\t" else delimiter}
    has_header = headers and _is_header(rows)
    names = rows[0] if has_header else [f"c{number}" for number in range(1, len(rows[0]) + 1)]
    columns = columns_of_texts(names, rows[1:] if has_header else rows)
    if has_header:
        return Form("csv", columns, {**options, "csv.header": "true"})
    return Form("csv", columns, options, ("Fields of CSV have no names here: c1, c2 and so on are to be renamed.",))


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """True where the first row has names: texts of which none is empty or twice there, above other values."""
    names = rows[0]
    if len({name.strip().casefold() for name in names}) < len(names) or not all(name.strip() for name in names):
        return False
    kinds = [column.type for column in columns_of_texts(names, [names])]
    if any(kind != _STRING for kind in kinds):
        return False
    others = [column.type for column in columns_of_texts(names, rows[1:])]
    return len(rows) == 1 or others != kinds or all(name.isidentifier() for name in names)
