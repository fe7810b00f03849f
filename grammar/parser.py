"""sqlglot's Spark parser with hooks where streaming clauses may stand; the clauses themselves are lark's."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from sqlstream.grammar import driver, language
from sqlstream.grammar import nodes as n
from sqlstream.grammar.build_statements import StatementBuilder
from sqlstream.grammar.carrier import Carrier, add_clause, table_clauses_of
from sqlstream.grammar.failures import ORDER, failure, token_span, unexpected
from sqlstream.grammar.modifiers import clause_field, rank_of
from sqlstream.grammar.spans import mark

_BUILDER = StatementBuilder()


class SqlStreamParser(SparkParser):
    """Each hook asks whether a streaming clause opens here, and lets lark read it."""

    ADD_JOIN_ON_TRUE = False

    def syntax(self, start: str) -> Any:
        """The node of the grammar's rule ``start`` at this place."""
        from lark.exceptions import VisitError

        try:
            return _BUILDER.transform(driver.parse(self, start))
        except VisitError as error:
            raise error.orig_exc from None

    def opens(self, start: str) -> bool:
        """Whether the next two words open the rule; one could also be a name or an alias."""
        word = self._word(self._index)
        terminal = language.keywords().get(word[0]) if word else None
        following = language.openings(start).get(terminal or "")
        if word is None or following is None:
            return False
        upcoming = next(driver.words_from(self, self._index + 1), None)
        if len(driver.words(word[1])) > 1 or upcoming is None:
            return False
        return any(t in following for t in driver.possible(self, upcoming))

    def _word(self, index: int) -> driver.Word | None:
        return next(driver.words_from(self, index), None)

    def sql_terminal(self, terminal: str) -> Any:
        """The SQL that a terminal of the grammar stands for, read by sqlglot."""
        start, first = self._index, self._curr
        found = self._read_terminal(terminal)
        if found is None or self._index == start:
            raise unexpected(first or None, self._prev or None, [terminal])
        return found

    def _read_terminal(self, terminal: str) -> Any:
        match terminal:
            case "QUERY":
                return self._parse_query()
            case "CONDITION":
                return self._parse_disjunction()
            case "EXPR":
                return self._parse_bitwise()
            case "TYPE":
                return self._parse_types(schema=True)
            case "TABLE_NAME":
                return self._parse_table_parts(schema=True)
            case "KEYS":
                return self._parse_keys(self._parse_bitwise)
            case "SORT_KEYS":
                return self._parse_keys(self._parse_ordered)
            case "IDENT":
                return self._parse_id_var(any_token=False)
        raise AssertionError(terminal)

    def _parse_keys(self, read: Callable[[], Any]) -> list[exp.Expression]:
        """Keys of a table argument; a comma before another argument of the function ends them."""
        if self._match(TokenType.L_PAREN):
            keys = self._parse_csv(read)
            self._match_r_paren()
            return keys
        keys = [read()]
        while self._curr.token_type == TokenType.COMMA and not self._at_argument(self._index + 1):
            self._advance()
            keys.append(read())
        return [k for k in keys if k is not None]

    def _at_argument(self, index: int) -> bool:
        word = self._text_at(index)
        return (
            word in ("TABLE", "DESCRIPTOR", "INTERVAL", "CASE")
            or self._type_at(index) in (TokenType.NUMBER, TokenType.STRING)
            or self._type_at(index + 1) == TokenType.FARROW
        )

    def _parse_query(self) -> Any:
        """A whole query: set operations and modifiers behind a parenthesis included."""
        return self._parse_query_modifiers(
            self._parse_set_operations(self._parse_select(nested=True, parse_subquery_alias=False))
        )

    # --- statements ---

    def _parse_statement(self) -> Any:
        if self._curr.token_type in driver.QUERY_STARTS:
            return self._parse_query()
        return Carrier(this=self.syntax("statement"))

    # --- query modifiers ---

    def _parse_query_modifiers(self, this: Any) -> Any:
        if not isinstance(this, self.MODIFIABLES):
            return this
        for join in self._parse_joins():
            this.append("joins", join)
        for lateral in iter(self._parse_lateral, None):
            this.append("laterals", lateral)
        last: tuple[int, str] = (0, "")
        while True:
            if self.opens("stream_clause"):
                last = self._parse_stream_clause(this, last)
            elif self._match_set(self.QUERY_MODIFIER_PARSERS, advance=False):
                last = self._parse_modifier(this, last)
            else:
                return this

    def _parse_stream_clause(self, this: exp.Expression, last: tuple[int, str]) -> tuple[int, str]:
        token = self._curr
        clause = self.syntax("stream_clause")
        field = clause_field(clause)
        if field == "window" and not this.args.get("group"):
            raise failure("a window clause needs GROUP BY before it", clause.span, ORDER)
        present = this.args.get("stream")
        if present is not None and getattr(present.this, field) is not None:
            raise failure(f'"{token.text.upper()}" is given twice', token_span(token), ORDER)
        rank = self._in_order(field, token, last)
        add_clause(this, n.StreamClauses, field, clause)
        return rank

    def _parse_modifier(self, this: exp.Expression, last: tuple[int, str]) -> tuple[int, str]:
        token = self._curr
        key, expression = self.QUERY_MODIFIER_PARSERS[token.token_type](self)
        if not expression:
            raise unexpected(token, self._prev, [])
        if this.args.get(key):
            raise failure(f'"{token.text.upper()}" is given twice', token_span(token), ORDER)
        rank = self._in_order(key, token, last)
        this.set(key, expression)
        if key == "limit" and expression.args.get("offset"):
            this.set("offset", exp.Offset(expression=expression.args["offset"]))
            expression.set("offset", None)
        return rank

    def _in_order(self, key: str, token: Token, last: tuple[int, str]) -> tuple[int, str]:
        text, rank = token.text.upper(), rank_of(key, last[0])
        if rank < last[0]:
            raise failure(f'"{text}" must stand before "{last[1]}"', token_span(token), ORDER)
        return rank, text

    def _parse_set_operations(self, this: Any) -> Any:
        result = super()._parse_set_operations(this)
        if isinstance(result, exp.SetOperation) and result is not this:
            _hoist_emit(result)
        return result

    # --- GROUP BY ---

    def _parse_group(self, skip_group_by_token: bool = False) -> Any:
        if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
            return None
        comments = self._prev_comments
        if self.opens("stream_clause"):
            return self.expression(exp.Group(expressions=[]), comments=comments)
        return super()._parse_group(skip_group_by_token=True)

    def _parse_grouping_sets(self) -> Any:
        if self.opens("group_window"):
            return Carrier(this=self.syntax("group_window"))
        return super()._parse_grouping_sets()

    # --- tables ---

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        start = self._curr
        table = self._parse_table_function(kwargs.get("alias_tokens"))
        if table is None:
            table = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Expression) and not kwargs.get("schema"):
            self._parse_table_clauses(table)
            if start:
                mark(table, start.start, self._prev.end + 1)
        return table

    def _parse_table_clauses(self, table: exp.Expression) -> None:
        if isinstance(table, exp.Table) and not table.args.get("version"):
            table.set("version", self._parse_version())
        while self.opens("table_clause"):
            token = self._curr
            clause = self.syntax("table_clause")
            field = clause_field(clause)
            if getattr(table_clauses_of(table), field) is not None:
                raise failure(f'"{token.text.upper()}" is given twice', token_span(token), ORDER)
            add_clause(table, n.TableClauses, field, clause)

    def _parse_table_function(self, alias_tokens: Any) -> exp.Expression | None:
        if not self._at_table_function():
            return None
        table = exp.Table(this=Carrier(this=self.syntax("table_function")))
        alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
        if alias:
            table.set("alias", alias)
        return table

    def _at_table_function(self) -> bool:
        """A window function's name, or any call with a TABLE or DESCRIPTOR argument, also inside ``TABLE( )``."""
        index = self._index
        if self._curr.token_type == TokenType.TABLE and self._next.token_type == TokenType.L_PAREN:
            index += 2
        opening = index + 1
        while self._type_at(opening) == TokenType.DOT:
            opening += 2
        if self._type_at(opening) != TokenType.L_PAREN or self._type_at(index) not in self.ID_VAR_TOKENS | _FUNCTIONS:
            return False
        return self._text_at(index) in WINDOW_FUNCTIONS or self._has_table_argument(opening)

    def _has_table_argument(self, opening: int) -> bool:
        depth = 0
        for token in self._tokens[opening:]:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return False
            if depth == 1 and token.text.upper() in ("TABLE", "DESCRIPTOR") and token.token_type in _WORDS:
                return True
        return False

    def _type_at(self, index: int) -> TokenType | None:
        return self._tokens[index].token_type if index < len(self._tokens) else None

    def _text_at(self, index: int) -> str:
        return self._tokens[index].text.upper() if index < len(self._tokens) else ""

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> Any:
        if self.opens("table_clause") or self.opens("stream_clause"):
            return None
        return super()._parse_table_alias(alias_tokens)

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        """A table must follow a comma: sqlglot would swallow the error in it."""
        if self._match(TokenType.COMMA, advance=False):
            self._advance()
            table = self._parse_table(alias_tokens=kwargs.get("alias_tokens"))
            return self.expression(exp.Join(this=table, kind="CROSS"))
        return super()._parse_join(*args, **kwargs)

    # --- intervals and places ---

    def _parse_interval_span(self, this: Any, parse_function_unit: bool = True) -> Any:
        """``TO`` continues an interval only before a unit: ``ALLOW INTERVAL '1' SECOND TO late`` names a table."""
        unit = self._parse_var(any_token=True, upper=True) if self._curr.text.upper() in _UNITS else None
        parts = exp.INTERVAL_STRING_RE.findall(this.name) if this.is_string and unit is None else []
        if unit is None and not parts:
            where = self._curr if self._curr.token_type == TokenType.VAR else self._prev
            raise failure("an interval needs a unit", token_span(where), hint="Write for example INTERVAL '5' SECOND.")
        if len(parts) == 1:
            this, unit = exp.Literal.string(parts[0][0]), exp.Var(this=parts[0][1].upper())
        if self._curr.text.upper() == "TO" and self._next.text.upper() in _UNITS:
            self._advance()
            unit = exp.IntervalSpan(this=unit, expression=self._parse_var(any_token=True, upper=True))
        if this.is_number:
            this = exp.Literal.string(this.name)
        return self.expression(exp.Interval(this=this, unit=unit))

    def _parse_unary(self) -> Any:
        start = self._curr
        found = super()._parse_unary()
        if start and isinstance(found, exp.Expression) and self._prev.end >= start.start:
            mark(found, start.start, self._prev.end + 1)
        return found


_UNITS: Collection[str] = frozenset(
    unit + plural
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for plural in ("", "S")
)
WINDOW_FUNCTIONS = frozenset({"TUMBLE", "HOP", "CUMULATE", "SESSION", "COUNT_WINDOW"})
_FUNCTIONS = frozenset({TokenType.SESSION, TokenType.VAR})
_WORDS = frozenset({TokenType.TABLE, TokenType.VAR})


def _hoist_emit(union: exp.SetOperation) -> None:
    """EMIT behind the last SELECT belongs to the whole set operation."""
    last = union.expression
    carried = last.args.get("stream") if isinstance(last, exp.Select) else None
    if carried is None or carried.this.emit is None:
        return
    from dataclasses import replace

    emit = carried.this.emit
    rest = replace(carried.this, emit=None)
    last.set("stream", Carrier(this=rest) if rest != n.StreamClauses() else None)
    add_clause(union, n.StreamClauses, "emit", emit)
