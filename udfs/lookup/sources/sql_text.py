"""The SELECT that answers a batch of keys, and where databases differ in it, as data.

The keys are a relation ``k`` with their numbers, from 1, and the answers carry the number of their key::

    WITH k (n, k1) AS (…) SELECT k.n, t."name" FROM k JOIN "customers" AS t ON t."id" = k.k1 WHERE t."age" > …
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from math import isfinite

from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Comparison, Key, Request, Row
from sqlstream.udfs.texts import is_text


@dataclass(frozen=True)
class StoredColumn:
    """A column of the lookup table and its counterpart in the database: the name there, and the type there in lower
    case without lengths; "" for no type.
    """

    declared: DataType
    name: str
    type: str = ""


Templates = Mapping[tuple[str, str], str]
"""SQL by declared and stored type; the stored type "" is the default."""


@dataclass(frozen=True)
class Dialect:
    """The SQL dialect of a database for lookups: SQL templates and conversions of values.

    ``arrays``: keys are sent as one array per key column, so that one statement serves any number of them; else as a
    list of VALUES. ``sent``: for each declared type the SQL type to which a parameter is cast, "" for no cast; columns
    of other types cannot be keys. ``read``: templates that convert the column ``{c}`` to its declared type. ``equal``:
    templates that compare the column ``{c}`` with a key ``{k}``; the default is ``=``, which can use an index; ``{v}``
    is the column as ``read`` converts it. ``binary``: the SQL after a text that must be ordered by its bytes.
    ``encode`` converts a value to a parameter, and raises ValueError for a value that no row can equal; ``decode``
    converts a value that was read to the form that Arrow takes.
    """

    placeholder: str
    arrays: bool
    sent: Mapping[str, str]
    read: Templates = field(default_factory=dict)
    equal: Templates = field(default_factory=dict)
    binary: str = ""
    encode: Callable[[object, DataType, str], object] = lambda value, _, __: value
    decode: Mapping[str, Callable[[object, DataType], object]] = field(default_factory=dict)

    def parameter(self, type_: DataType) -> str:
        """The SQL of a statement's parameter for a value of a declared type: a placeholder, such as ``CAST(%s AS
        bigint)``.
        """
        kind = self.sent[type_.name].format(*type_.args)
        return f"CAST({self.placeholder} AS {kind})" if kind else self.placeholder

    def quoted(self, name: str) -> str:
        """The name as a quoted identifier."""
        text = '"' + name.replace('"', '""') + '"'
        return text.replace("%", "%%") if self.placeholder.startswith("%") else text


@dataclass(frozen=True)
class Question:
    """The SQL statement that answers a request. ``table``: the parts of the table's name. ``stored``: for each column
    that the request names its counterpart in the database.
    """

    dialect: Dialect
    table: tuple[str, ...]
    request: Request
    stored: Mapping[str, StoredColumn]

    def text(self, keys: int) -> str:
        """The text of the statement for ``keys`` keys; without key columns it selects all rows.

        If the dialect sends keys as arrays, the text is the same for all numbers of keys greater than one.
        """
        if not self.request.keys:
            return self._whole
        return f"WITH {self._keys(keys)} {self._select}"

    def parameters(self, keys: Sequence[Key]) -> list[object]:
        """The values of the statement's placeholders for these keys, in order. ``keys`` are results of ``encoded``."""
        if not self.request.keys:
            return list(self._filter_values)
        if self.dialect.arrays and len(keys) == 1:
            return [*keys[0], *self._filter_values]
        if self.dialect.arrays:
            return [*(list(column) for column in zip(*keys, strict=True)), *self._filter_values]
        return [*(value for number, key in enumerate(keys, 1) for value in (number, *key)), *self._filter_values]

    def encoded(self, key: Key) -> Key | None:
        """Converts the values of a key to parameters of the statement. Returns None for a key that no row can equal."""
        try:
            pairs = zip(key, self.request.keys, strict=True)
            return tuple(self.dialect.encode(v, type_, self.stored[name].type) for v, (name, type_) in pairs)
        except ValueError:
            return None

    def rows(self, answer: Iterable[Sequence[object]], keys: int) -> list[list[Row]]:
        """Groups the result rows by key: returns one list of rows for each of ``keys`` keys. The first column of a row
        in ``answer`` is the index of its key.
        """
        answers: list[list[Row]] = [[] for _ in range(keys)]
        decoders = self._decoders
        if not any(decoder for decoder, _ in decoders):
            for number, *values in answer:
                assert isinstance(number, int)
                answers[number - 1].append(tuple(values))
            return answers
        for number, *values in answer:
            assert isinstance(number, int)
            row = (v if d is None or v is None else d(v, t) for v, (d, t) in zip(values, decoders, strict=True))
            answers[number - 1].append(tuple(row))
        return answers

    @cached_property
    def _decoders(self) -> list[tuple[Callable[[object, DataType], object] | None, DataType]]:
        return [(self.dialect.decode.get(type_.name), type_) for _, type_ in self.request.columns]

    # --- the statement ----------------------------------------------------------------------------------------

    def _keys(self, count: int) -> str:
        names = ", ".join(f"k{i}" for i, _ in enumerate(self.request.keys, 1))
        if self.dialect.arrays and count == 1:  # one key is sent faster than an array of one
            values = ", ".join(
                f"CAST({self.dialect.placeholder} AS {self.dialect.sent[t.name]})" for _, t in self.request.keys
            )
            return f"k ({names}, n) AS (SELECT {values}, 1)"
        if self.dialect.arrays:
            kinds = (self.dialect.sent[type_.name] for _, type_ in self.request.keys)
            arrays = ", ".join(f"CAST({self.dialect.placeholder} AS {kind}[])" for kind in kinds)
            return f"k ({names}, n) AS (SELECT * FROM unnest({arrays}) WITH ORDINALITY)"
        values = ", ".join(self.dialect.parameter(type_) for _, type_ in self.request.keys)
        return f"k (n, {names}) AS (VALUES {', '.join([f'({self.dialect.placeholder}, {values})'] * count)})"

    @cached_property
    def _whole(self) -> str:
        """All rows are the answer to the first key."""
        columns = ", ".join(["1", *(self._value(name, type_) for name, type_ in self.request.columns)])
        table = ".".join(map(self.dialect.quoted, self.table))
        filters = " AND ".join(self._filter(c) for c in self.request.filters)
        return f"SELECT {columns} FROM {table} AS t" + (f" WHERE {filters}" if filters else "")

    @cached_property
    def _select(self) -> str:
        columns = ", ".join(["k.n", *(self._value(name, type_) for name, type_ in self.request.columns)])
        table = ".".join(map(self.dialect.quoted, self.table))
        equal = " AND ".join(
            self._equal(name, type_, f"k.k{i}") for i, (name, type_) in enumerate(self.request.keys, 1)
        )
        filters = " AND ".join(self._filter(c) for c in self.request.filters)
        return f"SELECT {columns} FROM k JOIN {table} AS t ON {equal}" + (f" WHERE {filters}" if filters else "")

    def _column(self, name: str) -> str:
        return f"t.{self.dialect.quoted(self.stored[name].name)}"

    def _value(self, name: str, type_: DataType) -> str:
        template = _template(self.dialect.read, type_, self.stored[name].type) or "{c}"
        return template.format(c=self._column(name))

    def _equal(self, name: str, type_: DataType, key: str) -> str:
        template = _template(self.dialect.equal, type_, self.stored[name].type) or "{c} = {k}"
        return template.format(c=self._column(name), v=self._value(name, type_), k=key)

    def _filter(self, comparison: Comparison) -> str:
        type_ = self.stored[comparison.column].declared
        value = self._value(comparison.column, type_)
        if comparison.operator in ("IS NULL", "IS NOT NULL"):
            return f"{value} {comparison.operator}"
        if comparison.operator == "IN":
            listed = ", ".join([self.dialect.parameter(type_)] * len(_values(comparison)))
            return f"{value} IN ({listed})" if listed else "1 = 0"
        ordered = type_.name == "STRING" and comparison.operator not in ("=", "<>")
        return f"{value}{self.dialect.binary * ordered} {comparison.operator} {self.dialect.parameter(type_)}"

    @cached_property
    def _filter_values(self) -> list[object]:
        encode, stored = self.dialect.encode, self.stored
        return [encode(v, stored[c.column].declared, "") for c in self.request.filters for v in _values(c)]


def _template(templates: Templates, type_: DataType, stored: str) -> str | None:
    declared = type_.ddl() if type_.name == "ARRAY" else type_.name
    return templates.get((declared, stored)) or templates.get((declared, ""))


def _values(comparison: Comparison) -> tuple[object, ...]:
    if comparison.operator in ("IS NULL", "IS NOT NULL"):
        return ()
    return tuple(comparison.value) if isinstance(comparison.value, tuple) else (comparison.value,)


# --- what a database may check ----------------------------------------------------------------------------------

_LITERALS: Mapping[str, tuple[type, ...]] = {
    "BOOLEAN": (bool,),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), (int,)),
    "DECIMAL": (int, Decimal),
    "DOUBLE": (float,),
    "STRING": (str,),
    "DATE": (date,),
}
_LARGEST = 2**63


def comparable(type_: DataType, comparison: Comparison) -> bool:
    """True if the database evaluates the comparison of a column of this type exactly as Spark does.

    Times are compared in Spark, because only Spark knows the time zone of a literal.
    """
    if comparison.operator in ("IS NULL", "IS NOT NULL"):
        return True
    return all(_literal(value, type_) for value in _values(comparison))


def _literal(value: object, type_: DataType) -> bool:
    if type(value) not in _LITERALS.get(type_.name, ()):  # a bool is an int, and a datetime a date
        return False
    if type_.name == "DECIMAL" and isinstance(value, int | Decimal):
        return _fits(Decimal(value), *type_.args)
    if isinstance(value, str):
        return "\0" not in value and is_text(value)
    if isinstance(value, int):
        return -_LARGEST <= value < _LARGEST
    return not isinstance(value, float) or isfinite(value)


def _fits(value: Decimal, precision: object, scale: object) -> bool:
    """False where a parameter of the column's type would be rounded or out of range."""
    assert isinstance(precision, int) and isinstance(scale, int)
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and -exponent <= scale and abs(value) < Decimal(10) ** (precision - scale)
