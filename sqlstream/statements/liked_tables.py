"""CREATE TABLE … LIKE: what a table takes over from another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from sqlstream.catalog import Catalog
from sqlstream.errors import BindError, Span
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import View
from sqlstream.statements.definition_texts import definition_of

WRONG_LIKE = "SS294"

T = TypeVar("T")

_FEATURES = ("CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_OVERWRITTEN = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")
_INCLUDING, _EXCLUDING, _OVERWRITING = "INCLUDING", "EXCLUDING", "OVERWRITING"


def liked(statement: nodes.CreateTable, catalog: Catalog) -> nodes.CreateTable:
    """Returns the CREATE TABLE with LIKE replaced by what it copies from the other table. BindError SS294 where both
    tables define the same.
    """
    like = statement.like
    assert like is not None
    source = _source(like, catalog)
    ways, span = _ways(like), statement.name.span
    keys = statement.primary_key, source.primary_key
    partitions = statement.partitioned_by, source.partitioned_by
    buckets = statement.distribution, source.distribution
    return replace(
        statement,
        like=None,
        columns=_columns_of_both(statement, source, ways),
        watermark=_watermark(statement, source, ways["WATERMARKS"]),
        primary_key=_of_one(*keys, ways, span, "has a PRIMARY KEY", "CONSTRAINTS"),
        partitioned_by=_of_one(*partitions, ways, span, "has partitions", "PARTITIONS"),
        distribution=_of_one(*buckets, ways, span, "is DISTRIBUTED", "DISTRIBUTION"),
        options=_options(statement, source, ways["OPTIONS"]),
        comment=statement.comment,
    )


def _source(like: nodes.LikeTable, catalog: Catalog) -> nodes.CreateTable:
    relation = catalog.required(like.source)
    if isinstance(relation, View):
        hint = "Write CREATE TABLE … AS SELECT * FROM the view, or give the columns."
        raise BindError(WRONG_LIKE, f'"{relation.name}" is a view, and LIKE takes tables', like.source.span, hint=hint)
    return definition_of(relation, catalog, catalog.path(like.source))


def _ways(like: nodes.LikeTable) -> dict[str, str]:
    """What happens to each feature; those of ALL hold where nothing else is said."""
    said: dict[str, str] = {}
    for option in like.options:
        if option.feature in said:
            raise _wrong(f"LIKE says twice what happens to {option.feature}", option.span)
        if option.action == _OVERWRITING and option.feature not in (*_OVERWRITTEN, "ALL"):
            raise _wrong(f"{option.feature} cannot be overwritten", option.span, "Write INCLUDING or EXCLUDING.")
        said[option.feature] = option.action
    default = said.get("ALL", _INCLUDING)
    ways = {feature: said.get(feature, default) for feature in _FEATURES}
    if "ALL" not in said and "OPTIONS" not in said:
        ways["OPTIONS"] = _OVERWRITING
    return ways


def _wrong(message: str, span: Span, hint: str | None = None) -> BindError:
    return BindError(WRONG_LIKE, message, span, hint=hint)


_FEATURE_OF = {nodes.ComputedColumn: "GENERATED", nodes.MetadataColumn: "METADATA"}


def _columns_of_both(
    statement: nodes.CreateTable, source: nodes.CreateTable, ways: dict[str, str]
) -> tuple[nodes.Column, ...]:
    """The columns of the source in their order, those that are overwritten in their place, then the others."""
    own = {column.name.casefold(): column for column in statement.columns}
    columns: list[nodes.Column] = []
    for column in source.columns:
        way = ways[_FEATURE_OF[type(column)]] if type(column) in _FEATURE_OF else _INCLUDING
        given = own.get(column.name.casefold())
        if way == _EXCLUDING:
            continue
        if given is not None and not (way == _OVERWRITING and type(given) is type(column)):
            message = f'column "{column.name}" is in the table of LIKE already'
            raise _wrong(message, given.span, "Leave it out, or give it another name.")
        columns.append(own.pop(column.name.casefold(), column))
    return (*columns, *own.values())


def _watermark(statement: nodes.CreateTable, source: nodes.CreateTable, way: str) -> nodes.WatermarkDef | None:
    if way == _EXCLUDING or source.watermark is None:
        return statement.watermark
    if statement.watermark is not None and way != _OVERWRITING:
        hint = "Write LIKE t (OVERWRITING WATERMARKS), or EXCLUDING WATERMARKS."
        raise _wrong("the table of LIKE has a WATERMARK, too", statement.watermark.span, hint)
    return statement.watermark or source.watermark


def _of_one(own: T, others: T, ways: dict[str, str], span: Span, what: str, feature: str) -> T:
    """What one of the two tables says. SS294 where each says something."""
    if ways[feature] == _EXCLUDING:
        return own
    if own and others:
        raise _wrong(f"the table of LIKE {what}, too", span, f"Write LIKE t (EXCLUDING {feature}).")
    return own or others


def _options(statement: nodes.CreateTable, source: nodes.CreateTable, way: str) -> tuple[nodes.Option, ...]:
    if way == _EXCLUDING:
        return statement.options
    own = {option.key: option for option in statement.options}
    twice = next((own[option.key] for option in source.options if option.key in own), None)
    if twice is not None and way != _OVERWRITING:
        hint = "Write LIKE t (OVERWRITING OPTIONS), or EXCLUDING OPTIONS."
        raise _wrong(f'option "{twice.key}" is in the table of LIKE, too', twice.span, hint)
    kept = [own.pop(option.key, option) for option in source.options]
    return tuple(_placed([*kept, *own.values()], statement.name.span))


def _placed(options: Iterable[nodes.Option], span: Span) -> Iterable[nodes.Option]:
    """Options of the other table stand in another text."""
    return (replace(option, span=span) for option in options)
