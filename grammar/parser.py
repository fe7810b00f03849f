"""The parser of the dialect: queries with streaming clauses in their modifiers, and statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from sqlstream.errors import Span
from sqlstream.grammar import driver
from sqlstream.grammar import nodes as n
from sqlstream.grammar.carrier import ARG, Carrier, add_clause, clauses_of
from sqlstream.grammar.failures import ORDER, SyntaxFailure, failure, misspelt, token_span, unexpected
from sqlstream.grammar.language import openings
from sqlstream.grammar.modifiers import BEHIND_A_SET_OPERATION, clause_field, modifiers_after, rank_of
from sqlstream.grammar.spans import mark, span_of
from sqlstream.grammar.tables import TableParser

_BEFORE_A_KEY = frozenset({TokenType.GROUP_BY, TokenType.COMMA, TokenType.ALL, TokenType.DISTINCT, TokenType.L_PAREN})
_Last = tuple[int, str]
"""Rank and word of the modifier before."""


class SqlStreamParser(TableParser):
    def _parse_match_recognize(self) -> Any:
        start = self._curr
        carrier = Carrier(this=self.syntax("match_recognize"))
        mark(carrier, start.start, self._prev.end + 1)
        carrier.set("alias", self._parse_table_alias())
        return carrier

    def _parse_projections(self) -> Any:
        projections, exclude = super()._parse_projections()
        if not projections:
            raise self._unexpected("CONDITION")
        for alias in projections:
            if isinstance(alias, exp.Alias) and isinstance(alias.this, exp.Star):
                raise _star_with_alias(alias, span_of(alias) or token_span(self._prev))
        return projections, exclude

    def _parse_into(self) -> Any:
        if self._curr.token_type == TokenType.INTO:
            hint = "Write INSERT INTO t SELECT … or CREATE TABLE t WITH (…) AS SELECT …."
            raise failure("SELECT INTO is not part of the dialect", token_span(self._curr), hint=hint)

    def _parse_statement(self) -> Any:
        """Statements other than queries come as a ``Carrier`` of their node."""
        if self._curr.token_type in driver.QUERY_STARTS:
            return self.query()
        return Carrier(this=self.syntax("statement"))

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> Any:
        if self._curr.token_type == TokenType.FROM:  # FROM t without SELECT is another system's
            return None
        read = super()._parse_select_query
        return self._marked(lambda: read(*args, **kwargs))

    # --- modifiers ---

    def _parse_query_modifiers(self, this: Any) -> Any:
        if not isinstance(this, self.MODIFIABLES):
            return this
        if not isinstance(this, exp.Select | exp.Values | exp.SetOperation) or this.args.get("from_"):
            self._sources(this)
        if not isinstance(this, exp.Query | exp.Values):
            return this
        last = _reached(this)
        while True:
            if self.opens("stream_clause"):
                last = self._stream_clause(this, last)
            elif self._match_set(self.QUERY_MODIFIER_PARSERS, advance=False):
                last = self._modifier(this, last)
            elif isinstance(this, exp.Select) and self.begins("stream_clause"):
                self.syntax("stream_clause")  # says what is wrong with it
            else:
                self.offer(modifiers_after(last[0], isinstance(this, exp.Select)))
                return this

    def _sources(self, this: exp.Expr) -> None:
        """What FROM goes on with: joins and LATERAL VIEW."""
        for join in self._parse_joins():
            this.append("joins", join)
        while self._curr.token_type == TokenType.LATERAL:
            token = self._curr
            lateral = self._parse_lateral()
            if lateral is None or not lateral.args.get("view"):
                raise failure('a comma or JOIN must stand before "LATERAL"', token_span(token))
            this.append("laterals", lateral)

    def _stream_clause(self, this: exp.Expr, last: _Last) -> _Last:
        token, following = self._curr, self._next
        clause = self.syntax("stream_clause")
        field = clause_field(clause)
        word = " ".join(t.text.upper() for t in (token, following)) if field == "window" else token.text.upper()
        if isinstance(this, exp.Select) and not this.args.get("from_"):
            raise failure(f'"{word}" needs a FROM', clause.span, ORDER)
        if field == "window" and not this.args.get("group"):
            raise failure(f'"{word}" must stand behind "GROUP BY"', clause.span, ORDER)
        if field != "emit" and not isinstance(this, exp.Select):
            raise failure(f'"{word}" must stand in the SELECT whose windows it fires', clause.span, ORDER)
        if getattr(clauses_of(this), field) is not None:
            raise failure(f'"{word}" is given twice', clause.span, ORDER)
        reached = _in_order(field, word, clause.span, last)
        add_clause(this, n.StreamClauses, field, clause)
        return reached

    def _modifier(self, this: exp.Expr, last: _Last) -> _Last:
        token = self._curr
        read: Callable[[Any], tuple[str, Any]] = self.QUERY_MODIFIER_PARSERS[token.token_type]
        key, expression = read(self)
        if not expression:
            raise unexpected(token, self._prev or None, [])
        if not isinstance(this, exp.Select) and key not in BEHIND_A_SET_OPERATION:
            raise failure(f'"{token.text.upper()}" must stand in a SELECT', token_span(token), ORDER)
        if this.args.get(key):
            raise failure(f'"{token.text.upper()}" is given twice', token_span(token), ORDER)
        place = "offset" if token.token_type == TokenType.FETCH else key  # FETCH may stand on either side of OFFSET
        reached = _in_order(place, token.text.upper(), token_span(token), last)
        this.set(key, expression)
        if key == "group":
            _lift_window(this, expression)
        if key == "limit" and expression.args.get("offset"):
            this.set("offset", exp.Offset(expression=expression.args["offset"]))
            expression.set("offset", None)
        return reached

    # --- set operations and groups ---

    def _parse_set_operations(self, this: Any) -> Any:
        result = super()._parse_set_operations(this)
        if isinstance(result, exp.SetOperation) and result is not this:
            _hoist_emit(result)
        return result

    def _parse_group(self, skip_group_by_token: bool = False) -> Any:
        """GROUP BY may be followed by a window without a key; a window among the keys becomes a clause."""
        if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
            return None
        comments = self._prev_comments
        if self.opens("stream_clause"):
            return self.expression(exp.Group(expressions=[]), comments=comments)
        return super()._parse_group(skip_group_by_token=True)

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> Any:
        grouping = super()._parse_cube_or_rollup(with_prefix)
        if grouping is not None and not with_prefix and not grouping.expressions:
            raise unexpected(self._prev, None, ["CONDITION"])
        return grouping

    def _parse_grouping_sets(self) -> Any:
        self.offer(openings("group_window"))
        if self.opens("group_window"):
            if self._prev.token_type not in _BEFORE_A_KEY:
                word, hint = self._curr.text.upper(), "Write GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)."
                raise failure(f'a comma must stand before "{word}"', token_span(self._curr), hint=hint)
            return Carrier(this=self.syntax("group_window"))
        return super()._parse_grouping_sets()


def _star_with_alias(alias: exp.Alias, span: Span) -> SyntaxFailure:
    """``SELECT * FORM t`` reads as an alias, too."""
    meant = misspelt(alias.alias.upper())
    if meant is not None:
        return failure(f'unexpected "{alias.alias}"', Span(span.end - len(alias.alias), span.end), hint=meant)
    return failure("a star has no alias", span, hint="Name the columns to give them other names.")


def _reached(query: exp.Expr) -> _Last:
    """The last modifier that the query has already: sqlglot asks twice behind a parenthesis."""
    clauses = clauses_of(query)
    present = [f.name for f in fields(clauses) if f.name != "span" and getattr(clauses, f.name) is not None]
    keys = [*(k for k, v in query.args.items() if v), *present]
    return max(((rank_of(k, 0), k.upper()) for k in keys), default=(0, ""))


def _in_order(key: str, word: str, span: Span, last: _Last) -> _Last:
    rank = rank_of(key, last[0])
    if rank < last[0]:
        raise failure(f'"{word}" must stand before "{last[1]}"', span, ORDER)
    return rank, word


def _lift_window(select: exp.Expr, group: exp.Group) -> None:
    """A window among the keys of GROUP BY becomes a clause of the SELECT."""
    windows = [e.this for e in group.expressions if isinstance(e, Carrier)]
    if len(windows) > 1:
        raise failure("a SELECT has one window", windows[1].span, ORDER)
    if windows:
        group.set("expressions", [e for e in group.expressions if not isinstance(e, Carrier)])
        add_clause(select, n.StreamClauses, "window", windows[0])


def _hoist_emit(union: exp.SetOperation) -> None:
    """EMIT behind the last SELECT belongs to the whole set operation."""
    last = union.expression
    emit = clauses_of(last).emit if isinstance(last, exp.Select) else None
    if emit is None:
        return
    rest = replace(clauses_of(last), emit=None)
    last.set(ARG, Carrier(this=rest) if rest != n.StreamClauses() else None)
    add_clause(union, n.StreamClauses, "emit", emit)
