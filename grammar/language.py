"""The LALR tables of ``streaming.lark``, built once on first use, and questions about them that do not parse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from lark import Lark
from lark.lexer import Lexer
from lark.parsers.lalr_analysis import Shift

GRAMMAR_FILE = Path(__file__).with_name("streaming.lark")
STARTS = ("statement", "stream_clause", "group_window", "table_function", "table_clause", "match_recognize")
END = "$END"

READABLE = {
    "QUERY": "a query",
    "CONDITION": "an expression",
    "EXPR": "an expression",
    "TYPE": "a type",
    "IDENT": "a name",
    "TABLE_NAME": "a table name",
    "KEYS": "an expression",
    "SORT_KEYS": "an expression",
    "STRING": "a string",
    "NUMBER": "a number",
    "HINT": "a hint",
}

States = tuple[int, ...]


class _NoLexer(Lexer):
    """Tokens come from sqlglot's tokenizer, so lark compiles no regular expressions."""

    def __init__(self, conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> Iterator[Any]:
        return iter(())


@cache
def lark_parser() -> Lark:
    """The parser of the grammar, loaded so that the package may be in an archive without files to open."""
    return Lark(
        resources.files("sqlstream.grammar").joinpath(GRAMMAR_FILE.name).read_text(encoding="utf-8"),
        parser="lalr",
        lexer=_NoLexer,
        start=list(STARTS),
        maybe_placeholders=True,
        propagate_positions=True,
    )


@cache
def keywords() -> dict[str, str]:
    """The terminals of the grammar for keywords and punctuation, by their text: ``{"TRIGGER": "TRIGGER", "(": "LPAR",
    …}``.
    """
    return {t.pattern.value: t.name for t in lark_parser().terminals}


@cache
def _spellings() -> dict[str, str]:
    return {name: text for text, name in keywords().items()}


def readable(terminal: str) -> str:
    """The name of a terminal as error messages show it."""
    return READABLE.get(terminal) or f'"{_spellings()[terminal]}"'


@dataclass(frozen=True)
class Tables:
    """The LALR automaton for one start rule of the grammar. It says which terminals may follow, for error messages and
    to find the end of a clause; lark builds the tree.
    """

    states: dict[int, dict[str, tuple[Any, Any]]]
    start: int
    end: int
    nested: bool
    """Whether other text may follow: true of clauses, false of statements."""

    def after(self, stack: States, terminal: str) -> States | None:
        """The stack of states after ``terminal`` was read, None if it is not accepted."""
        reduced = list(stack)
        while True:
            action, argument = self.states[reduced[-1]].get(terminal, (None, None))
            if action is None:
                return None
            if action is Shift:
                return (*reduced, argument)
            del reduced[len(reduced) - len(argument.expansion) :]
            reduced.append(self.states[reduced[-1]][argument.origin.name][1])
            if terminal == END and reduced[-1] == self.end:
                return tuple(reduced)

    def accepted(self, stack: States) -> list[str]:
        """The terminals that may follow, END among them."""
        terminals = (t for t in self.states[stack[-1]] if t.isupper() or t == END)
        return [t for t in terminals if self.after(stack, t) is not None]


@cache
def tables(start: str) -> Tables:
    """The LALR automaton for a start rule of the grammar, such as ``statement``. It is made at the first call."""
    table = lark_parser().parser.parser._parse_table
    return Tables(table.states, table.start_states[start], table.end_states[start], start != "statement")


@cache
def openings(start: str) -> dict[str, frozenset[str]]:
    """A dictionary from each keyword with which the grammar rule ``start`` may begin to the terminals that may follow
    it: two words distinguish a clause from an alias.
    """
    automaton = tables(start)
    first = automaton.accepted((automaton.start,))
    stacks = {t: automaton.after((automaton.start,), t) for t in first if t in _spellings()}
    return {t: frozenset(automaton.accepted(stack)) for t, stack in stacks.items() if stack}
