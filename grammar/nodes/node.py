"""The base of all syntax nodes, names and options, and what prints the parts that most nodes have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream.errors import Span
from sqlstream.grammar.quoting import quote_name, quote_string

Sql = Callable[[exp.Expression], str]


def joined(*parts: str | None) -> str:
    """The parts that are neither None nor empty, with spaces between."""
    return " ".join(p for p in parts if p)


def flag(word: str, given: bool) -> str | None:
    """Returns the keyword ``word`` if ``given`` is true, else None; for optional keywords of a statement's text."""
    return word if given else None


def clause(word: str, expression: exp.Expression | None, sql: Sql) -> str | None:
    """The text ``WORD expression``; None if there is no expression."""
    return f"{word} {sql(expression)}" if expression is not None else None


def string_clause(word: str, text: str | None) -> str | None:
    """The text ``WORD 'text'``; None if there is no text."""
    return f"{word} {quote_string(text)}" if text is not None else None


def listed(expressions: tuple[exp.Expression, ...], sql: Sql) -> str:
    """The expressions with commas between."""
    return ", ".join(sql(e) for e in expressions)


def name_list(names: tuple[str, ...]) -> str | None:
    """The text ``(a, b)``; None if there are no names."""
    return f"({', '.join(quote_name(name) for name in names)})" if names else None


def separated(items: list[str]) -> list[str]:
    """The items with a comma after each but the last one; for lists with an item per line."""
    return [*(f"{i}," for i in items[:-1]), *items[-1:]]


def block(lines: Iterable[str]) -> str:
    """The lines as text in parentheses: each line is indented and on its own, and so are the parentheses, without
    indentation.
    """
    return "(\n" + "\n".join(indented(line) for line in lines) + "\n)"


def indented(text: str) -> str:
    """The text with each line two spaces further in."""
    return "\n".join(f"  {line}" for line in text.split("\n"))


@dataclass(frozen=True)
class Node:
    """Base of the nodes of the dialect's syntax tree. ``span`` points into the text of the script.

    The hash depends on the class too, because sqlglot compares trees, which may hold such nodes, by their hashes.
    """

    span: Span = field(default=Span(0, 0), compare=False, repr=False, kw_only=True)

    def __init_subclass__(cls) -> None:
        cls.__hash__ = Node._hash  # type: ignore[assignment]  # dataclass leaves alone what stands in the class

    def _hash(self) -> int:
        return hash((type(self), *(value for name, value in vars(self).items() if name != "span")))

    def text(self, sql: Sql) -> str:
        """The node as SQL in canonical form, on one line; parsing it gives an equal node. ``sql`` is a function that
        prints the SQL expressions inside.
        """
        raise TypeError(f"{type(self).__name__} has no printed form")

    def pretty(self, sql: Sql, pretty_sql: Sql) -> str:
        """The statement as SQL on several lines, in the layout of ``sqlstream format``. ``pretty_sql`` is a function
        that prints its queries, ``sql`` one for other expressions.

        A statement without a query stays on one line.
        """
        return self.text(sql)


@dataclass(frozen=True)
class Name(Node):
    """A name as written, such as ``catalog.db.orders``. ``parts``: the identifiers between the dots, without quotes."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)

    def text(self, sql: Sql) -> str:
        return ".".join(quote_name(part) for part in self.parts)


@dataclass(frozen=True)
class Option(Node):
    """``'key' = 'value'``: one option of a table, catalog or the like."""

    key: str
    value: str

    def text(self, sql: Sql) -> str:
        return f"{quote_string(self.key)} = {quote_string(self.value)}"
