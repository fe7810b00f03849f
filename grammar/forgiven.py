"""What sqlglot passes over is refused: words with nothing after them, words that change nothing, and other systems'.

A text that loses a word means something else than its author thinks: ``LIMIT 5 BY k`` would be ``LIMIT 5``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from sqlstream.grammar.failures import failure, token_span, unexpected
from sqlstream.grammar.spans import span_of

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_QUERIES = frozenset({TokenType.SELECT, TokenType.VALUES, TokenType.WITH})
_BEFORE_COLUMNS = frozenset({TokenType.ALL, TokenType.DISTINCT, TokenType.HINT})
_BOUNDS = ("start", "end")
_BEST_OF_EACH = "Write QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY a) <= n."
_FORMAT = "Write DATE_FORMAT(a, 'yyyy') or TO_TIMESTAMP(a, 'yyyy') where a format is needed."
_FRAME = "Write ROWS BETWEEN 5 PRECEDING AND CURRENT ROW."
_GREATEST = "Write MAX_BY(a, b) or MIN_BY(a, b)."
_OF_THEIR_OWN = "PIVOT and TABLESAMPLE stand behind tables of their own"
_OVER = "Write OVER (PARTITION BY k ORDER BY ts)."
_SAMPLE = "Write TABLESAMPLE (n PERCENT)."
_SAMPLE_FIRST = "Write FROM (SELECT * FROM t TABLESAMPLE (n PERCENT)) PIVOT (…)."


class ForgivenParser(SparkParser):
    """Spark's parser, which refuses clauses that sqlglot reads and then ignores."""

    COLON_PLACEHOLDER_TOKENS: ClassVar[set[TokenType]] = SparkParser.COLON_PLACEHOLDER_TOKENS - {TokenType.IDENTIFIER}

    def _inside_since(self, begin: int) -> Iterator[Token]:
        """The tokens read since then that stand in one pair of parentheses."""
        level = 0
        for token in self._tokens[begin : self._index]:
            level += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
            if level == 1:
                yield token

    def _unexpected(self, *wanted: str) -> Exception:
        return unexpected(self._curr or None, self._prev or None, wanted)

    # --- names ---

    def _parse_alias(self, this: Any, explicit: bool = False) -> Any:
        begin = self._index
        return self._named(super()._parse_alias(this, explicit), begin)

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> Any:
        begin = self._index
        if self._curr.token_type in (TokenType.PIVOT, TokenType.UNPIVOT):
            raise self._unexpected()
        return self._named(super()._parse_table_alias(*args, **kwargs), begin)

    def _parse_function_parameter(self) -> Any:
        """A column of an alias, which has no type."""
        return self._parse_id_var()

    def _named(self, parsed: Any, begin: int) -> Any:
        if self._index > begin and self._prev.token_type == TokenType.ALIAS:
            raise self._unexpected("IDENT")
        return parsed

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> Any:
        """There is no ``SELECT AS STRUCT``."""
        opening = self._tokens[self._index + 1 : self._index + 4] if self._curr.token_type == TokenType.SELECT else []
        word = next((token for token in opening if token.token_type not in _BEFORE_COLUMNS), None)
        if word is not None and word.token_type == TokenType.ALIAS:
            raise unexpected(word, None, ["CONDITION"])
        return super()._parse_select_query(*args, **kwargs)

    def _parse_cte(self) -> Any:
        """NOT MATERIALIZED asks for what is done anyway."""
        if self._curr.token_type == TokenType.ALIAS:
            raise self._unexpected("IDENT")
        cte = super()._parse_cte()
        if cte is not None and cte.args.get("materialized") is False:
            cte.set("materialized", None)
        return cte

    def _parse_recursive_with_search(self) -> Any:
        token = self._curr
        search = super()._parse_recursive_with_search()
        if search is not None:
            hint = "Compute the order in the query, as a column that grows."
            raise failure(f"{token.text.upper()} of WITH is not part of the dialect", token_span(token), hint=hint)
        return search

    def _parse_star_op(self, *keywords: str) -> Any:
        begin = self._index
        columns = super()._parse_star_op(*keywords)
        if self._index > begin and not columns:
            raise self._unexpected("IDENT")
        return columns

    def _parse_using_identifiers(self) -> Any:
        """Columns of both sides, so without the name of a table."""
        names = self._parse_wrapped_csv(lambda: self._parse_id_var(any_token=False), optional=True)
        if not names:
            at = self._prev if self._prev.token_type == TokenType.R_PAREN else self._curr
            raise unexpected(at or None, self._prev or None, ["IDENT"])
        return names

    # --- expressions ---

    def _parse_between(self, this: Any) -> Any:
        symmetric = True if self._match_text_seq("SYMMETRIC") else None
        if symmetric is None and self._match_text_seq("ASYMMETRIC"):
            symmetric = False
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            raise self._unexpected("AND")
        high = self._parse_bitwise()
        return self.expression(exp.Between(this=this, low=low, high=high, symmetric=symmetric))

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> Any:
        cast = super()._parse_cast(strict, safe)
        if isinstance(cast, exp.Cast) and not (cast.args.get("format") or cast.args.get("default")):
            kind = span_of(cast.args["to"])
            if kind is None or kind.end == self._prev.end + 1:
                return cast
        raise failure("a CAST is written CAST(a AS type)", token_span(self._prev), hint=_FORMAT)

    def _parse_substring(self) -> Any:
        """``SUBSTRING(a FROM 2 FOR 3)``, or with commas."""
        operands: list[Any] = self._parse_csv(self._parse_bitwise) or [None]
        for word in (TokenType.FROM, TokenType.FOR):
            if self._match(word):
                operands.append(self._parse_bitwise())
        if None in operands:
            raise self._unexpected("CONDITION")
        return self.validate_expression(exp.Substring.from_arg_list(operands), operands)

    def _parse_lambda(self, *args: Any, **kwargs: Any) -> Any:
        if self._curr.token_type == TokenType.ALL and self._next.token_type in _QUERIES:
            raise unexpected(self._next, self._curr, ["CONDITION"])
        return super()._parse_lambda(*args, **kwargs)

    def _parse_having_max(self, this: Any) -> Any:
        if self._curr.token_type == TokenType.HAVING and self._next.text.upper() in ("MAX", "MIN"):
            raise failure("HAVING in a call is not part of the dialect", token_span(self._curr), hint=_GREATEST)
        return this

    # --- windows ---

    def _parse_partition_by(self) -> Any:
        keys = super()._parse_partition_by()
        if not keys and self._prev.token_type == TokenType.PARTITION_BY:
            raise self._unexpected("CONDITION")
        return keys

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        if isinstance(this, exp.Window):
            raise self._unexpected()
        begin = self._index
        window = super()._parse_window(this, alias)
        if not isinstance(window, exp.Window):
            return window
        named = window.alias.upper() == "OVER"
        if named or self._prev.token_type == TokenType.OVER or window.args.get("first") is not None:
            raise failure("OVER needs a window", token_span(self._prev), hint=_OVER)
        spec = window.args.get("spec")
        if spec is not None:
            words = [token.text.upper() for token in self._inside_since(begin)]
            if defect := _defect_of_frame(spec, words):
                raise failure(defect, token_span(self._prev), hint=_FRAME)
            if spec.args.get("end") is None:  # it prints so
                spec.set("end", "CURRENT ROW")
        return window

    def _parse_per(self, this: Any) -> Any:
        return this

    # --- after SELECT ---

    def _parse_ordered(self, parse_method: Any = None) -> Any:
        begin = self._index + 1
        ordered = super()._parse_ordered(parse_method)
        behind = self._tokens[max(begin, self._index - 4) : self._index]  # with NULLS LAST
        last = [token.token_type for token in behind]
        if ordered is not None and (TokenType.ASC, TokenType.DESC) in pairwise(last):
            raise failure("a key is sorted one way: ASC or DESC", token_span(self._prev))
        if ordered is not None and ordered.args.get("with_fill"):
            raise failure("ORDER BY … WITH FILL is not part of the dialect", token_span(self._prev))
        return ordered

    def _parse_limit(self, this: Any = None, top: bool = False, skip_limit_token: bool = False) -> Any:
        """``FETCH FIRST n ROWS ONLY`` is ``LIMIT n``. There is no TOP, for which sqlglot asks here, too."""
        if top:
            return None
        token = self._curr
        fetches = not skip_limit_token and token.token_type == TokenType.FETCH
        if fetches and self._next.token_type not in (TokenType.FIRST, TokenType.NEXT):
            raise unexpected(self._next or None, token, [])
        if not skip_limit_token and token.token_type == TokenType.LIMIT and self._next.token_type == TokenType.COMMA:
            raise unexpected(self._next, token, ["CONDITION"])
        limit: Any = self._fetch() if fetches else super()._parse_limit(this, skip_limit_token=skip_limit_token)
        if limit is this:
            return this
        self._check_limit(limit, token, fetches)
        return exp.Limit(this=this, expression=limit.args["count"]) if fetches else limit

    def _fetch(self) -> exp.Fetch:
        """``FETCH FIRST ROW ONLY`` is one row."""
        self._advance(2)
        one = self._curr.text.upper() in ("ROW", "ROWS")
        count = exp.Literal.number(1) if one else self._parse_term()
        return exp.Fetch(count=count, limit_options=self._parse_limit_options())

    def _check_limit(self, limit: exp.Expr, token: Token, fetches: bool) -> None:
        """``token`` opened it."""
        options, word = limit.args.get("limit_options"), self._prev.text.upper()
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            message = f"{token.text.upper()} with PERCENT or TIES is not part of the dialect"
            raise failure(message, token_span(token), hint="Write LIMIT n.")
        if limit.expressions or word == "BY":
            raise failure("LIMIT … BY is not part of the dialect", token_span(token), hint=_BEST_OF_EACH)
        if fetches and options is None:
            raise self._unexpected()
        if not fetches and (options is not None or word == "ONLY"):
            raise unexpected(self._prev, None, [])
        if fetches and isinstance(limit.args.get("count"), exp.Column | None):
            raise failure("FETCH needs a number of rows", token_span(token), hint="Write FETCH FIRST 5 ROWS ONLY.")

    def _parse_offset(self, this: Any = None) -> Any:
        offset: Any = super()._parse_offset(this)
        if offset is not this and (offset.expressions or self._prev.text.upper() == "BY"):
            raise failure("OFFSET … BY is not part of the dialect", token_span(self._prev), hint=_BEST_OF_EACH)
        return offset

    def parse_set_operation(self, this: Any, *args: Any, **kwargs: Any) -> Any:
        """Parse a set operation, unless join words such as FULL OUTER precede UNION, which is BigQuery's syntax."""
        if self._curr.token_type not in self.SET_OPERATIONS:
            return None
        return super().parse_set_operation(this, *args, **kwargs)

    def _parse_cube_or_rollup(self, with_prefix: bool = False) -> Any:
        if with_prefix and self._curr.token_type not in (TokenType.CUBE, TokenType.ROLLUP):
            raise self._unexpected()
        return super()._parse_cube_or_rollup(with_prefix)

    # --- tables ---

    def _parse_join_parts(self) -> Any:
        if self._curr.token_type == TokenType.STRAIGHT_JOIN:
            raise self._unexpected()
        return super()._parse_join_parts()

    def _parse_table_hints(self) -> Any:
        """Hints of MySQL and of T-SQL."""
        return None

    def _parse_table_sample(self, as_modifier: bool = False) -> Any:
        sample = super()._parse_table_sample(as_modifier)
        if sample is not None and sample.args.get("method") is not None:
            raise failure("TABLESAMPLE has no methods", token_span(self._prev), hint=_SAMPLE)
        if sample is not None and self._tokens[self._index - 2].token_type == TokenType.L_PAREN:
            raise unexpected(self._prev, None, [])
        if sample is not None and not any(sample.args.get(key) for key in ("size", "percent", "bucket_numerator")):
            raise failure("TABLESAMPLE needs a size", token_span(self._prev), hint=_SAMPLE)
        return sample

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        table: Any = super()._parse_table(*args, **kwargs)
        if isinstance(table, exp.Table) and table.args.get("sample") and table.args.get("pivots"):
            raise failure(_OF_THEIR_OWN, token_span(self._prev), hint=_SAMPLE_FIRST)
        pivots = table.args.get("pivots") if isinstance(table, exp.Expr) else None
        if pivots and table.args.get("alias") and pivots[0].args.get("alias") and _begin(pivots[0]) < _begin(table):
            raise failure("a PIVOT has one alias", token_span(self._prev))
        return table

    def _parse_derived_table_values(self, *args: Any, **kwargs: Any) -> Any:
        """There is no ``FORMAT VALUES``."""
        return None if self._curr.text.upper() == "FORMAT" else super()._parse_derived_table_values(*args, **kwargs)

    def _parse_simplified_pivot(self, *args: Any, **kwargs: Any) -> Any:
        raise unexpected(self._prev, None, [])


def _begin(named: exp.Expr) -> int:
    """Where the name of its alias begins."""
    begin: int = named.args["alias"].this.meta.get("start", 0)
    return begin


def _defect_of_frame(spec: exp.Expr, words: list[str]) -> str | None:
    """``words`` are what stands in the parentheses of OVER."""
    pairs = set(pairwise(words))
    bounds = [spec.args.get(bound) for bound in _BOUNDS]
    sides = [spec.args.get(f"{bound}_side") for bound in _BOUNDS]
    doubled = ("BETWEEN", "BETWEEN") in pairs or ("AND", "BETWEEN") in pairs or words[-1:] == ["AND"]
    if bounds[0] is None:
        return "a frame needs a start"
    if doubled or ((spec.args["kind"].upper(), "BETWEEN") in pairs) != (bounds[1] is not None):
        return "a frame has a start alone, or BETWEEN a start AND an end"
    if any(bound not in (None, "CURRENT ROW") and not side for bound, side in zip(bounds, sides, strict=True)):
        return "PRECEDING or FOLLOWING must stand behind what a frame begins or ends with"
    if any(isinstance(bound, exp.Column) for bound in bounds):
        return "a frame begins and ends at constants"
    return "EXCLUDE in a frame is not part of the dialect" if spec.args.get("exclude") is not None else None
