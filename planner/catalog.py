"""Tables, views and functions for the planner: frozen definitions, and the protocol of the catalog that serves them.

The mutable catalog lives in ``sqlstream.catalog``; the planner only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol, TypeVar

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.nodes import Option
from sqlstream.types import BIGINT, DataType
from sqlstream.udfs.signature import Function as Function
from sqlstream.udfs.signature import FunctionKind as FunctionKind

T = TypeVar("T")


class RowKind(Enum):
    """The kind of a row in a changelog: +I, -U, +U or -D, as Flink prints it."""

    INSERT = "+I"
    UPDATE_BEFORE = "-U"
    UPDATE_AFTER = "+U"
    DELETE = "-D"


APPEND_ONLY = frozenset({RowKind.INSERT})
ALL_KINDS = frozenset(RowKind)
UPSERT = ALL_KINDS - {RowKind.UPDATE_BEFORE}
"""What changes rows that are known by a key."""


class TimeDomain(Enum):
    """The clock to which a time attribute belongs: event, ingestion or processing time."""

    EVENT = "event time"
    PROCESSING = "processing time"
    INGESTION = "ingestion time"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``expression`` is set for computed columns and ``metadata_key`` for metadata columns; a physical column has
    neither. ``time`` is set for PROCTIME() and INGESTION_TIME() columns and for the column of the WATERMARK.
    ``virtual``: a metadata column that is never written.
    ``declared`` is the type with the length that it was declared with, as in ``VARCHAR(10)``, where it has one, and
    ``precision`` the p of ``TIMESTAMP(p)``.
    """

    name: str
    type: DataType
    nullable: bool = True
    expression: exp.Expression | None = None
    metadata_key: str | None = None
    time: TimeDomain | None = None
    comment: str | None = None
    declared: str | None = None
    virtual: bool = False
    precision: int | None = field(default=None, compare=False)

    @property
    def physical(self) -> bool:
        return self.expression is None and self.metadata_key is None


class MetadataColumns(Enum):
    """Two groups of virtual metadata columns: those that have the name of their metadata key, and those renamed with
    FROM. The values are the words of the option that excludes a group from ``*``.
    """

    DEFAULT = "EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS"
    ALIASED = "EXCLUDE_ALIASED_VIRTUAL_METADATA_COLUMNS"

    def has(self, column: Column) -> bool:
        if column.metadata_key is None or not column.virtual:
            return False
        return (column.metadata_key == column.name) is (self is MetadataColumns.DEFAULT)


@dataclass(frozen=True)
class Watermark:
    """``WATERMARK FOR column AS column - delay``: the watermark is ``max(column) - delay_ms``, exactly.

    With any other ``expression`` over the table's columns, the watermark is the greatest value of that expression, and
    ``delay_ms`` is 0.
    """

    column: str
    delay_ms: int
    expression: exp.Expression | None = None


@dataclass(frozen=True)
class Table:
    """A declared table. ``options`` are those of WITH, in the order written, without ``connector``.

    ``streamed``: its rows are read as a stream, not looked up by key. ``distributed``: it declares how rows are
    distributed to buckets. ``materialized``: it stores the rows of a materialized view, and only the view's job writes
    to it.
    """

    name: str
    columns: tuple[Column, ...]
    connector: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    watermark: Watermark | None = None
    primary_key: tuple[str, ...] = ()
    changelog: frozenset[RowKind] = APPEND_ONLY
    bounded: bool = False
    streamed: bool = False
    comment: str | None = None
    declared: str | None = None
    distributed: bool = False
    materialized: bool = False

    @property
    def physical_columns(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if c.physical)

    @property
    def target(self) -> Table:
        """The table as INSERT sees it: the METADATA columns that its connector writes are columns as any other, and
        options (``OF_METADATA``) tell their keys.
        """
        by_spark = (self.option("kafka.client") or "").strip().lower() == "spark"
        keys = frozenset() if by_spark else WRITTEN_METADATA.get(self.connector, frozenset())
        written = {c.name: c.metadata_key for c in self.columns if c.metadata_key in keys and not c.virtual}
        if not written:
            return self
        columns = tuple(replace(c, metadata_key=None) if c.name in written else c for c in self.columns)
        return replace(self, columns=columns, options=(*self.options, *_options_of_metadata(written)))

    @property
    def written_metadata(self) -> dict[str, str]:
        """For a ``target``: the keys of the METADATA columns that INSERT writes, by the names of the columns."""
        return {k.removeprefix(OF_METADATA): key for k, key in self.options if k.startswith(OF_METADATA)}

    def option(self, key: str) -> str | None:
        return dict(self.options).get(key)


TIME_AS_OF, VERSION_AS_OF = "timestamp-as-of", "version-as-of"
"""The options of tables that can be read as they were, which ``AS OF`` with a constant means."""

OF_METADATA = "sink.metadata."
"""The prefix of options of a ``target``, which no statement may write: a column's name and its metadata key."""

WRITTEN_METADATA: Mapping[str, frozenset[str]] = dict.fromkeys(
    ("kafka", "upsert-kafka"), frozenset({"headers", "timestamp"})
)
"""By connector, the keys of METADATA columns that INSERT writes where they are not VIRTUAL, as in Flink."""


def _options_of_metadata(written: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    return ((f"{OF_METADATA}{name}", str(key)) for name, key in written.items())


ONE_ROW = Table(
    "one row",
    (Column("row", BIGINT, nullable=False),),
    "datagen",
    (("number-of-rows", "1"), ("fields.row.kind", "sequence"), ("fields.row.start", "1"), ("fields.row.end", "1")),
    bounded=True,
)
"""The source of a query without FROM."""


@dataclass(frozen=True)
class View:
    """A named query. ``columns`` renames its output columns, if given. The spans of its syntax point into ``text``, the
    script that created it.

    Names in it are resolved in the catalog and database of ``namespace``; None means the current ones.
    """

    name: str
    query: exp.Expression
    columns: tuple[str, ...] = ()
    text: str = ""
    namespace: tuple[str, str] | None = None


class Catalog(Protocol):
    """What the binder needs from a catalog: tables, views and functions by name. Names are compared without regard to
    case.
    """

    def relation(self, name: str) -> Table | View | None: ...

    def function(self, name: str) -> Function | None: ...

    def relation_names(self) -> list[str]: ...

    def function_names(self) -> list[str]: ...

    def within(self, namespace: tuple[str, str] | None) -> Catalog:
        """The catalog in which the names of a view are resolved: the same one with ``namespace`` as current catalog and
        database.
        """
        ...

    def cached_for_view(self, view: View, settings: Hashable, answer: Callable[[Catalog], T]) -> T:
        """Returns ``answer(catalog)``, where the catalog is the one in which the view's names are resolved. The result
        is cached per view and ``settings``, until an object that it looked up changes.
        """
        ...

    def with_options(self, table: Table, options: tuple[Option, ...], span: Span) -> Table: ...
