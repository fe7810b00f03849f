"""ALTER of tables, views, functions, databases and catalogs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream.grammar.nodes.definitions import (
    Distribution,
    PartitionValue,
    TableElement,
    module_text,
    option_list,
    partition_text,
    temporary_words,
    with_options,
)
from sqlstream.grammar.nodes.node import (
    Name,
    Node,
    Option,
    Sql,
    flag,
    joined,
    name_list,
    string_clause,
)
from sqlstream.grammar.quoting import quote_name, quote_string


@dataclass(frozen=True)
class RenameTo(Node):
    """The change ``RENAME TO name`` of ALTER TABLE and ALTER VIEW."""

    name: Name

    def text(self, sql: Sql) -> str:
        return f"RENAME TO {self.name.text(sql)}"


@dataclass(frozen=True)
class RenameColumn(Node):
    """The change ``RENAME column TO name`` of ALTER TABLE."""

    column: str
    name: str

    def text(self, sql: Sql) -> str:
        return f"RENAME {quote_name(self.column)} TO {quote_name(self.name)}"


@dataclass(frozen=True)
class SetOptions(Node):
    """The change ``SET ('key' = 'value', …)`` of the options of a table, database or catalog."""

    options: tuple[Option, ...]

    def text(self, sql: Sql) -> str:
        return f"SET ({option_list(self.options, sql)})"


@dataclass(frozen=True)
class ResetOptions(Node):
    """The change ``RESET ('key', …)`` of the options of a table or catalog, which removes them."""

    keys: tuple[str, ...]

    def text(self, sql: Sql) -> str:
        return f"RESET ({', '.join(map(quote_string, self.keys))})"


@dataclass(frozen=True)
class SetComment(Node):
    """``COMMENT 'text'`` of ALTER CATALOG."""

    comment: str

    def text(self, sql: Sql) -> str:
        return joined(string_clause("COMMENT", self.comment))


@dataclass(frozen=True)
class PlacedElement(Node):
    """A column, watermark or key in ALTER TABLE … ADD or MODIFY, with its position: FIRST, AFTER a column, or none
    given.
    """

    element: TableElement
    first: bool = False
    after: str | None = None

    def text(self, sql: Sql) -> str:
        after = f"AFTER {quote_name(self.after)}" if self.after is not None else None
        return joined(self.element.text(sql), flag("FIRST", self.first), after)


@dataclass(frozen=True)
class AddElements(Node):
    """The change ``ADD element`` or ``ADD (element, …)`` of ALTER TABLE. Elements are columns, watermarks and keys."""

    elements: tuple[PlacedElement, ...]

    def text(self, sql: Sql) -> str:
        return f"ADD ({', '.join(e.text(sql) for e in self.elements)})"


@dataclass(frozen=True)
class ModifyElements(Node):
    """The change ``MODIFY element`` or ``MODIFY (element, …)`` of ALTER TABLE. Elements are columns, watermarks and
    keys.
    """

    elements: tuple[PlacedElement, ...]

    def text(self, sql: Sql) -> str:
        return f"MODIFY ({', '.join(e.text(sql) for e in self.elements)})"


@dataclass(frozen=True)
class RetypeColumn(Node):
    """The change ``ALTER COLUMN column TYPE type`` of ALTER TABLE."""

    column: str
    type: exp.DataType

    def text(self, sql: Sql) -> str:
        return f"ALTER COLUMN {quote_name(self.column)} TYPE {sql(self.type)}"


@dataclass(frozen=True)
class DropColumns(Node):
    """The change ``DROP column`` or ``DROP (column, …)`` of ALTER TABLE."""

    columns: tuple[str, ...]

    def text(self, sql: Sql) -> str:
        return joined("DROP", name_list(self.columns))


@dataclass(frozen=True)
class DropElement(Node):
    """The change ``DROP PRIMARY KEY|WATERMARK|DISTRIBUTION|CONSTRAINT [name]`` of ALTER TABLE."""

    kind: str
    name: str | None = None

    def text(self, sql: Sql) -> str:
        return joined("DROP", self.kind, quote_name(self.name) if self.name is not None else None)


@dataclass(frozen=True)
class ChangeDistribution(Node):
    """The change ``ADD|MODIFY DISTRIBUTION [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]`` of ALTER TABLE."""

    distribution: Distribution
    adds: bool

    def text(self, sql: Sql) -> str:
        return joined("ADD" if self.adds else "MODIFY", self.distribution.text_after("DISTRIBUTION"))


@dataclass(frozen=True)
class Partition(Node):
    """``PARTITION (p = value, …) [WITH ('k' = 'v', …)]`` in ALTER TABLE. Options of a partition are not supported: they
    are parsed so that the error can have a hint.
    """

    values: tuple[PartitionValue, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class ChangePartitions(Node):
    """The change ``ADD [IF NOT EXISTS] PARTITION (…) …`` or ``DROP [IF EXISTS] PARTITION (…), …`` of ALTER TABLE.
    ``adds``: it is ADD; ``if_needed``: IF [NOT] EXISTS is given.
    """

    partitions: tuple[Partition, ...]
    adds: bool
    if_needed: bool = False

    def text(self, sql: Sql) -> str:
        texts = [joined(partition_text(p.values, sql), with_options(p.options, sql)) for p in self.partitions]
        if self.adds:
            return joined("ADD", flag("IF NOT EXISTS", self.if_needed), *texts)
        return joined("DROP", flag("IF EXISTS", self.if_needed), ", ".join(texts))


@dataclass(frozen=True)
class Compact(Node):
    """The change ``COMPACT`` of ALTER TABLE: small files are put together."""

    def text(self, sql: Sql) -> str:
        return "COMPACT"


@dataclass(frozen=True)
class ExpireSnapshots(Node):
    """The change ``EXPIRE SNAPSHOTS [OLDER THAN interval|time]`` of ALTER TABLE."""

    older_than: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        return joined("EXPIRE SNAPSHOTS", f"OLDER THAN {sql(self.older_than)}" if self.older_than is not None else None)


TableChange = (
    RenameTo | RenameColumn | SetOptions | ResetOptions | AddElements | ModifyElements | RetypeColumn | DropColumns
    | DropElement | ChangePartitions | ChangeDistribution | Compact | ExpireSnapshots
)  # fmt: skip


@dataclass(frozen=True)
class AlterTable(Node):
    """``ALTER TABLE [IF EXISTS] name change``."""

    name: Name
    change: TableChange
    if_exists: bool = False

    def text(self, sql: Sql) -> str:
        exists = flag("IF EXISTS", self.if_exists)
        return joined("ALTER TABLE", exists, self.name.text(sql), self.change.text(sql))


@dataclass(frozen=True)
class AlterView(Node):
    """``ALTER VIEW [IF EXISTS] name RENAME TO name`` or ``ALTER VIEW … AS query``. Either the new name or ``query`` is
    given, the other is None.
    """

    name: Name
    rename: RenameTo | None = None
    query: exp.Expression | None = None
    if_exists: bool = False

    def text(self, sql: Sql) -> str:
        change = self.rename.text(sql) if self.rename is not None else None
        query = f"AS {sql(self.query)}" if self.query is not None else None
        return joined("ALTER VIEW", flag("IF EXISTS", self.if_exists), self.name.text(sql), change, query)

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        if self.query is None:
            return self.text(sql)
        return f"{replace(self, query=None).text(sql)} AS\n{pretty_sql(self.query)}"


@dataclass(frozen=True)
class AlterMaterializedView(Node):
    """``ALTER MATERIALIZED VIEW|MATERIALIZED TABLE|STREAMING TABLE name SUSPEND|RESUME|REFRESH``, or with ``AS query``
    in place of the last word. Either ``action`` or ``query`` is given, the other is None.
    """

    kind: str
    name: Name
    action: str | None = None
    query: exp.Expression | None = None

    def text(self, sql: Sql) -> str:
        query = f"AS {sql(self.query)}" if self.query is not None else None
        return joined("ALTER", self.kind, self.name.text(sql), self.action, query)

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        if self.query is None:
            return self.text(sql)
        return f"{replace(self, query=None).text(sql)} AS\n{pretty_sql(self.query)}"


@dataclass(frozen=True)
class AlterFunction(Node):
    """``ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'package.module:name' [LANGUAGE PYTHON]``."""

    name: Name
    target: str
    language: str = "PYTHON"
    if_exists: bool = False
    temporary: bool = False
    system: bool = False
    jars: tuple[str, ...] = ()

    def text(self, sql: Sql) -> str:
        words = joined(temporary_words(self.temporary, self.system), "FUNCTION", flag("IF EXISTS", self.if_exists))
        return joined("ALTER", words, self.name.text(sql), module_text(self.target, self.language, self.jars))


@dataclass(frozen=True)
class AlterDatabase(Node):
    """``ALTER DATABASE name SET (…)``."""

    name: Name
    change: SetOptions

    def text(self, sql: Sql) -> str:
        return joined("ALTER DATABASE", self.name.text(sql), self.change.text(sql))


@dataclass(frozen=True)
class AlterCatalog(Node):
    """``ALTER CATALOG name SET (…) | RESET (…) | COMMENT 'text'``."""

    name: Name
    change: SetOptions | ResetOptions | SetComment

    def text(self, sql: Sql) -> str:
        return joined("ALTER CATALOG", self.name.text(sql), self.change.text(sql))
