"""The parser of the dialect: queries with streaming clauses in their modifiers, and statements."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from sqlstream.errors import Span
from sqlstream.grammar import clauses as driver
from sqlstream.grammar import nodes as n
from sqlstream.grammar.clauses import ClauseParser
from sqlstream.grammar.failures import ORDER, SyntaxFailure, failure, misspelt, token_span, unexpected
from sqlstream.grammar.language import openings
from sqlstream.grammar.spans import mark, span_of
from sqlstream.grammar.trees import ARG, Carrier, add_clause, clauses_of, table_clauses_of

# --- the order of a query's modifiers, standard and streaming ----------------------------------------------------


_RANKS = {
    "where": 1, "group": 2, "window": 3, "trigger": 4, "evict": 5, "late_data": 6,
    "order": 7, "sort": 7, "distribute": 7, "cluster": 7, "limit": 8, "offset": 9, "emit": 10,
}  # fmt: skip
BEHIND_A_SET_OPERATION = frozenset({"order", "sort", "distribute", "cluster", "limit", "offset"})
_BEHIND_GROUP = frozenset({"having", "qualify", "windows"})


def rank_of(key: str, last: int) -> int:
    """The position of a clause in the order that SELECT prescribes, to detect clauses in the wrong order. ``key`` is
    sqlglot's name of the clause. ``last`` is the rank of the clause before it; a lower result than ``last`` is a
    mistake.
    """
    if key in _BEHIND_GROUP:
        return max(last, _RANKS["group"]) if last < _RANKS["order"] else _RANKS["group"]
    return _RANKS.get(key, last)


_BEFORE_GROUP = {"JOIN": 0, "LEFT JOIN": 0, "WHERE": 1, "GROUP BY": 2}
_BEHIND = {"ORDER BY": 7, "LIMIT": 8, "UNION ALL": 11}
_OF_SELECT = {"TRIGGER": 4, "EVICT": 5, "LATE DATA": 6}


def modifiers_after(last: int, select: bool) -> frozenset[str]:
    """The keywords of clauses that may follow in a query after a clause whose ``rank_of`` is ``last``. ``select``: the
    query is a SELECT, not a set operation.
    """
    words = {**_BEHIND, "EMIT": 10, **({**_BEFORE_GROUP, **_OF_SELECT} if select else {})}
    allowed = {word for word, rank in words.items() if rank > last or rank == last == 0}
    windows = {"COUNT WINDOW", "GLOBAL WINDOW", "WINDOW USING"} if last == _RANKS["group"] else set()
    groups = {"HAVING", "QUALIFY"} if select and last < _RANKS["order"] else set()
    return frozenset(allowed | windows | groups)


_FIELDS: dict[type[n.Node], str] = {
    n.CountWindow: "window",
    n.GlobalWindow: "window",
    n.UserWindow: "window",
    n.Trigger: "trigger",
    n.Evict: "evict",
    n.LateData: "late_data",
    n.Emit: "emit",
    n.WatermarkDelay: "watermark",
    n.AlignBarriers: "barriers",
    n.LookupAsync: "lookup",
    n.TableHint: "hint",
}


def clause_field(clause: n.Node) -> str:
    """The name of the field of ``StreamClauses`` or ``TableClauses`` that holds this clause."""
    return _FIELDS[type(clause)]


# --- table factors: table functions, the clauses after a table and its alias, hints, time travel ----------------


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
    """Parses the sources in FROM: table functions, clauses after a table, hints, time travel."""

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
        """``TABLE t`` is all of t; after it come what a query of a table may have, such as UNION."""
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

    # --- clauses after the table ---

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


_BEFORE_A_KEY = frozenset({TokenType.GROUP_BY, TokenType.COMMA, TokenType.ALL, TokenType.DISTINCT, TokenType.L_PAREN})
_Last = tuple[int, str]
"""Rank and word of the modifier before."""


class SqlStreamParser(TableParser):
    """The parser of the dialect: queries with streaming clauses, and statements."""

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
    """The last modifier that the query has already: sqlglot asks twice after a parenthesis."""
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
    """EMIT after the last SELECT belongs to the whole set operation."""
    last = union.expression
    emit = clauses_of(last).emit if isinstance(last, exp.Select) else None
    if emit is None:
        return
    rest = replace(clauses_of(last), emit=None)
    last.set(ARG, Carrier(this=rest) if rest != n.StreamClauses() else None)
    add_clause(union, n.StreamClauses, "emit", emit)
