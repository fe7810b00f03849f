"""``datagen``: made-up rows. Values are computed from the number of the row, so a repeated micro-batch is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlstream.connectors import on_spark
from sqlstream.connectors.connector import WRONG_COLUMN, Source, columns_of, nested_fields
from sqlstream.connectors.environment import Environment
from sqlstream.connectors.formats import quoted
from sqlstream.errors import Diagnostic, Span, shortened
from sqlstream.options import DURATION, MISSING_OPTION, RATIO, WRONG_VALUE, Option, OptionKind, integer, one_of
from sqlstream.planner.catalog import Column, Table
from sqlstream.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# --- values ---------------------------------------------------------------------------------------------------

# Values are expressions of Spark SQL: functions of the row number ``id``, and of the time at which a row is DUE. Random
# ones are hashes of the row number, so a row that is made again after a failure is the same.

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_FLOATS = {"FLOAT": Decimal("3.4028234e38"), "DOUBLE": Decimal("1.7976931348623157e308")}
NUMBERS = frozenset({*_INTEGERS, *_FLOATS, "DECIMAL"})
SEQUENCES = NUMBERS | {"STRING"}
GENERATED = NUMBERS | {"BOOLEAN", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
COLLECTIONS = frozenset({"ARRAY", "MAP"})
NESTED = COLLECTIONS | {"STRUCT"}

DUE = "due"
"""BIGINT column of the row numbers: when a row is due, at the rate of the table, in microseconds since 1970."""

Hash = Callable[[int], str]

Given = Callable[[str], Mapping[str, Any]]
"""The options of a column or nested field, by its path: ``buyer``, ``buyer.name``, ``tags.element``."""


def is_integer(type_: DataType) -> bool:
    """True where the type holds only whole numbers."""
    return type_.name in _INTEGERS


def limits(type_: DataType) -> tuple[Decimal, Decimal]:
    """Returns the smallest and the largest number of a numeric type."""
    if type_.name in _INTEGERS:
        half = 2 ** (_INTEGERS[type_.name] - 1)
        return Decimal(-half), Decimal(half - 1)
    if type_.name in _FLOATS:
        return -_FLOATS[type_.name], _FLOATS[type_.name]
    precision, scale = (int(str(a)) for a in type_.args)
    digits = (9,) * precision
    return Decimal((1, digits, -scale)), Decimal((0, digits, -scale))  # a minus sign would round to 28 digits


def expression(type_: DataType, path: str, given_of: Given, seed: int, salt: str) -> str:
    """Returns Spark SQL that computes the random or sequential values of a column or nested field from the row number
    ``id``.

    ``path``: the name of the column or field. ``given_of``: returns the options of a path. ``salt``: arguments for the
    hash function that are unique for each path, so that columns are independent.
    """
    given = given_of(path)
    if given.get("kind") == "sequence":
        return f"CAST(id + ({given['start']}L) AS {type_.ddl()})"

    def hashed(index: int) -> str:
        return f"xxhash64(id, {seed}L, {salt}, {index})"

    def within(place: int, more: str = "") -> str:
        name, kind = nested_fields(path, type_)[place]
        return expression(kind, name, given_of, seed, f"{salt}, -2{more}, {place}")

    made = _nested(type_, given.get("length", 3), salt, within) if type_.name in NESTED else None
    value = f"CAST({made or _random(type_, given, hashed)} AS {type_.ddl()})"
    rate = given.get("null-rate", 0)
    return f"IF({_fraction(hashed(-1))} < {rate}, NULL, {value})" if rate else value


def _nested(type_: DataType, length: int, salt: str, within: Callable[..., str]) -> str:
    if type_.name == "STRUCT":
        return f"struct({', '.join(within(place) for place in range(len(type_.args)))})"
    number = f"i{salt.count(',')}"  # a name of its own, as collections may be in collections
    numbers = f"sequence(1, {length})"
    if type_.name == "ARRAY":
        return f"transform({numbers}, {number} -> {within(0, f', {number}')})"
    keys, values = (f"transform({numbers}, {number} -> {within(place, f', {number}')})" for place in (0, 1))
    return f"map_from_arrays(array_distinct({keys}), slice({values}, 1, size(array_distinct({keys}))))"


def _random(type_: DataType, given: Mapping[str, Any], hashed: Hash) -> str:
    match type_.name:
        case "BOOLEAN":
            return f"({hashed(0)} & 1) = 1"
        case "STRING":
            return _text(given.get("length", 100), hashed)
        case "BINARY":
            return f"unhex({_text(2 * given.get('length', 100), hashed)})"
        case "DATE":
            return "current_date()"
        case "TIMESTAMP" | "TIMESTAMP_NTZ":
            past = f"CAST({1000 * given.get('max-past', 0)} * {_fraction(hashed(0))} AS BIGINT)"
            return f"timestamp_micros({DUE} - {past})"
    low, high = limits(type_)
    low, high = given.get("min", low), given.get("max", high)
    return _integer(int(low), int(high), hashed) if is_integer(type_) else _real(type_, low, high, hashed)


def _fraction(number: str) -> str:
    """A DOUBLE in [0, 1) out of the upper 53 bits of a hash."""
    return f"(shiftrightunsigned({number}, 11) / 9007199254740992D)"


def _integer(low: int, high: int, hashed: Hash) -> str:
    span = high - low + 1
    if span < 2**63:
        return f"pmod({hashed(0)}, {span}L) + ({low}L)"
    if span == 2**64:
        return hashed(0)
    return f"pmod(CAST({hashed(0)} AS DECIMAL(20, 0)), CAST('{span}' AS DECIMAL(20, 0))) + ({low})"


def _real(type_: DataType, low: Decimal, high: Decimal, hashed: Hash) -> str:
    # Weighted, not low + share * (high - low): the difference of the largest DOUBLEs has no value.
    share = _fraction(hashed(0))
    value = f"({float(low)!r}D * (1D - {share}) + {float(high)!r}D * {share})"
    if type_.name != "DECIMAL":
        return value
    low_text, high_text = (f"CAST('{bound:f}' AS {type_.ddl()})" for bound in (low, high))
    # Rounding to the scale may leave the range, and even the type.
    return f"coalesce(least(greatest(try_cast({value} AS {type_.ddl()}), {low_text}), {high_text}), {high_text})"


def _text(length: int, hashed: Hash) -> str:
    """``length`` hexadecimal digits, 16 from each hash."""
    chunks = (f"lpad(lower(hex({hashed(i)})), 16, '0')" for i in range(-(-length // 16)))
    return f"left(concat({', '.join(chunks)}), {length})"


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
    """Returns a dictionary of the options ``fields.<path>.…`` of a column or nested field. Its keys are the last words
    of the options' keys (``min``, ``length``).
    """
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
    """Generates rows: the values are computed from row numbers, which a Python data source counts."""

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

    def out_of_order_ms(self, table: Table, column: str) -> int | None:
        """Returns how far before the time at which its row is due a time may lie, as rows are due in order."""
        is_generated = any(c.name == column and c.type.name == "TIMESTAMP" for c in table.physical_columns)
        return int(field_options(table, column).get("max-past") or 0) if is_generated else None

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
        """How many rows are generated: ``number-of-rows``, or the length of the shortest sequence if that is less.
        None: unlimited.
        """
        fields = (field_options(table, c.name) for c in _with_inner(table.physical_columns))
        lengths = [int(f["end"] - f["start"]) + 1 for f in fields if f.get("kind") == "sequence"]
        stated = self.values(table)["number-of-rows"]
        return min([*lengths, *([] if stated is None else [stated])], default=None)
