"""``datagen``: made-up rows. Values are computed from the number of the row, so a repeated micro-batch is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, Environment, Source, columns_of, nested_fields
from sqlstream.connectors.datagen_values import (
    COLLECTIONS,
    DUE,
    GENERATED,
    NESTED,
    NUMBERS,
    SEQUENCES,
    expression,
    is_integer,
    limits,
)
from sqlstream.connectors.formats import quoted
from sqlstream.errors import Diagnostic, Span, shortened
from sqlstream.options import DURATION, MISSING_OPTION, RATIO, WRONG_VALUE, Option, OptionKind, integer, one_of
from sqlstream.planner.catalog import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not number.is_finite():
        raise ValueError(text)
    return number


NUMBER = OptionKind("number", "a number", _decimal)


def field_options(table: Table, path: str) -> dict[str, Any]:
    """The options ``fields.<path>.…`` of a column or nested field: their last words with their values."""
    prefix = f"fields.{path}."
    given = ((key.removeprefix(prefix), v) for key, v in DataGen().values(table).items() if key.startswith(prefix))
    return {word: value for word, value in given if "." not in word}


def _with_inner(columns: Iterable[Column]) -> Iterable[Column]:
    """The columns and their nested fields, each as a column whose name is its path."""
    for column in columns:
        yield column
        yield from _with_inner(Column(path, kind) for path, kind in nested_fields(column.name, column.type))


# --- checks ---------------------------------------------------------------------------------------------------


def _check_field(table: Table, column: Column, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    given = field_options(table, column.name)
    sequence = given.get("kind") == "sequence"
    if sequence and (column.type.name not in SEQUENCES or _in_collection(table, column)):
        key = f"fields.{column.name}.kind"
        message = f'column "{column.name}" of type {column.type.ddl()} cannot be a sequence'
        yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f"Sequences are {', '.join(sorted(SEQUENCES))}.")
        return
    allowed = _allowed(table, column, sequence)
    for word in given:
        if word not in allowed:
            yield _no_effect(column, word, allowed, spans)
    if sequence:
        yield from (_missing(column, word, spans) for word in ("start", "end") if word not in given)
    yield from _check_order(column, given, spans)


def _in_collection(table: Table, column: Column) -> bool:
    around = (c for c in _with_inner(table.physical_columns) if c.type.name in COLLECTIONS)
    return any(column.name.startswith(f"{c.name}.") for c in around)


def _is_map_key(table: Table, column: Column) -> bool:
    maps = (c for c in _with_inner(table.physical_columns) if c.type.name == "MAP")
    return any(column.name == f"{c.name}.key" for c in maps)


def _allowed(table: Table, column: Column, sequence: bool) -> set[str]:
    if sequence:
        return {"kind", "start", "end"}
    type_name = column.type.name
    if type_name in NESTED:
        return {"kind", "null-rate"} | ({"length"} if type_name in COLLECTIONS else set())
    extra = {"STRING": {"length"}, "BINARY": {"length"}, "TIMESTAMP": {"max-past"}, "TIMESTAMP_NTZ": {"max-past"}}
    own = {"min", "max"} if type_name in NUMBERS else extra.get(type_name, set())
    return {"kind", *own} | (set() if _is_map_key(table, column) else {"null-rate"})


def _no_effect(column: Column, word: str, allowed: set[str], spans: Mapping[str, Span]) -> Diagnostic:
    key = f"fields.{column.name}.{word}"
    message = f'option "{key}" has no effect on column "{column.name}" of type {column.type.ddl()}'
    return Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f"It takes {', '.join(sorted(allowed))}.")


def _missing(column: Column, word: str, spans: Mapping[str, Span]) -> Diagnostic:
    message = f'the sequence of column "{column.name}" requires the option "fields.{column.name}.{word}"'
    hint = f"Add 'fields.{column.name}.{word}' = '…' to WITH."
    return Diagnostic(MISSING_OPTION, message, spans.get(f"fields.{column.name}.kind"), hint=hint)


def _check_order(column: Column, given: Mapping[str, Any], spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
    for low, high in (("min", "max"), ("start", "end")):
        if low in given and high in given and given[low] > given[high]:
            key = f"fields.{column.name}.{high}"
            message = f'option "{key}" is smaller than "fields.{column.name}.{low}"'
            yield Diagnostic(WRONG_VALUE, message, spans.get(key), hint="Exchange the two.")
    if column.type.name in NUMBERS:
        yield from (
            _out_of_range(column, w, given[w], spans) for w in ("min", "max") if not _fits(column, given.get(w))
        )


def _fits(column: Column, value: Decimal | None) -> bool:
    if value is None:
        return True
    low, high = limits(column.type)
    return low <= value <= high and not (is_integer(column.type) and value != int(value))


def _out_of_range(column: Column, word: str, value: Decimal, spans: Mapping[str, Span]) -> Diagnostic:
    key = f"fields.{column.name}.{word}"
    low, high = limits(column.type)
    message = f'value "{shortened(str(value))}" of option "{key}" is not a {column.type.ddl()}'
    return Diagnostic(WRONG_VALUE, message, spans.get(key), hint=f"Accepted: a number from {low} to {high}.")


# --- source ---------------------------------------------------------------------------------------------------


def _finished_numbers(environment: Environment, table: Table) -> DataFrame:
    """The numbers of all rows. The first row is due when the query begins."""
    rate = DataGen().values(table)["rows-per-second"]
    numbers = environment.spark.range(DataGen().row_count(table) or 0)
    due = f"unix_micros(current_timestamp()) + id DIV {rate} * 1000000 + id % {rate} * 1000000 DIV {rate}"
    return numbers.selectExpr("id", f"{due} AS {DUE}")


def _numbers(environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
    """The numbers of the rows that are due, and DUE where values depend on it."""
    options = {"rate": DataGen().values(table)["rows-per-second"]}
    count = DataGen().row_count(table)
    if count is not None:
        options["rows"] = count
    if any(c.type.is_timestamp for c in _with_inner(columns_of(table, columns))):
        options[DUE] = "true"
    return on_spark.datagen.row_numbers(environment.spark, options)


class DataGen(Source):
    """Computes the rows from numbers that a source in Python counts."""

    name = "datagen"
    doc = "Made-up rows, random or in sequence; the same ones on every run with the same seed."
    options = (
        Option("rows-per-second", integer(1), "How many rows a second brings.", "10000"),
        Option("number-of-rows", integer(1), "How many rows in all; without it, and without a sequence, no end."),
        Option("seed", integer(), "Another number gives other random values.", "0"),
        Option("fields.#.kind", one_of("random", "sequence"), "How the values of column # are made; random."),
        Option("fields.#.min", NUMBER, "Smallest random number; that of the type."),
        Option("fields.#.max", NUMBER, "Largest random number; that of the type."),
        Option("fields.#.length", integer(1, 100_000), "Length of random texts and binaries, 100; of collections, 3."),
        Option("fields.#.start", integer(-(2**63)), "First number of a sequence."),
        Option("fields.#.end", integer(-(2**63)), "Last number of a sequence, at which the table ends."),
        Option("fields.#.null-rate", RATIO, "Share of NULLs among the values; 0."),
        Option(
            "fields.#.max-past",
            DURATION,
            "Random timestamps lie at most so far before the time at which a row is due; 0.",
        ),
    )

    def read(self, environment: Environment, table: Table, columns: tuple[str, ...]) -> DataFrame:
        values = self.values(table)
        numbers = (
            _finished_numbers(environment, table) if environment.finished else _numbers(environment, table, columns)
        )
        given = partial(field_options, table)
        position = {c.name: i for i, c in enumerate(table.columns)}
        return numbers.selectExpr(
            *(
                f"{expression(c.type, c.name, given, values['seed'], str(position[c.name]))} AS {quoted(c.name)}"
                for c in columns_of(table, columns)
            )
        )

    def check(self, table: Table, spans: Mapping[str, Span]) -> Iterable[Diagnostic]:
        for column in _with_inner(table.physical_columns):
            if column.type.name not in GENERATED | NESTED:
                message = (
                    f'connector "datagen" cannot make values of type {column.type.ddl()} for column "{column.name}"'
                )
                yield Diagnostic(WRONG_COLUMN, message, hint=f"It makes {', '.join(sorted(GENERATED | NESTED))}.")
            else:
                yield from _check_field(table, column, spans)

    def bounded(self, table: Table) -> bool:
        return self.row_count(table) is not None

    def row_count(self, table: Table) -> int | None:
        """``number-of-rows``, or the length of the shortest sequence if that is less; None: no end."""
        fields = (field_options(table, c.name) for c in _with_inner(table.physical_columns))
        lengths = [int(f["end"] - f["start"]) + 1 for f in fields if f.get("kind") == "sequence"]
        stated = self.values(table)["number-of-rows"]
        return min([*lengths, *([] if stated is None else [stated])], default=None)
