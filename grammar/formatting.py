"""Scripts in canonical layout: one clause a line, statements apart, every comment kept in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Diagnostic, ParseError, Span, SqlStreamError
from sqlstream.grammar import nodes as n
from sqlstream.grammar.comments import Comment, comments_between, woven
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.parser import SqlStreamParser
from sqlstream.grammar.placeholders import with_stand_ins
from sqlstream.grammar.print_statements import (
    create_head,
    distribution,
    freshness,
    insert_head,
    materialized_elements,
    materialized_head,
    on_conflict,
    partitions,
    table_elements,
    unit_rows_head,
    unit_test_head,
    view_head,
)
from sqlstream.grammar.printer import print_node
from sqlstream.grammar.quoting import quote_string
from sqlstream.grammar.script import parse_script, parse_script_recovering, parse_tokens, split, tokenize
from sqlstream.grammar.setting_words import quoted_settings

NOT_PRINTED = "SS108"
_INDENT = "  "
_REPORT = "Leave the statement as it is, and report it as a defect of sqlstream."
_REPORT_SCRIPT = "Leave the script as it is, and report it as a defect of sqlstream."


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


@singledispatch
def pretty(statement: n.Node) -> str:
    """The statement on several lines; those without a query on one."""
    return print_node(statement, _plain)


def _block(items: Iterable[str]) -> str:
    return "(\n" + "\n".join(_indented(i) for i in items) + "\n)"


def _separated(items: list[str]) -> list[str]:
    return [*(f"{i}," for i in items[:-1]), *items[-1:]]


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in text.split("\n"))


@pretty.register
def _(statement: n.Query) -> str:
    return _sql(statement.query)


@pretty.register
def _(statement: n.Insert) -> str:
    parts = [insert_head(statement, _plain), _sql(statement.query), on_conflict(statement)]
    return "\n".join(text for text in parts if text is not None)


@pretty.register
def _(statement: n.StatementSet) -> str:
    inserts = "\n".join(_indented(f"{pretty(i)};") for i in statement.inserts)
    return f"EXECUTE STATEMENT SET BEGIN\n{inserts}\nEND"


@pretty.register
def _(statement: n.UnitTest) -> str:
    mocks = _separated([_unit_rows(mock) for mock in statement.mocks])
    return "\n".join([unit_test_head(statement, _plain), *mocks, _unit_rows(statement.expected)])


def _unit_rows(rows: n.UnitRows) -> str:
    return f"{unit_rows_head(rows, _plain)} AS (\n{_indented(_sql(rows.query))}\n)"


@pretty.register
def _(statement: n.Explain) -> str:
    if isinstance(statement.statement, n.ExecutePlan):
        return print_node(statement, _plain)
    stages = ", ".join((statement.stage, *statement.more))
    return f"EXPLAIN FORMAT {statement.format} {stages}\n{pretty(statement.statement)}"


@pretty.register
def _(statement: n.CompilePlan) -> str:
    head = print_node(statement, _plain).partition(" FOR ")[0]
    return f"{head} FOR\n{pretty(statement.statement)}"


@pretty.register
def _(statement: n.CreateView) -> str:
    return f"{view_head(statement)} AS\n{_sql(statement.query)}"


@pretty.register
def _(statement: n.DescribeQuery) -> str:
    return f"DESCRIBE QUERY\n{_sql(statement.query)}"


@pretty.register
def _(statement: n.AlterView | n.AlterMaterializedView) -> str:
    if statement.query is None:
        return print_node(statement, _plain)
    return f"{print_node(replace(statement, query=None), _plain)} AS\n{_sql(statement.query)}"


@pretty.register
def _(statement: n.CreateMaterializedView) -> str:
    elements = materialized_elements(statement, _plain)
    options = _separated([print_node(o, _plain) for o in statement.options])
    told = freshness(statement, _plain)
    parts = [
        materialized_head(statement),
        f" {_block(_separated(elements))}" if elements else "",
        f" COMMENT {quote_string(statement.comment)}" if statement.comment is not None else "",
        f" {partitions(statement)}" if statement.partitioned_by else "",
        f" WITH {_block(options)}" if options else "",
        f" {told}" if told is not None else "",
        f" AS\n{_sql(statement.query)}",
    ]
    return "".join(parts)


@pretty.register
def _(statement: n.CreateTable) -> str:
    elements = table_elements(statement, _plain)
    options = _separated([print_node(o, _plain) for o in statement.options])
    parts = [
        create_head(statement),
        f" {_block(_separated(elements))}" if elements else "",
        f" COMMENT {quote_string(statement.comment)}" if statement.comment is not None else "",
        f" {distribution(statement)}" if statement.distribution is not None else "",
        f" {partitions(statement)}" if statement.partitioned_by else "",
        f" WITH {_block(options)}" if options else "",
        f" {print_node(statement.like, _plain)}" if statement.like is not None else "",
        f" AS\n{_sql(statement.query)}" if statement.query is not None else "",
    ]
    return "".join(parts)
