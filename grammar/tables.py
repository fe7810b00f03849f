"""Table factors: table functions, the clauses behind a table and its alias, hints, time travel."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from sqlstream.grammar import nodes as n
from sqlstream.grammar.carrier import Carrier, add_clause, table_clauses_of
from sqlstream.grammar.clauses import ClauseParser
from sqlstream.grammar.failures import ORDER, failure, token_span, unexpected
from sqlstream.grammar.language import openings
from sqlstream.grammar.modifiers import clause_field
from sqlstream.grammar.spans import mark, span_of

WINDOW_FUNCTIONS = frozenset({"TUMBLE", "HOP", "CUMULATE", "SESSION", "COUNT_WINDOW"})
SNAPSHOT = "SNAPSHOT"
NOT_AN_ALIAS = frozenset({"ALIGN", "EMIT", "EVICT", "LOOKUP", "TRIGGER"})
"""Words that open a clause; as a table's alias they need AS."""
_FUNCTION_NAMES = ClauseParser.FUNC_TOKENS | {TokenType.SESSION}
_WORDS = frozenset({TokenType.TABLE, TokenType.VAR})
_BEFORE_A_TABLE = frozenset({TokenType.FROM, TokenType.JOIN, TokenType.COMMA})
_COMMA = "comma"
"""What a join by a comma remembers: where that is."""
_NO_COMMA = "Write JOIN for the comma, or the condition right behind the table of the JOIN."
_AFTER_STREAM = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


def _is_name(alias: exp.Expr) -> bool:
    return isinstance(alias, exp.Identifier) or (isinstance(alias, exp.Literal) and alias.is_string)


def _miswritten(pivot: exp.Pivot) -> str | None:
    """How a PIVOT or UNPIVOT that is written in another way is written."""
    fields: list[exp.Expr] = pivot.args.get("fields") or []
    named = [value for field in fields for value in field.expressions if isinstance(value, exp.PivotAlias)]
    odd = any(isinstance(value.this, exp.Query) or not _is_name(value.args["alias"]) for value in named)
    if odd or any(not f.expressions and not f.args.get("query") for f in fields):
        return "with values or columns behind IN: FOR k IN (1, 2)"
    if not pivot.args.get("unpivot"):
        return None if len(fields) == 1 else "PIVOT (SUM(a) FOR k IN (1, 2))"
    is_one = len(fields) == len(pivot.expressions) == 1 and isinstance(fields[0].this, exp.Identifier)
    return None if is_one else "UNPIVOT (v FOR k IN (a, b)), or UNPIVOT ((v, w) FOR k IN ((a, b), (c, d)))"


class TableParser(ClauseParser):
    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("schema"):
            return super()._parse_table(*args, **kwargs)
        bare = self._prev.token_type != TokenType.L_PAREN
        if self._curr.token_type == TokenType.LATERAL and self._next.text.upper() == SNAPSHOT:
            self._advance()  # it reads no row on its left, and is a table function like any other
        if bare and self._curr.token_type in (TokenType.SELECT, TokenType.WITH):
            hint = "A query in FROM stands in parentheses."
            raise failure(f'unexpected "{self._curr.text}"', token_span(self._curr), hint=hint)
        read = super()._parse_table
        alias_tokens = kwargs.get("alias_tokens")
        self._skip_stream_keyword()
        table = self._marked(
            lambda: self._table_of_stream(alias_tokens) or self._table_function(alias_tokens) or read(*args, **kwargs)
        )
        if isinstance(table, exp.Expression) and not isinstance(table, exp.Select | exp.SetOperation):
            self._table_clauses(table)
        return table

    def _parse_select(self, *args: Any, **kwargs: Any) -> Any:
        """``TABLE t`` is all of t; behind it come what a query of a table may have, such as UNION."""
        follows = self._next.token_type
        named = follows == TokenType.IDENTIFIER or (follows in self.ID_VAR_TOKENS and follows != TokenType.DESCRIBE)
        if self._curr.token_type != TokenType.TABLE or not named or self._prev.token_type in _BEFORE_A_TABLE:
            return super()._parse_select(*args, **kwargs)
        start = self._curr
        self._advance()
        table = self._named_table()
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))
        mark(table, start.start, self._prev.end + 1)
        mark(select, start.start, self._prev.end + 1)
        query = self._parse_query_modifiers(select)
        return self._parse_set_operations(query) if kwargs.get("parse_set_operation", True) else query

    def _at_stream_keyword(self) -> bool:
        return self._curr.token_type == TokenType.VAR and self._curr.text.upper() == "STREAM"

    def _skip_stream_keyword(self) -> None:
        """``FROM STREAM t`` is ``FROM t``: every table is a stream. It would be a table "STREAM" with an alias."""
        if not self._at_stream_keyword() or self._next.token_type not in _AFTER_STREAM:
            return
        self._advance()
        if self.opens("table_clause") or self.opens("stream_clause"):
            self._advance(-1)

    def _table_of_stream(self, alias_tokens: Any) -> exp.Expression | None:
        """``FROM STREAM(t)`` as Spark writes it."""
        if not self._at_stream_keyword() or self._next.token_type != TokenType.L_PAREN:
            return None
        self._advance(2)
        table: exp.Expression = self._named_table()
        self._match_r_paren()
        alias = self._parse_table_alias(alias_tokens=alias_tokens or self.TABLE_ALIAS_TOKENS)
        if alias:
            table.set("alias", alias)
        return table

    def _named_table(self) -> Any:
        """A table by its name, and no call."""
        table = self._parse_table_parts()
        if not isinstance(table.this, exp.Identifier):
            raise unexpected(self._prev, None, ["IDENT"])
        return table

    def _parse_pivot(self) -> Any:
        pivot = super()._parse_pivot()
        if pivot is not None and (written := _miswritten(pivot)):
            raise failure(f"it is written {written}", token_span(self._prev))
        if pivot is not None and any(field.find(exp.Values) for field in pivot.args.get("fields") or ()):
            raise failure("IN of PIVOT and UNPIVOT takes no VALUES", token_span(self._prev))
        if pivot is not None and pivot.args.get("unpivot"):
            for name in pivot.find_all(exp.PivotAlias):
                if name.args["alias"].is_string:  # a name all the same, and printed as one
                    name.set("alias", exp.to_identifier(name.args["alias"].name, quoted=True))
        return pivot

    # --- clauses behind the table ---

    def _table_clauses(self, table: exp.Expression) -> None:
        if isinstance(table, exp.Table) and not table.args.get("version"):
            table.set("version", self._parse_version())
        self.offer(openings("table_clause"))
        while True:
            token = self._curr
            if self.opens("table_clause") or (token.text.upper() in NOT_AN_ALIAS and self.begins("table_clause")):
                self._add_table_clause(table, self.syntax("table_clause"), token.text)
            elif not self._table_hint(table):
                return

    def _add_table_clause(self, table: exp.Expression, clause: n.Node, word: str) -> None:
        field = clause_field(clause)
        if getattr(table_clauses_of(table), field) is not None:
            raise failure(f'"{word.upper()}" is given twice', clause.span, ORDER)
        add_clause(table, n.TableClauses, field, clause)

    def _table_hint(self, table: exp.Expression) -> bool:
        token = self._curr
        hint = self._parse_hint() if token.token_type == TokenType.HINT else None
        if hint is None:
            return False
        self._add_table_clause(table, n.TableHint(hint, span=token_span(token)), "/*+ */")
        return True

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        """A hint stands between the table's name and its alias."""
        table = super()._parse_table_parts(*args, **kwargs)
        if isinstance(table, exp.Table) and not kwargs.get("schema"):
            self._table_hint(table)
        if self._curr.token_type in (TokenType.STAR, TokenType.L_BRACKET):
            raise unexpected(self._curr, self._prev, [])
        return table

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> Any:
        reserved = self._curr.token_type == TokenType.VAR and self._curr.text.upper() in NOT_AN_ALIAS
        if reserved or self.opens("table_clause") or self.opens("stream_clause"):
            return None
        read = super()._parse_table_alias
        alias = self._marked(lambda: read(alias_tokens))
        if alias is not None and not isinstance(alias.this, exp.Identifier):
            what = "the alias of a table must be a name" if alias.this else "a list of columns needs a name before it"
            raise failure(what, span_of(alias) or token_span(self._prev), hint="Write FROM t AS x.")
        return alias

    # --- table functions ---

    def _table_function(self, alias_tokens: Any) -> exp.Expression | None:
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
        while self.type_at(opening) == TokenType.DOT:
            opening += 2
        if self.type_at(opening) != TokenType.L_PAREN or self.type_at(index) not in _FUNCTION_NAMES:
            return False
        return self.text_at(index) in WINDOW_FUNCTIONS or self._has_table_argument(opening)

    def _has_table_argument(self, opening: int) -> bool:
        depth = 0
        for index in range(opening, len(self._tokens)):
            token = self._tokens[index]
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return False
            if depth == 1 and token.token_type in _WORDS and token.text.upper() in ("TABLE", "DESCRIPTOR"):
                return True
        return False

    # --- joins ---

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        """A table follows a comma, a condition follows ON, which belongs to a JOIN: sqlglot swallows the errors."""
        if self._curr.token_type != TokenType.COMMA:
            read = super()._parse_join
            join = self._marked(lambda: read(*args, **kwargs))
            if join is not None and self._prev.token_type == TokenType.ON:
                raise self._unexpected("CONDITION")
            nested = join.this.args.get("joins") if join is not None else None
            if comma := next((other.meta[_COMMA] for other in nested or () if _COMMA in other.meta), None):
                raise failure("ON and USING belong to a JOIN, and a comma stands before it", comma, hint=_NO_COMMA)
            return join
        self._advance()
        comma = self._prev
        table = self._parse_table(alias_tokens=kwargs.get("alias_tokens"))
        if table is None or span_of(table) is None:
            raise failure("a table must follow the comma", token_span(comma))
        join = self.expression(exp.Join(this=table))
        join.meta[_COMMA] = token_span(comma)
        return join
