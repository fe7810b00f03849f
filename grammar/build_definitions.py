"""Trees of lark to CREATE TABLE: columns, watermark, key and options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_clauses import MatchBuilder, span_of_meta, text_of, whole, words_of
from sqlstream.grammar.failures import failure


class _Constraint(Enum):
    NOT_NULL = "NOT NULL"
    NULL = "NULL"
    KEY = "PRIMARY KEY"


@dataclass(frozen=True)
class _Words:
    """The words before TABLE."""

    temporary: bool = False
    replace: bool = False
    must_exist: bool = False


@dataclass(frozen=True)
class KeyColumn:
    """A column of CREATE TABLE with ``PRIMARY KEY`` after its type. Exists only while the statement is parsed: the
    finished ``CreateTable`` has the column and, apart from it, the key.
    """

    column: n.PhysicalColumn

    @property
    def key(self) -> n.PrimaryKey:
        return n.PrimaryKey((self.column.name,), span=self.column.span)


@v_args(meta=True, inline=True)
class CreateTableBuilder(MatchBuilder):
    """Makes syntax nodes of CREATE TABLE, with its columns, keys and options, from lark's parse tree."""

    def create_table(
        self, meta: Meta, words: _Words, exists: Any, name: n.Name, elements: Any, comment: Any, buckets: Any,
        partitions: Any, options: Any, like: n.LikeTable | None, query: Token | None,
    ) -> n.CreateTable:  # fmt: skip
        columns, watermark, key = elements or ((), None, ())
        selected = query.value if query is not None else None
        span = span_of_meta(meta)
        alone = next((c for c in columns if isinstance(c, n.NamedColumn)), None)
        if alone is not None and selected is None:
            hint = "Write its type behind it; names alone stand for columns of the query of CREATE TABLE … AS."
            raise failure(f'column "{alone.name}" has no type', alone.span, hint=hint)
        if like is not None and selected is not None:
            raise failure("LIKE and AS do not go together", like.span, hint="Leave out one of the two.")
        return n.CreateTable(
            name, columns, watermark, key, options or (), selected, bool(exists), words.temporary, comment,
            words.replace, words.must_exist, partitions or (), like, buckets, span=span,
        )  # fmt: skip

    def create_words(self, meta: Meta, replace: Any, temporary: Any) -> _Words:
        return _Words(bool(temporary), bool(replace))

    def replace_words(self, meta: Meta) -> _Words:
        return _Words(replace=True, must_exist=True)

    def distributed_by(self, meta: Meta, kind: str | None, columns: Any, buckets: Token | None) -> n.Distribution:
        number = int(buckets.value) if buckets is not None else None
        return n.Distribution(columns or (), kind, number, span=span_of_meta(meta))

    def partitioned_by(self, meta: Meta, *columns: Token) -> tuple[str, ...]:
        return tuple(text_of(c) for c in columns)

    def like_table(self, meta: Meta, source: n.Name, *options: n.LikeOption | None) -> n.LikeTable:
        return n.LikeTable(source, tuple(o for o in options if o), span=span_of_meta(meta))

    def like_option(self, meta: Meta, action: str, feature: str) -> n.LikeOption:
        return n.LikeOption(action, feature, span=span_of_meta(meta))

    def table_elements(
        self, meta: Meta, *elements: Any
    ) -> tuple[tuple[n.Column, ...], n.WatermarkDef | None, tuple[str, ...]]:
        columns = [e.column if isinstance(e, KeyColumn) else e for e in elements]
        keys = [e.key if isinstance(e, KeyColumn) else e for e in elements if isinstance(e, KeyColumn | n.PrimaryKey)]
        watermarks = [e for e in elements if isinstance(e, n.WatermarkDef)]
        if len(keys) > 1:
            raise failure("PRIMARY KEY is given twice", keys[1].span)
        if len(watermarks) > 1:
            raise failure("WATERMARK is given twice", watermarks[1].span, hint="A table has one event-time column.")
        kept = tuple(c for c in columns if isinstance(c, n.Column))
        return kept, watermarks[0] if watermarks else None, keys[0].columns if keys else ()

    def physical_column(self, meta: Meta, name: Token, type_: Token, *constraints: Any) -> Any:
        comment = next((c for c in constraints if isinstance(c, str)), None)
        nullable = not {_Constraint.NOT_NULL, _Constraint.KEY}.intersection(constraints)
        column = n.PhysicalColumn(text_of(name), type_.value, nullable, comment, span=span_of_meta(meta))
        return KeyColumn(column) if _Constraint.KEY in constraints else column

    def not_null(self, meta: Meta) -> _Constraint:
        return _Constraint.NOT_NULL

    def nullable(self, meta: Meta) -> _Constraint:
        return _Constraint.NULL

    def column_key(self, meta: Meta, constraint: Token | None) -> _Constraint:
        return _Constraint.KEY

    def named_column(self, meta: Meta, name: Token) -> n.NamedColumn:
        return n.NamedColumn(text_of(name), span=span_of_meta(meta))

    def metadata_column(
        self, meta: Meta, name: Token, type_: Token, constraint: _Constraint | None, key: Token | None, virtual: Any,
        comment: str | None,
    ) -> n.Column:  # fmt: skip
        nullable, span = constraint is not _Constraint.NOT_NULL, span_of_meta(meta)
        given = key and text_of(key)
        return n.MetadataColumn(text_of(name), type_.value, given, bool(virtual), nullable, comment, span=span)

    def virtual(self, meta: Meta) -> bool:
        return True

    def computed_column(self, meta: Meta, name: Token, expression: Token, comment: str | None) -> n.Column:
        return n.ComputedColumn(text_of(name), expression.value, comment, span=span_of_meta(meta))

    def watermark_def(self, meta: Meta, column: Token, expression: Token) -> n.WatermarkDef:
        return n.WatermarkDef(text_of(column), expression.value, span=span_of_meta(meta))

    def primary_key(self, meta: Meta, constraint: Token | None, *columns: Token) -> n.PrimaryKey:
        return n.PrimaryKey(tuple(text_of(c) for c in columns), span=span_of_meta(meta))

    def with_options(self, meta: Meta, *options: n.Option | None) -> tuple[n.Option, ...]:
        return tuple(o for o in options if o)

    def option(self, meta: Meta, key: Token, value: Token) -> n.Option:
        return n.Option(text_of(key), text_of(value), span=span_of_meta(meta))

    def comment(self, meta: Meta, text: Token) -> str:
        return text_of(text)


# --- ALTER ------------------------------------------------------------------------------------------------------


@v_args(meta=True, inline=True)
class AlterBuilder(CreateTableBuilder):
    """Makes syntax nodes of the ALTER statements from lark's parse tree."""

    def alter_table(self, meta: Meta, exists: Any, name: n.Name, change: n.TableChange) -> n.AlterTable:
        return n.AlterTable(name, change, bool(exists), span=span_of_meta(meta))

    def rename_to(self, meta: Meta, name: n.Name) -> n.RenameTo:
        return n.RenameTo(name, span=span_of_meta(meta))

    def rename_column(self, meta: Meta, column: Token, name: Token) -> n.RenameColumn:
        return n.RenameColumn(text_of(column), text_of(name), span=span_of_meta(meta))

    def set_options(self, meta: Meta, *options: n.Option) -> n.SetOptions:
        return n.SetOptions(options, span=span_of_meta(meta))

    def reset_options(self, meta: Meta, *keys: Token) -> n.ResetOptions:
        return n.ResetOptions(tuple(text_of(k) for k in keys), span=span_of_meta(meta))

    def unset_options(self, meta: Meta, exists: Any, *keys: Token) -> n.ResetOptions:
        return self.reset_options(meta, *keys)

    def add_elements(self, meta: Meta, *elements: Any) -> n.AddElements:
        return n.AddElements(_with_keys(elements), span=span_of_meta(meta))

    def modify_elements(self, meta: Meta, *elements: Any) -> n.ModifyElements:
        return n.ModifyElements(_with_keys(elements), span=span_of_meta(meta))

    def placed_element(self, meta: Meta, element: Any, position: n.PlacedElement | None) -> Any:
        if isinstance(element, n.NamedColumn):
            raise failure(f'column "{element.name}" has no type', element.span, hint="Write its type behind it.")
        column = element.column if isinstance(element, KeyColumn) else element
        if position is not None and isinstance(column, n.WatermarkDef | n.PrimaryKey):
            raise failure("FIRST and AFTER stand behind columns", span_of_meta(meta))
        first, after = (position.first, position.after) if position is not None else (False, None)
        placed = n.PlacedElement(column, first, after, span=span_of_meta(meta))
        return (placed, element.key) if isinstance(element, KeyColumn) else (placed,)

    def position_first(self, meta: Meta) -> Any:
        return _FIRST

    def position_after(self, meta: Meta, column: Token) -> Any:
        return replace(_FIRST, first=False, after=text_of(column))

    def retype_column(self, meta: Meta, column: Token, type_: Token) -> n.RetypeColumn:
        return n.RetypeColumn(text_of(column), type_.value, span=span_of_meta(meta))

    def drop_columns(self, meta: Meta, columns: Any) -> n.DropColumns:
        names = columns if isinstance(columns, tuple) else (text_of(columns),)
        return n.DropColumns(names, span=span_of_meta(meta))

    def drop_element(self, meta: Meta, kind: str, name: Token | None) -> n.DropElement:
        return n.DropElement(kind, name and text_of(name), span=span_of_meta(meta))

    def add_distribution(self, meta: Meta, distribution: n.Distribution) -> n.ChangeDistribution:
        return n.ChangeDistribution(distribution, True, span=span_of_meta(meta))

    def modify_distribution(self, meta: Meta, distribution: n.Distribution) -> n.ChangeDistribution:
        return n.ChangeDistribution(distribution, False, span=span_of_meta(meta))

    def distribution(self, meta: Meta, kind: str | None, columns: Any, buckets: Token | None) -> n.Distribution:
        return n.Distribution(
            columns, kind, whole(buckets, 1) if buckets is not None else None, span=span_of_meta(meta)
        )

    def distribution_into(self, meta: Meta, buckets: Token) -> n.Distribution:
        return n.Distribution(buckets=whole(buckets, 1), span=span_of_meta(meta))

    def element_kind(self, meta: Meta, *words: Token) -> str:
        return words_of(words)

    def add_partitions(self, meta: Meta, exists: Any, *added: n.Partition) -> n.ChangePartitions:
        return n.ChangePartitions(added, True, bool(exists), span=span_of_meta(meta))

    def added_partition(self, meta: Meta, values: Any, options: Any) -> n.Partition:
        return n.Partition(values, options or (), span=span_of_meta(meta))

    def drop_partitions(self, meta: Meta, exists: Any, *dropped: Any) -> n.ChangePartitions:
        span = span_of_meta(meta)
        return n.ChangePartitions(tuple(n.Partition(v, span=span) for v in dropped), False, bool(exists), span=span)

    def compact(self, meta: Meta) -> n.Compact:
        return n.Compact(span=span_of_meta(meta))

    def expire_snapshots(self, meta: Meta, older_than: Token | None) -> n.ExpireSnapshots:
        return n.ExpireSnapshots(older_than.value if older_than is not None else None, span=span_of_meta(meta))

    def alter_view(self, meta: Meta, exists: Any, name: n.Name, change: Any) -> n.AlterView:
        rename = change if isinstance(change, n.RenameTo) else None
        query = change.value if isinstance(change, Token) else None
        return n.AlterView(name, rename, query, bool(exists), span=span_of_meta(meta))

    def alter_database(self, meta: Meta, name: n.Name, change: n.SetOptions) -> n.AlterDatabase:
        return n.AlterDatabase(name, change, span=span_of_meta(meta))

    def alter_catalog(self, meta: Meta, name: n.Name, change: Any) -> n.AlterCatalog:
        changed = n.SetComment(change, span=span_of_meta(meta)) if isinstance(change, str) else change
        return n.AlterCatalog(name, changed, span=span_of_meta(meta))

    def truncate(self, meta: Meta, name: n.Name) -> n.Truncate:
        return n.Truncate(name, span=span_of_meta(meta))


_FIRST = n.PlacedElement(n.NamedColumn(""), first=True)
"""Carries a position to the element before it."""


def _with_keys(elements: tuple[Any, ...]) -> tuple[n.PlacedElement, ...]:
    """The elements, with the keys that stand after types as elements of their own."""
    return tuple(
        item if isinstance(item, n.PlacedElement) else n.PlacedElement(item, span=item.span)
        for group in elements
        for item in group
    )
