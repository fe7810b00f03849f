"""Drives lark through the tokens of a sqlglot parser, which is called back wherever SQL stands inside a clause.

At each word the automaton says which keywords fit and whether an expression, a query, a type or a name is wanted.
Where several fit, the one wins after which the next word fits as well: that settles ``n ROWS`` against an
expression, ``name =>`` against a column and a column named like a keyword.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Protocol

from lark import Token as LarkToken
from lark import Tree
from sqlglot.tokens import Token, TokenType

from sqlstream.grammar import language
from sqlstream.grammar.failures import bare_interval, unexpected
from sqlstream.grammar.language import END, States, Tables

Word = tuple[str, Token]
"""Upper-case text and token; tokens such as ``PARTITION BY`` make two words."""


class Source(Protocol):
    """What the driver needs of the parser: its tokens, and SQL at the place where it stands."""

    ID_VAR_TOKENS: ClassVar[set[TokenType]]
    expected: tuple[int, list[str]]
    _tokens: list[Token]
    _index: int

    def _advance(self, times: int = 1) -> None: ...

    def opens(self, start: str) -> bool: ...

    def offer(self, words: Iterable[str]) -> None: ...

    def sql_terminal(self, terminal: str) -> object: ...


QUERY_STARTS = frozenset({
    TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN, TokenType.TABLE,
})  # fmt: skip
_LITERALS = {TokenType.STRING: "STRING", TokenType.RAW_STRING: "STRING", TokenType.NUMBER: "NUMBER"}
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.COMMA, TokenType.SEMICOLON, TokenType.FARROW, TokenType.EQ})
_NOT_KEYWORDS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.IDENTIFIER})
_ARGUMENT_WORDS = frozenset({"DESCRIPTOR", "TABLE"})  # never the beginning of an expression
_SQL = ("QUERY", "CONDITION", "EXPR", "TYPE", "TABLE_NAME", "KEYS", "SORT_KEYS")


def words_from(source: Source, index: int) -> Iterator[Word]:
    for token in source._tokens[index:]:
        yield from words(token)


def words(token: Token) -> list[Word]:
    if token.token_type in _NOT_KEYWORDS:
        return [("", token)]
    if token.token_type == TokenType.DQMARK:  # "A??" of a pattern
        return [("?", token), ("?", token)]
    return [(word, token) for word in token.text.upper().split()] or [("", token)]


def parse(source: Source, start: str) -> Tree[Any]:
    """The tree of the longest text at the source's place that ``start`` derives; the source stands behind it."""
    automaton = language.tables(start)
    cursor = language.lark_parser().parse_interactive(start=start)
    stack: States = (automaton.start,)
    pending: list[Word] = []
    while True:
        pending = pending or next_words(source)
        terminal = choose(automaton, stack, source, pending)
        if terminal is None:
            source.expected = source._index, automaton.accepted(stack)
            source.offer(language.readable(t).strip('"') for t in source.expected[1] if t != END)
            break
        following = automaton.after(stack, terminal)
        assert following is not None
        stack = following
        cursor.feed_token(_take(source, terminal, pending))
    split = bool(pending) and len(pending) < len(words(pending[0][1]))
    if split or automaton.after(stack, END) is None:
        raise unexpected(_current(source), _previous(source), source.expected[1])
    if meant := bare_interval(_previous(source), _current(source)):
        raise meant
    tree: Tree[Any] = cursor.feed_token(LarkToken(END, ""))
    return tree


def next_words(source: Source) -> list[Word]:
    token = _current(source)
    return words(token) if token is not None else []


def choose(automaton: Tables, stack: States, source: Source, pending: list[Word]) -> str | None:
    """The terminal that the next word is read as; None where none fits."""
    if not pending:
        return None
    word, whole = pending[0], len(pending) == len(words(pending[0][1]))
    fitting = [t for t in possible(source, word, whole) if automaton.after(stack, t) is not None]
    upcoming = pending[1] if len(pending) > 1 else next(words_from(source, source._index + 1), None)
    continuing = [t for t in fitting if _continues(automaton, stack, source, t, upcoming)]
    if continuing:
        return continuing[0]
    if upcoming is None and fitting:
        return next((t for t in fitting if t != "IDENT"), "IDENT")
    another = automaton.nested and source.opens("stream_clause") and automaton.after(stack, END) is not None
    return fitting[0] if fitting and not another else None


def possible(source: Source, word: Word, whole: bool = True) -> list[str]:
    """The terminals that the word can be, the most specific first."""
    text, token = word
    terminals = [language.keywords()[text]] if text in language.keywords() else []
    if token.token_type in _LITERALS:
        terminals.append(_LITERALS[token.token_type])
    if token.token_type == TokenType.HINT:
        return ["HINT"]
    if not whole:
        return terminals
    if token.token_type in source.ID_VAR_TOKENS:
        terminals.append("IDENT")
    if text == "TABLE":
        terminals.append("QUERY")
    elif token.token_type not in _CLOSING and text not in _ARGUMENT_WORDS:
        terminals += [t for t in _SQL if t != "QUERY" or token.token_type in QUERY_STARTS]
    return terminals


def _continues(automaton: Tables, stack: States, source: Source, terminal: str, upcoming: Word | None) -> bool:
    following = automaton.after(stack, terminal)
    assert following is not None
    if automaton.after(following, END) is not None and (upcoming is None or automaton.nested):
        return True
    if upcoming is None:
        return False
    return terminal in _SQL or any(automaton.after(following, t) is not None for t in possible(source, upcoming))


def _take(source: Source, terminal: str, pending: list[Word]) -> LarkToken:
    """Consume the terminal from the source, as a lark token that carries its value and place."""
    token = pending[0][1]
    if terminal in _SQL or terminal in ("IDENT", "HINT"):
        value: object = source.sql_terminal(terminal)
        pending.clear()
    else:
        value = token.text if terminal in _LITERALS.values() else pending[0][0]
        del pending[0]
        if not pending:
            source._advance()
    last = _previous(source) if not pending else token
    assert last is not None
    consumed = LarkToken(terminal, terminal, start_pos=token.start, end_pos=last.end + 1)
    consumed.value = value
    return consumed


def _current(source: Source) -> Token | None:
    return source._tokens[source._index] if source._index < len(source._tokens) else None


def _previous(source: Source) -> Token | None:
    return source._tokens[source._index - 1] if 0 < source._index <= len(source._tokens) else None
