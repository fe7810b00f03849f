"""Trees back to text: ``to_sql`` on one line, ``format_script`` with a clause a line and each comment in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, ParseError, Span, SqlStreamError
from sqlstream.grammar import nodes as n
from sqlstream.grammar.comments import Comment, comments_between, woven
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.parser import SqlStreamParser
from sqlstream.grammar.placeholders import with_stand_ins
from sqlstream.grammar.script import parse_script, parse_script_recovering, parse_tokens, split, tokenize
from sqlstream.grammar.setting_words import quoted_settings

NOT_PRINTED = "SS108"
_REPORT = "Leave the statement as it is, and report it as a defect of sqlstream."
_REPORT_SCRIPT = "Leave the script as it is, and report it as a defect of sqlstream."


@with_room
def to_sql(node: n.Node | exp.Expression) -> str:
    """A statement, clause, query or expression in canonical form on one line; parsing it gives an equal tree."""
    return node.text(_plain) if isinstance(node, n.Node) else _plain(node)


def pretty(statement: n.Node) -> str:
    """The statement on several lines, without its comments; a statement without a query stays on one line."""
    return statement.pretty(_plain, _sql)


@with_room
def format_script(text: str) -> str:
    """The script with each clause on a line; formatting it again changes nothing.

    Comments stay beside the words that they stand beside. ``${name}`` may stand for a name, a number or a string.

    :raises ParseError: where a statement does not parse; SS108 where the layout would mean something else, or lose a
        comment.
    """
    return with_stand_ins(text, _mistakes, _formatted)


def _mistakes(text: str) -> list[Diagnostic]:
    return [d for error in parse_script_recovering(text)[1] for d in error.diagnostics]


def _formatted(text: str) -> str:
    pieces = list(_pieces(text))
    statements = [parse_tokens(text, piece.tokens, _read) for piece in pieces]
    parts, above = list[str](), comments_between(text, 0, pieces[0].start if pieces else len(text), 0)
    ends = [*(piece.start for piece in pieces[1:]), len(text)]
    for piece, statement, end in zip(pieces, statements, ends, strict=False):
        behind = comments_between(text, piece.end, end, 0)
        same_line = [replace(c, gap=len(piece.words)) for c in behind if not c.below]
        parts.append(_statement(text, statement, piece, [*above, *piece.comments(text), *same_line]))
        above = [c for c in behind if c.below]
    if above:
        parts.append("".join(f"{c.text}\n" + "\n" * c.spaced for c in above).rstrip())
    layout = "\n\n".join(parts) + "\n"
    _require_same(text, tuple(statements), layout)
    return layout


def _require_same(text: str, statements: tuple[n.Statement, ...], layout: str) -> None:
    """SS108 unless the layout has the same statements and the same comments."""
    try:
        kept = parse_script(layout) == statements and _comments(layout) == _comments(text)
    except SqlStreamError:
        kept = False
    if not kept:
        raise ParseError(NOT_PRINTED, "this script cannot be formatted", hint=_REPORT_SCRIPT)


def _comments(text: str) -> Counter[str]:
    """Each comment of a script, and how often it stands there; in which order, the layout decides."""
    tokens = tokenize(text)
    ends = [0, *(token.end + 1 for token in tokens)]
    starts = [*(token.start for token in tokens), len(text)]
    gaps = zip(ends, starts, strict=True)
    return Counter(comment.text for start, end in gaps for comment in comments_between(text, start, end, 0))


@dataclass(frozen=True)
class _Piece:
    """The tokens of a statement; ``words`` are these and the semicolon behind them."""

    tokens: list[Token]
    words: list[Token]

    @property
    def start(self) -> int:
        return self.words[0].start

    @property
    def end(self) -> int:
        return self.words[-1].end + 1

    def comments(self, text: str) -> list[Comment]:
        """Those between the words."""
        gaps = enumerate(zip(self.words, self.words[1:], strict=False), 1)
        return [c for gap, (word, after) in gaps for c in comments_between(text, word.end + 1, after.start, gap)]


def _pieces(text: str) -> Iterator[_Piece]:
    tokens = tokenize(text)
    following = dict(zip((t.start for t in tokens), tokens[1:], strict=False))
    for statement in split(tokens):
        closing = following.get(statement[-1].start)
        ends = closing is not None and closing.token_type == TokenType.SEMICOLON
        words = quoted_settings(text, statement)
        yield _Piece(words, [*words, closing] if ends and closing else words)


def _statement(text: str, statement: n.Statement, piece: _Piece, comments: list[Comment]) -> str:
    printed = pretty(statement)
    words = tokenize(printed)
    try:
        same = parse_tokens(printed, words, _read) == statement
    except SqlStreamError:
        same = False
    if not same:
        span = Span(piece.start, piece.end)
        raise ParseError(NOT_PRINTED, "this statement cannot be formatted", span, hint=_REPORT).with_source(text)
    return woven(f"{printed};", tokenize(f"{printed};"), piece.words, comments)


def _read(parser: SqlStreamParser) -> n.Statement:
    statement: n.Statement = parser.syntax("statement")
    return statement


def _sql(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, pretty=True, comments=False, normalize_functions=False, max_text_width=100)


def _plain(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, comments=False, normalize_functions=False)
