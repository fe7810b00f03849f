"""Completion: the keywords that the grammar takes at a position of a text, and the names in scope there.

The text need not be complete. What only the product knows, such as the options of connectors, is in a ``Vocabulary``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, takewhile
from typing import Protocol

from sqlstream.errors import SqlStreamError
from sqlstream.functions.catalogue import kinds_to_show
from sqlstream.grammar import expected_after, parse_query
from sqlstream.grammar.quoting import quote_name
from sqlstream.grammar.script import Piece, pieces
from sqlstream.planner.binder import bind_query
from sqlstream.planner.catalog import Catalog, Table, View
from sqlstream.types import DataType

# --- the columns of WITH, subqueries and calls in FROM of an incomplete text ----------------------------------
# Only words are looked at, because the text around them may not be complete; a query that is complete is parsed and
# bound.


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
    """The texts of the subqueries, in WITH and FROM around the cursor, whose columns completion may suggest.

    ``ctes`` maps the name of each query of WITH to its whole text (``q (a, b) AS (SELECT …)``). ``items`` maps an alias
    in FROM to the text of the subquery or call that has it. ``tables`` are the names of the tables that calls in FROM
    read.
    """

    ctes: Mapping[str, str]
    items: Mapping[str, str]
    tables: tuple[str, ...]

    def columns(self, alias: str, source: str, catalog: Catalog) -> list[tuple[str, DataType]]:
        """Binds a source of FROM to find its columns, and returns them as pairs of name and type. The source is the one
        with the alias ``alias``, or else the query of WITH named ``source``. Empty if it is neither, or has mistakes.
        """
        item = self.items.get(alias, quote_name(source) if source in self.ctes else None)
        if item is None:
            return []
        defined = ", ".join(self.ctes.values())
        with suppress(SqlStreamError):
            output = bind_query(parse_query(f"{f'WITH {defined} ' if defined else ''}SELECT * FROM {item}"), catalog)
            return list(zip(output.names, (field.type for field in output.schema), strict=False))
        return []


def derived_around(text: str, words: Sequence[Piece], at: int) -> Derived:
    """Returns the queries of WITH and FROM that the query around the cursor may name. ``words`` are those of ``text``,
    ``at`` is the index of the word at the cursor.
    """
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
    """The index of the first word of the innermost query that contains the word with the index ``at``."""
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
    """The parenthesis that closes this one; the position after the last word if there is none."""
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


class SuggestionKind(Enum):
    """What a suggestion is: a keyword, a table, a column and so on."""

    COLUMN = "column"
    TABLE = "table"
    FUNCTION = "function"
    TYPE = "type"
    OPTION = "option"
    SETTING = "setting"
    VALUE = "value"
    KEYWORD = "keyword"


@dataclass(frozen=True)
class Suggestion:
    """One suggestion: ``text`` replaces the characters from ``start`` to the cursor. ``detail`` is shown beside it: a
    type, a kind, a default.
    """

    text: str
    kind: SuggestionKind
    start: int
    detail: str = ""


@dataclass(frozen=True)
class Known:
    """An option or setting that completion may suggest. ``values`` are the words that it accepts, empty if it accepts
    other values.
    """

    values: tuple[str, ...] = ()
    detail: str = ""


_MANY = 1_000
"""Of more tables and views it is not shown which are views: their definitions would have to be read."""

Candidate = tuple[str, SuggestionKind, str]
"""Text, kind and detail of what may be suggested."""


class Vocabulary(Protocol):
    """The names from which suggestions are made."""

    @property
    def catalog(self) -> Catalog:
        """The catalog whose names are suggested."""
        ...

    def settings(self) -> Mapping[str, Known]:
        """The keys of SET."""
        ...

    def connectors(self) -> Sequence[str]:
        """The names of the connectors."""
        ...

    def options(self, connector: str) -> Mapping[str, Known]:
        """The keys of WITH of a table with the connector; empty where there is no such connector."""
        ...


_FEW = 100
"""Of more tables and views their columns are not suggested before FROM names some: all definitions would be read."""
_WITH_FROM = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "OVERLAY"})
"""Functions with FROM among their arguments."""

_TYPES = (
    "BIGINT", "BINARY", "BOOLEAN", "DATE", "DECIMAL(38, 18)", "DOUBLE", "FLOAT", "INT", "SMALLINT", "STRING",
    "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "TINYINT", "VARIANT", "ARRAY<", "MAP<", "ROW<",
)  # fmt: skip
_IN_EXPRESSIONS = ("CASE", "CAST(", "DISTINCT", "EXISTS (", "INTERVAL", "NOT", "NULL", "TRUE", "FALSE")
_OF_RELATIONS = frozenset({"FROM", "JOIN", "INTO", "TABLE", "VIEW", "DESCRIBE", "DESC"})


def complete(text: str, at: int, vocabulary: Vocabulary) -> list[Suggestion]:
    """Returns suggestions for the cursor at position ``at`` in ``text``, the most likely first. Empty inside comments
    and finished words.
    """
    before = _statement(pieces(text[:at]))
    last = before[-1] if before else Piece("", at)
    if last.is_open and last.is_blank:
        return []
    if last.is_open and last.text[0] in "'\"":
        return _fitting(_in_string(before, vocabulary), last.text[1:], last.start + 1)
    typed = before.pop() if last.text and (last.is_word or last.text[0] == "`") else Piece("", at)
    behind = takewhile(lambda piece: piece.text != ";", pieces(text, at))
    whole = [piece for piece in [*before, *behind] if not piece.is_blank]
    words = [piece for piece in before if not piece.is_blank]
    scope = Scope.around(text, whole, len(words), vocabulary.catalog)
    if len(words) > 1 and words[-1].text == ".":
        candidates: Iterable[Candidate] = scope.columns_of(_unquoted(words[-2].text))
    else:
        candidates = _at_word(text, words, typed.start, scope, vocabulary)
    return _fitting(candidates, typed.text.lstrip("`"), typed.start)


def _fitting(candidates: Iterable[Candidate], typed: str, start: int) -> list[Suggestion]:
    """Those that begin with what is typed, then those of which a later word does; each once."""
    seen: dict[str, Suggestion] = {}
    for text, kind, detail in candidates:
        word = text.lower() if kind in _SPELLED_FREELY and typed.islower() else text
        seen.setdefault(word.casefold(), Suggestion(word, kind, start, detail))
    typed = typed.casefold()
    begins = {key: s for key, s in seen.items() if key.lstrip("`").startswith(typed)}
    inside = [s for key, s in seen.items() if typed and key not in begins and _has_word(key, typed)]
    return [s for s in [*begins.values(), *inside] if s.text.casefold() != typed]


_SPELLED_FREELY = frozenset({SuggestionKind.KEYWORD, SuggestionKind.FUNCTION, SuggestionKind.TYPE})


def _has_word(key: str, typed: str) -> bool:
    return any(not one.isalnum() and key.startswith(typed, i + 1) for i, one in enumerate(key))


def _statement(script: Iterable[Piece]) -> list[Piece]:
    """The pieces after the last semicolon."""
    statement: list[Piece] = []
    for piece in script:
        if piece.text == ";":
            statement.clear()
        else:
            statement.append(piece)
    return statement


def _unquoted(text: str) -> str:
    return text.strip("`\"'")


# --- texts in quotes ------------------------------------------------------------------------------------------


def _in_string(before: Sequence[Piece], vocabulary: Vocabulary) -> Iterator[Candidate]:
    words = [piece.text for piece in before[:-1] if not piece.is_blank]
    if not words:
        return
    is_value = words[-1] == "="
    if words[0].upper() in ("SET", "RESET"):
        yield from _of_key(vocabulary.settings(), words, SuggestionKind.SETTING)
    elif any(a.upper() in ("WITH", "OPTIONS") and b == "(" for a, b in pairwise(words)):
        pairs = {_unquoted(words[i - 1]): _unquoted(words[i + 1]) for i in _equal_signs(words)}
        if is_value and _unquoted(words[-2]) == "connector":
            yield from ((name, SuggestionKind.VALUE, "connector") for name in vocabulary.connectors())
        elif not is_value and "connector" not in pairs:
            yield "connector", SuggestionKind.OPTION, "what reads and writes the table"
        else:
            keys = vocabulary.options(pairs.get("connector", ""))
            yield from _of_key({k: v for k, v in keys.items() if is_value or k not in pairs}, words)


def _equal_signs(words: Sequence[str]) -> Iterator[int]:
    return (i for i in range(1, len(words) - 1) if words[i] == "=")


def _of_key(
    keys: Mapping[str, Known], words: Sequence[str], kind: SuggestionKind = SuggestionKind.OPTION
) -> Iterator[Candidate]:
    """The keys, or after ``=`` the values of the key before it."""
    if words[-1] != "=":
        yield from ((key, kind, described.detail) for key, described in keys.items())
    elif described := keys.get(_unquoted(words[-2])):
        yield from ((value, SuggestionKind.VALUE, "") for value in described.values)


# --- words ----------------------------------------------------------------------------------------------------


def _at_word(
    text: str, words: Sequence[Piece], start: int, scope: Scope, vocabulary: Vocabulary
) -> Iterator[Candidate]:
    opened = _innermost(words)
    expected = expected_after(text[words[0].start if words else start : start])
    if not expected and opened:  # inside parentheses, whose grammar is known when they are closed
        inner = words[opened:]
        is_query = bool(inner) and inner[0].text.upper() in QUERY_STARTS
        expected = expected_after(text[inner[0].start : start]) if is_query else ["an expression"]
    last = words[-1].text.upper() if words else ""
    if "a table name" in expected or ("a name" in expected and last in _OF_RELATIONS):
        yield from scope.relations()
    if "an expression" in expected or last in ("BY", ",", "("):
        yield from scope.columns()
        yield from _functions(vocabulary.catalog)
        yield from scope.columns_of_all()
        yield from ((word, SuggestionKind.KEYWORD, "") for word in _IN_EXPRESSIONS)
    if "a type" in expected:
        yield from ((name, SuggestionKind.TYPE, "") for name in _TYPES)
    if "a query" in expected:
        yield from ((word, SuggestionKind.KEYWORD, "") for word in QUERY_STARTS)
    yield from ((word, SuggestionKind.KEYWORD, "") for word in expected if word.isupper() and word[0].isalpha())


def _innermost(words: Sequence[Piece]) -> int:
    """Where the text in the innermost parenthesis that is open begins; 0 where none is."""
    opened = [0]
    for i, word in enumerate(words):
        if word.text == "(":
            opened.append(i + 1)
        elif word.text == ")" and len(opened) > 1:
            opened.pop()
    return opened[-1]


def _functions(catalog: Catalog) -> Iterator[Candidate]:
    for name in catalog.function_names():
        yield f"{name}(", SuggestionKind.FUNCTION, "function of yours"
    for name, kind in sorted(kinds_to_show().items()):
        yield f"{name.upper()}(", SuggestionKind.FUNCTION, kind


# --- what is in scope -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """The sources of the query around the cursor. ``sources``: tables and views by alias. ``ctes``: names of WITH.
    ``derived``: other queries in FROM. ``lacks_from``: the query is a SELECT of which no FROM has been typed yet.
    """

    sources: Mapping[str, str]
    ctes: tuple[str, ...]
    catalog: Catalog
    derived: Derived
    lacks_from: bool = False

    @classmethod
    def around(cls, text: str, words: Sequence[Piece], at: int, catalog: Catalog) -> Scope:
        """Returns the scope of the query that contains the word with the index ``at``, including what follows the
        cursor. ``words`` are those of ``text``.
        """
        texts = [word.text for word in words]
        ctes = tuple(_unquoted(a) for a, b, c in zip(texts, texts[1:], texts[2:], strict=False)
                     if b.upper() == "AS" and c == "(")  # fmt: skip
        derived = derived_around(text, words, at)
        sources = {alias: name for name, alias in _sources(_query_around(texts, at))}
        named = dict.fromkeys(derived.items, "") | {name: name for name in derived.tables} | sources
        return cls(named, ctes, catalog, derived, _lacks_from(texts, at))

    def relations(self) -> Iterator[Candidate]:
        """The tables and views that a query may name."""
        yield from ((quote_name(name), SuggestionKind.TABLE, "WITH") for name in self.ctes)
        names = self.catalog.relation_names()
        for name in names:
            is_view = len(names) <= _MANY and isinstance(self.catalog.relation(name), View)
            yield quote_name(name), SuggestionKind.TABLE, "view" if is_view else "table" if len(names) <= _MANY else ""

    def columns_of(self, alias: str) -> Iterator[Candidate]:
        """The columns of a table, view or query of WITH."""
        for name in self.sources:
            if name.casefold() == alias.casefold():
                yield from self._columns_of(name, self.sources[name])
        if self.lacks_from:  # the name of a table that FROM will have
            yield from self._columns_of(alias, alias)

    def columns_of_all(self) -> Iterator[Candidate]:
        """The columns of all queries of WITH, tables and views, where no FROM says yet which of them are meant; with
        the type of each and its relation.
        """
        if not self.lacks_from:
            return
        names = self.catalog.relation_names()
        for name in [*self.ctes, *(names if len(names) <= _FEW else ())]:
            for text, kind, type_ in self._columns_of(name, name):
                yield text, kind, f"{type_}, {name}"

    def _columns_of(self, alias: str, source: str) -> Iterator[Candidate]:
        """Queries of WITH hide tables of their names."""
        columns = self.derived.columns(alias, source, self.catalog)
        named = ((quote_name(name), SuggestionKind.COLUMN, str(kind)) for name, kind in columns)
        return named if columns else _columns(source, self.catalog)

    def columns(self) -> Iterator[Candidate]:
        """The names of the columns that an expression in the query may use."""
        by_alias = {alias: [*self._columns_of(alias, source)] for alias, source in self.sources.items()}
        for columns in by_alias.values():
            yield from columns
        yield from (
            (quote_name(alias), SuggestionKind.TABLE, "alias") for alias, columns in by_alias.items() if columns
        )


def _query_around(texts: Sequence[str], at: int) -> list[str]:
    """The words of the innermost query around word ``at``, without those of queries in it."""
    begin = query_begin(texts, at)
    query: list[str] = []
    depth, hidden = 0, 0  # how many parentheses are open, and from which on words belong to another query
    for i, text in enumerate(texts[begin:], begin):
        if text == "(":
            depth += 1
            is_query = texts[i + 1 : i + 2] and texts[i + 1].upper() in QUERY_STARTS
            hidden = hidden or (depth if is_query else 0)
        elif text == ")":
            depth -= 1
            hidden = 0 if depth < hidden else hidden
            if depth < 0:
                break
        elif not hidden:
            query.append(text)
    return query


def _lacks_from(texts: Sequence[str], at: int) -> bool:
    """Whether the innermost query around word ``at`` has SELECT before that word and no FROM, apart from that of
    ``EXTRACT(… FROM …)`` and ``IS DISTINCT FROM``.
    """
    begin = query_begin(texts, at)
    opened: list[str] = []  # for each open parenthesis the word before it; SELECT for that of another query
    selects = False
    for i in range(begin, len(texts)):
        word, before = texts[i].upper(), texts[i - 1].upper() if i else ""
        if word == "(":
            is_query = texts[i + 1 : i + 2] and texts[i + 1].upper() in QUERY_STARTS
            opened.append("SELECT" if is_query else before)
        elif word == ")" and not opened:
            break
        elif word == ")":
            opened.pop()
        elif word == "SELECT" and not opened:
            selects = selects or i < at
        elif word == "FROM" and before != "DISTINCT" and not {"SELECT", *_WITH_FROM} & {*opened}:
            return False
    return selects


def _sources(query: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each table of FROM with its alias."""
    in_from, expects = False, False
    for i, text in enumerate(query):
        word = text.upper()
        if word in ("FROM", "JOIN"):
            in_from = expects = True
        elif word in AFTER_RELATIONS:
            in_from = False
        elif text == "," and in_from:
            expects = True
        elif expects and (text[0].isalnum() or text[0] in "_`") and word not in NO_ALIAS:
            expects = False
            name = [text]
            while query[i + 1 : i + 2] == ["."] and i + 2 < len(query):
                name.append(query[i + 2])
                i += 2
            rest = [t for t in query[i + 1 : i + 3] if t.upper() != "AS"]
            has_alias = bool(rest) and (rest[0][0].isalpha() or rest[0][0] in "_`") and rest[0].upper() not in NO_ALIAS
            yield ".".join(map(_unquoted, name)), _unquoted(rest[0]) if has_alias else _unquoted(name[-1])


def _columns(relation: str, catalog: Catalog) -> Iterator[Candidate]:
    """None of what is no table or view, or of a view that reads what has changed since."""
    columns: Iterable[tuple[str, DataType]] = ()
    match catalog.relation(relation):
        case Table() as table:
            columns = ((column.name, column.type) for column in table.columns)
        case View() as view:
            with suppress(SqlStreamError):
                output = bind_query(view.query, catalog)
                types = (field.type for field in output.schema)
                columns = zip(view.columns or output.names, types, strict=False)
    return ((quote_name(name), SuggestionKind.COLUMN, str(kind)) for name, kind in columns)
