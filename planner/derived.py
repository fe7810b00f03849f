"""Queries of WITH, queries in parentheses and calls in FROM of a text that is being typed, whose columns are asked for.

Only words are looked at, because the text around them may not be complete: what is, is parsed and bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query
from sqlstream.grammar.quoting import quote_name
from sqlstream.grammar.script import Piece
from sqlstream.planner.binder import bind_query
from sqlstream.planner.catalog import Catalog
from sqlstream.types import DataType

QUERY_STARTS = ("SELECT", "WITH", "VALUES")
AFTER_RELATIONS = frozenset({
    "WHERE", "GROUP", "HAVING", "QUALIFY", "ORDER", "LIMIT", "EMIT", "TRIGGER", "EVICT", "LATE", "UNION", "INTERSECT",
    "EXCEPT", "WINDOW",
})  # fmt: skip
NO_ALIAS = AFTER_RELATIONS | {
    "ON", "USING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF",
    "FOR", "LOOKUP", "ALIGN", "AS", "LATERAL", "FROM", "SELECT", "TABLESAMPLE", "PIVOT", "UNPIVOT",
}  # fmt: skip


@dataclass(frozen=True)
class Derived:
    """``ctes``: the text of each query of WITH that ends before or behind the cursor, by name, with the names of its
    columns. ``items``: what stands in FROM of the query around the cursor, by alias, as a text. ``tables``: those that
    calls in FROM name."""

    ctes: Mapping[str, str]
    items: Mapping[str, str]
    tables: tuple[str, ...]

    def columns(self, alias: str, source: str, catalog: Catalog) -> list[tuple[str, DataType]]:
        """The columns of what FROM calls ``alias``; ``source`` is the name that stands there. None of what is wrong."""
        item = self.items.get(alias, quote_name(source) if source in self.ctes else None)
        if item is None:
            return []
        defined = ", ".join(self.ctes.values())
        with suppress(SqlStreamError):
            output = bind_query(parse_query(f"{f'WITH {defined} ' if defined else ''}SELECT * FROM {item}"), catalog)
            return list(zip(output.names, (field.type for field in output.schema), strict=False))
        return []


def derived_around(text: str, words: Sequence[Piece], at: int) -> Derived:
    """What the query that holds word number ``at`` can read beside tables and views."""
    texts = [word.text for word in words]
    items, tables = dict[str, str](), list[str]()
    for first, last in _items(texts, query_begin(texts, at)):
        if first <= at <= last:  # the cursor is in it
            inside = range(first, min(last, len(texts) - 1))
            tables += [_unquoted(texts[i + 1]) for i in inside if texts[i].upper() == "TABLE"]
        elif last == len(texts):  # it is not complete
            continue
        elif texts[first] != "(" or texts[first + 1].upper() in QUERY_STARTS:
            alias = _alias(texts, last + 1)
            slice_ = text[words[first].start : words[last].end]
            items[alias or texts[first]] = f"{slice_} AS {quote_name(alias)}" if alias else slice_
    return Derived(dict(_ctes(text, words, texts, at)), items, tuple(tables))


def query_begin(texts: Sequence[str], at: int) -> int:
    """The first word of the innermost query around word ``at``."""
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(texts[i], 0)
        if depth < 0 and i + 1 < len(texts) and texts[i + 1].upper() in QUERY_STARTS:
            return i + 1
        depth = max(depth, 0)
    return 0


def _items(texts: Sequence[str], begin: int) -> Iterator[tuple[int, int]]:
    """The first and the last word of each call and each parenthesis in FROM of the query that begins there."""
    i, in_from = begin, False
    while i < len(texts):
        word = texts[i].upper()
        if word in ("FROM", "JOIN") or (word == "," and in_from):
            in_from = True
            first = i + 2 if texts[i + 1 : i + 2] and texts[i + 1].upper() == "LATERAL" else i + 1
            opening = first + 1 if texts[first + 1 : first + 2] == ["("] else first
            if texts[opening : opening + 1] == ["("]:
                last = _closing(texts, opening)
                yield first, last
                i = last
        elif word in AFTER_RELATIONS:
            in_from = False
        elif word == "(":
            i = _closing(texts, i)
        elif word == ")":
            return
        i += 1


def _closing(texts: Sequence[str], opening: int) -> int:
    """The parenthesis that closes this one; behind the last word where none does."""
    depth = 0
    for i in range(opening, len(texts)):
        depth += {"(": 1, ")": -1}.get(texts[i], 0)
        if not depth:
            return i
    return len(texts)


def _alias(texts: Sequence[str], behind: int) -> str | None:
    """The alias of an item, which is told from a clause by AS where it may be one."""
    rest = texts[behind : behind + 2]
    if rest and rest[0].upper() == "AS":
        return _unquoted(rest[1]) if len(rest) > 1 else None
    plain = rest and (rest[0][0].isalpha() or rest[0][0] in "_`") and rest[0].upper() not in NO_ALIAS
    return _unquoted(rest[0]) if plain else None


def _ctes(text: str, words: Sequence[Piece], texts: Sequence[str], at: int) -> Iterator[tuple[str, str]]:
    """``name [(columns)] AS (query)``, by name; those that hold the cursor or are not complete are left out."""
    for i in range(1, len(texts) - 2):
        if texts[i].upper() != "AS" or texts[i + 1] != "(" or texts[i + 2].upper() not in QUERY_STARTS:
            continue
        first = i - 1
        while texts[i - 1] == ")" and first > 0 and texts[first] != "(":
            first -= 1
        first -= texts[i - 1] == ")"
        last = _closing(texts, i + 1)
        if last < len(texts) and not i < at <= last and first >= 0:
            yield _unquoted(texts[first]), text[words[first].start : words[last].end]


def _unquoted(text: str) -> str:
    return text.strip("`\"'")
