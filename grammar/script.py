"""Scripts: split at semicolons, parse statement by statement, report with places in the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Span, SqlStreamError
from sqlstream.grammar.depth import TooDeep, on_deep_stack, run_on_deep_stack
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.failures import SyntaxFailure, diagnose, leftover, token_error, too_deep, unbalanced
from sqlstream.grammar.language import END, readable
from sqlstream.grammar.nodes import Statement
from sqlstream.grammar.parser import SqlStreamParser

# --- SET and RESET without quotes: ``SET execution.runtime-mode = batch`` sets what it does with them ------------


_STATEMENTS = frozenset({"SET", "RESET"})
_KEY = re.compile(r"[\w.#-]+")


def quoted_settings(text: str, tokens: list[Token]) -> list[Token]:
    """Returns the tokens of a statement. In SET and RESET, a key or value without quotes becomes one string token:
    ``SET a.b = c`` is read as ``SET 'a.b' = 'c'``.
    """
    if len(tokens) < 2 or tokens[0].text.upper() not in _STATEMENTS:
        return tokens
    signs = [index for index, token in enumerate(tokens) if token.token_type == TokenType.EQ]
    equals = signs[0] if signs else len(tokens)
    key, value = tokens[1:equals], tokens[equals + 1 :]
    if not _is_key(text, key):
        return tokens
    return [tokens[0], *_as_text(text, key), *tokens[equals : equals + 1], *_as_text(text, value)]


def _is_key(text: str, tokens: list[Token]) -> bool:
    quoted = len(tokens) == 1 and tokens[0].token_type == TokenType.STRING
    return quoted or (bool(tokens) and _KEY.fullmatch(_written(text, tokens)) is not None)


def _as_text(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens as one text, but where one of them is a text already."""
    if not tokens or any(token.token_type in (TokenType.STRING, TokenType.EQ) for token in tokens):
        return tokens
    first, last, written = tokens[0], tokens[-1], _written(text, tokens)
    if "/*" in written or "--" in written:  # a comment would become a part of it
        return tokens
    whole = Token(TokenType.STRING, written, first.line, first.col, first.start, last.end)
    whole.comments.extend(comment for token in tokens for comment in token.comments)
    return [whole]


def _written(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1]


T = TypeVar("T")


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script; spans point into ``text``.

    :raises ParseError: with one diagnostic per wrong statement and the text attached.
    """
    statements, errors = parse_script_recovering(text)
    if errors:
        raise SqlStreamError.of(d for e in errors for d in e.diagnostics).with_source(text)
    return statements


def parse_script_recovering(text: str) -> tuple[tuple[Statement, ...], tuple[SqlStreamError, ...]]:
    """The statements that parse, and one error for each that does not, both in the order of the text."""
    written = tuple(parse_each(text))
    statements = (one.statement for one in written if one.statement is not None)
    return tuple(statements), tuple(one.error for one in written if one.error is not None)


@dataclass(frozen=True)
class Written:
    """One statement of a script with its span. A statement that does not parse has an ``error`` in place of
    ``statement``.
    """

    span: Span
    statement: Statement | None = None
    error: SqlStreamError | None = None


def parse_each(text: str) -> Iterator[Written]:
    """Parses a script statement by statement, and yields each with its span, parsed or with its error. A script that
    cannot be tokenized yields one error.
    """
    try:
        pieces = list(split(tokenize(text)))
    except SqlStreamError as error:
        yield Written(Span(0, len(text)), error=error)
        return
    for tokens in pieces:
        span = Span(tokens[0].start, tokens[-1].end + 1)
        try:
            yield Written(span, parse_tokens(text, tokens, lambda parser: parser.syntax("statement")))
        except SqlStreamError as error:
            yield Written(span, error=error)


def parse_query(text: str) -> exp.Expression:
    """One query without a statement around it, with or without a semicolon after it.

    :raises ParseError: where the text is not exactly one query.
    """
    tokens = tokenize(text)
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    query: exp.Expression = parse_tokens(text, tokens, lambda parser: parser.sql_terminal("QUERY"))
    return query


def tokenize(text: str) -> list[Token]:
    """sqlglot's tokens of the whole text.

    :raises ParseError: where a string, a quoted name or a comment is not closed.
    """
    try:
        return _dialect().tokenize(text)
    except TokenError as error:
        raise token_error(text, error).with_source(text) from None


def split(tokens: list[Token]) -> Iterator[list[Token]]:
    """Divides the tokens of a script at its semicolons: yields the tokens of each statement, without semicolons. Those
    inside EXECUTE STATEMENT SET … END do not divide.
    """
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON or _inside_statement_set(statement):
            statement.append(token)
        elif statement:
            statement[-1].comments.extend(token.comments)
            yield statement
            statement = []
    if statement:
        yield statement


def _inside_statement_set(tokens: list[Token]) -> bool:
    """END right after a semicolon ends a statement set; one elsewhere is that of a CASE."""
    words = [t.text.upper() for t in tokens[:12]]
    opened = any(words[i : i + 2] == ["STATEMENT", "SET"] for i in range(len(words)))
    ended = len(words) > 1 and tokens[-1].text.upper() == "END" and tokens[-2].token_type == TokenType.SEMICOLON
    return opened and words[:1] != ["SELECT"] and not ended


def parse_tokens(text: str, tokens: list[Token], read: Callable[[SqlStreamParser], T]) -> T:
    """Makes a parser of these tokens of ``text``, and returns what ``read`` reads from it. All tokens must be read.

    :raises SqlStreamError: the mistake, with the text attached.
    """
    tokens = quoted_settings(text, tokens)
    try:
        parser, parsed = run_on_deep_stack(lambda: _read(text, tokens, read))
        if parser._index < len(tokens):
            stopped, terminals = parser.expected
            raise leftover(tokens, parser._index, terminals if stopped == parser._index else ())
    except SqlglotParseError as error:
        raise diagnose(tokens, error).with_source(text) from None
    except TooDeep:
        raise diagnose(tokens, too_deep(tokens)).with_source(text) from None
    alone = unbalanced(tokens)  # sqlglot forgives a missing parenthesis behind some functions
    if alone is not None:
        raise SqlStreamError.of([alone]).with_source(text)
    return parsed


def _read(text: str, tokens: list[Token], read: Callable[[SqlStreamParser], T]) -> tuple[SqlStreamParser, T]:
    parser = parser_at(text, tokens)
    return parser, read(parser)


def parser_at(text: str, tokens: list[Token]) -> SqlStreamParser:
    """Returns a parser of these tokens, before the first one. Their positions point into ``text``."""
    parser = SqlStreamParser(dialect=_dialect())
    parser.stand_at(text, tokens)
    return parser


@cache
def _dialect() -> SqlStream:
    return SqlStream()


# --- what may come next, for the shell's completion --------------------------------------------------------------


@on_deep_stack
def expected_after(text: str) -> list[str]:
    """Keywords and kinds of things that may follow an unfinished script, sorted.

    Keywords are upper-case (``GROUP BY``, ``EMIT``); kinds are in words (``a name``, ``an expression``). Empty inside
    a string or comment, and after a mistake.
    """
    try:
        pieces = list(split(tokenize(text)))
    except SqlStreamError:
        return []
    tokens = pieces[-1] if pieces and not text.rstrip().endswith(";") else []
    parser = parser_at(text, tokens)
    wanted: tuple[str, ...] = ()
    try:
        parser.syntax("statement")
    except SqlglotParseError as error:
        wanted = error.terminals if isinstance(error, SyntaxFailure) else ()
    if parser._index < len(tokens):
        return []
    return sorted({readable(t).strip('"') for t in wanted if t != END} | parser.completions)


# --- text that is being typed, cut into words, literals and comments: one that is not closed goes to the end -----


_PIECE = re.compile(
    r"""--[^\n]*(?:\n|\Z)           # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)              # a comment in brackets
    | [rR](?:'[^']*(?:'|\Z)|"[^"]*(?:"|\Z))  # a raw string, in which a backslash is one
    | \$\$.*?(?:\$\$|\Z)           # a text between dollars, such as the body of a function
    | '(?:[^'\\]|\\.|'')*(?:'|\Z)   # a string
    | "(?:[^"\\]|\\.|"")*(?:"|\Z)
    | `[^`]*(?:`|\Z)                # a quoted name
    | \w+ | \s+ | .""",
    re.DOTALL | re.VERBOSE,
)

_QUOTES = ("'", '"', "`")


@dataclass(frozen=True)
class Piece:
    """A piece of a text: a word, white space or a comment. ``start`` is the position of its first character in the
    whole text.
    """

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_blank(self) -> bool:
        """True for white space or a comment."""
        return self.text.isspace() or self.text.startswith(("--", "/*"))

    @property
    def is_open(self) -> bool:
        """True for a comment, a string or a quoted name that is not closed."""
        if self.text.startswith("--"):
            return not self.text.endswith("\n")
        if self.text.startswith("/*"):
            return len(self.text) < 4 or not self.text.endswith("*/")
        if self.text.startswith("$$"):
            return len(self.text) < 4 or not self.text.endswith("$$")
        literal = self.text[1:] if self.text[1:2] in _QUOTES and self.text[0] in "rR" else self.text
        return literal[:1] in _QUOTES and (len(literal) == 1 or literal[-1] != literal[0])

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum() or self.text[0] == "_"


def pieces(text: str, start: int = 0) -> Iterator[Piece]:
    """Divides a text, from the position ``start`` on, into words, white space and comments. Nothing is left out:
    joined, the pieces are the text.
    """
    return (Piece(match[0], match.start()) for match in _PIECE.finditer(text, start))
