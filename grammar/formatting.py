"""Scripts in canonical layout: one clause a line, statements apart, every comment kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import singledispatch

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from sqlstream.grammar import nodes as n
from sqlstream.grammar.depth import deep_stack
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.print_statements import create_head, insert_head, table_elements, view_head
from sqlstream.grammar.printer import print_node
from sqlstream.grammar.quoting import quote_string
from sqlstream.grammar.script import parse_tokens, split, tokenize

_INDENT = "  "


def format_script(text: str) -> str:
    """The script with each clause on a line; formatting it again changes nothing.

    Comments stay where sqlglot keeps them; those between the words of a streaming clause move to the front of
    their statement.

    :raises ParseError: where a statement does not parse.
    """
    with deep_stack():
        return "\n\n".join(_statement(text, tokens) for tokens in split(tokenize(text))) + "\n"


def _statement(text: str, tokens: list[Token]) -> str:
    written = Counter(_comments(tokens))  # before sqlglot moves comments between tokens
    statement: n.Statement = parse_tokens(text, tokens, lambda parser: parser.syntax("statement"))
    printed = pretty(statement, tokens)
    return "\n".join([*_lost(written, printed), f"{printed};"])


def _lost(written: Counter[str], printed: str) -> Iterator[str]:
    """The comments that the printed statement lacks."""
    for comment, count in written.items():
        kept = printed.count(f"/* {comment} */")
        yield from [f"/* {comment} */"] * (count - kept)


def _comments(tokens: Iterable[Token]) -> list[str]:
    written = (c for t in tokens for c in (t.comments[:-1] if t.token_type == TokenType.HINT else t.comments))
    return [c.strip() for c in written if c.strip()]


def _sql(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, pretty=True, normalize_functions=False, max_text_width=100)


def _plain(expression: exp.Expression) -> str:
    return expression.sql(dialect=SqlStream, comments=False, normalize_functions=False)


@singledispatch
def pretty(statement: n.Node, tokens: list[Token]) -> str:
    """The statement on several lines; those without a query on one. ``tokens`` are the statement's, for comments."""
    return print_node(statement, _plain)


def _block(items: Iterable[str]) -> str:
    return "(\n" + "\n".join(_indented(i) for i in items) + "\n)"


def _separated(items: list[str]) -> list[str]:
    return [*(f"{i}," for i in items[:-1]), *items[-1:]]


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in text.splitlines())


@pretty.register
def _(statement: n.Query, tokens: list[Token]) -> str:
    return _sql(statement.query)


@pretty.register
def _(statement: n.Insert, tokens: list[Token]) -> str:
    return f"{insert_head(statement)}\n{_sql(statement.query)}"


@pretty.register
def _(statement: n.StatementSet, tokens: list[Token]) -> str:
    inserts = "\n".join(_indented(f"{pretty(i, tokens)};") for i in statement.inserts)
    return f"EXECUTE STATEMENT SET BEGIN\n{inserts}\nEND"


@pretty.register
def _(statement: n.Explain, tokens: list[Token]) -> str:
    return f"EXPLAIN FORMAT {statement.format} {statement.stage}\n{pretty(statement.statement, tokens)}"


@pretty.register
def _(statement: n.CreateView, tokens: list[Token]) -> str:
    return f"{view_head(statement)} AS\n{_sql(statement.query)}"


@pretty.register
def _(statement: n.CreateTable, tokens: list[Token]) -> str:
    elements = _commented(_separated(table_elements(statement, _plain)), statement, tokens)
    options = _separated([print_node(o, _plain) for o in statement.options])
    parts = [
        create_head(statement),
        f" {_block(elements)}" if elements else "",
        f" COMMENT {quote_string(statement.comment)}" if statement.comment is not None else "",
        f" WITH {_block(options)}" if options else "",
        f" AS\n{_sql(statement.query)}" if statement.query is not None else "",
    ]
    return "".join(parts)


def _commented(elements: list[str], statement: n.CreateTable, tokens: list[Token]) -> list[str]:
    """The columns and the watermark, each with the comments that stand between it and the next."""
    nodes: list[n.Node] = [*statement.columns, *([statement.watermark] if statement.watermark else [])]
    starts = sorted(node.span.start for node in nodes)
    commented = list(elements)
    for index, node in enumerate(nodes):
        end = next((s for s in starts if s > node.span.start), node.span.end + 1)
        comments = _comments(t for t in tokens if node.span.start <= t.start < end)
        commented[index] = " ".join([elements[index], *(f"/* {c} */" for c in comments)])
    return commented
