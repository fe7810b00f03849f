"""Trees of lark to ALTER: changes of tables, views, databases and catalogs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_clauses import span_of_meta, text_of, whole, words_of
from sqlstream.grammar.build_create_table import KeyColumn
from sqlstream.grammar.build_match import MatchBuilder
from sqlstream.grammar.failures import failure


@v_args(meta=True, inline=True)
class AlterBuilder(MatchBuilder):
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
    """The elements, with the keys that stand behind types as elements of their own."""
    return tuple(
        item if isinstance(item, n.PlacedElement) else n.PlacedElement(item, span=item.span)
        for group in elements
        for item in group
    )
