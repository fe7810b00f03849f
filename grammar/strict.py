"""What sqlglot reads of other systems, or by forgiving a mistake, is refused.

sqlglot reads more than it can print: the tree of such a text would print as another statement or as none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from math import isinf
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.parser import Parser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Span, shortened
from sqlstream.grammar.failures import LITERAL, SyntaxFailure, failure, token_error, token_span, unexpected
from sqlstream.grammar.forgiven import ForgivenParser
from sqlstream.grammar.spans import mark, span_of

_MODIFIERS = frozenset({
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.ORDER_BY, TokenType.LIMIT,
    TokenType.FETCH, TokenType.OFFSET, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.SORT_BY,
    TokenType.MATCH_RECOGNIZE,
})  # fmt: skip
_PREDICATES = (
    TokenType.BETWEEN, TokenType.ILIKE, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.OVERLAPS, TokenType.RLIKE,
    TokenType.SIMILAR_TO,
)  # fmt: skip
_WHOLE_CONDITIONS = (exp.Predicate, exp.Not, exp.Escape)
_DISTANCES = frozenset({TokenType.LR_ARROW, TokenType.LLRR_ARROW})
_CONDITIONS_OF_IS = (exp.Null, exp.Boolean, exp.JSON)
_INSIDE_A_TYPE = frozenset({TokenType.COMMA, TokenType.LT})
_OPENING_A_TYPE = frozenset({TokenType.LT, TokenType.L_PAREN, TokenType.L_BRACKET})
_NAMES = frozenset({TokenType.IDENTIFIER, TokenType.STRING})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_OF_A_FIELD = (exp.NotNullColumnConstraint, exp.CommentColumnConstraint)
_CONSTANTS = frozenset({TokenType.FALSE, TokenType.NULL, TokenType.TRUE})
_EMPTY = ([TokenType.L_PAREN, TokenType.R_PAREN], [TokenType.LT, TokenType.GT])
_OF_OTHERS = frozenset({TokenType.L_BRACE, TokenType.PARAMETER})
_WORD = re.compile(r"\w+")
_NOT_WORDS = frozenset({
    TokenType.NUMBER, TokenType.BIT_STRING, TokenType.HEX_STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING,
    TokenType.RAW_STRING, TokenType.HEREDOC_STRING, TokenType.UNICODE_STRING,
})  # fmt: skip
_TEXTS = frozenset({exp.DType.CHAR, exp.DType.VARCHAR})
_SYNONYMS = {
    exp.DType.DATETIME: exp.DType.TIMESTAMPTZ,
    exp.DType.NCHAR: exp.DType.CHAR,
    exp.DType.NVARCHAR: exp.DType.VARCHAR,
}
_SIZES = {
    exp.DType.DECIMAL: 2,
    **dict.fromkeys((exp.DType.CHAR, exp.DType.VARCHAR, exp.DType.BINARY), 1),
    **dict.fromkeys((exp.DType.VARBINARY, exp.DType.TIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ), 1),
    **dict.fromkeys((exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ), 1),
}
"""How many numbers in parentheses a type may have; the others have none."""
_TIMES = frozenset({
    exp.DType.TIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ,
})  # fmt: skip
_DIGITS_OF_A_SECOND = 6
_AS_OF = "Write FOR SYSTEM_TIME AS OF o.pt."
_EXTRACT = "Write for example EXTRACT(DAY FROM ts)."
_LATERAL = "Write LATERAL (SELECT …) AS t, or LATERAL TABLE(f(x)) AS t."
_NAMED_SO = "A column of that name stands in backticks."
_IN_LIST = "Write a IN (1, 2), or ARRAY_CONTAINS(b, a) for an array b."
_MOST_DIGITS = 38
_MOST_CHARACTERS = 1_000
_WINDOWS = frozenset({"CUMULATE", "HOP", "SESSION", "TUMBLE"})
_NAME = "Both ' and \" hold a text: a name stands in backticks, as in `t`.`a`."
_NO_HEX = "Write X'1F' for bytes; numbers are written with digits only."


def _hexadecimal(self: StrictParser, token: Token) -> Any:
    written = self.sql[token.start : token.end + 1]
    if written[:1] == "0":
        raise failure(f'"{written}" is not a number of the dialect', token_span(token), LITERAL, _NO_HEX)
    read: Callable[..., Any] = SparkParser.PRIMARY_PARSERS[token.token_type]
    return read(self, token)


def _number(self: StrictParser, token: Token) -> Any:
    """A number that Spark can hold. One of very many leading zeros loses them: Python converts no such text."""
    defect = _defect_of(token.text)
    if defect is not None:
        raise failure(f'"{shortened(token.text)}" {defect}', token_span(token), LITERAL)
    if len(token.text) > _MOST_CHARACTERS and "e" not in token.text.lower():
        stripped = token.text.lstrip("0")
        return exp.Literal.number(stripped if stripped[:1].isdigit() else f"0{stripped}")
    read: Callable[..., Any] = SparkParser.PRIMARY_PARSERS[token.token_type]
    return read(self, token)


def _defect_of(number: str) -> str | None:
    if "e" in number.lower():
        try:
            return "is out of the range of a DOUBLE" if isinf(float(number)) else None
        except ValueError:
            return "is not a number"
    digits = len(number.lstrip("0").replace(".", "")) or 1
    return f"has more than the {_MOST_DIGITS} digits of a DECIMAL" if digits > _MOST_DIGITS else None


def _one_predicate(read: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, this: read(self, _enclosed(this))


def _enclosed(value: Any) -> Any:
    """``a IS NULL IS NULL`` is ``(a IS NULL) IS NULL``: Spark takes one predicate after a value."""
    return exp.Paren(this=value) if isinstance(value, _WHOLE_CONDITIONS) else value


def _without_plus(self: StrictParser) -> Any:
    """``+a`` is a; a call with the name of a window would print as the window among the keys of GROUP BY."""
    value = self._parse_unary()
    if value is None or isinstance(value, exp.Select | exp.SetOperation):
        raise self._unexpected("CONDITION")
    window = isinstance(value, exp.Anonymous) and value.name.upper() in _WINDOWS
    return exp.Paren(this=value) if window else value


class StrictParser(ForgivenParser):
    """Parses Spark's syntax, and refuses that of other systems, which sqlglot accepts."""

    ASSIGNMENT: ClassVar[dict[TokenType, Any]] = {}
    FACTOR: ClassVar[dict[TokenType, Any]] = {
        token: kind for token, kind in SparkParser.FACTOR.items() if token not in _DISTANCES
    }
    RANGE_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        token: _one_predicate(SparkParser.RANGE_PARSERS[token]) for token in _PREDICATES
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: _without_plus,
    }
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {"ARRAY": exp.Array}  # LIST is a name like others
    TYPE_LITERAL_PARSERS: ClassVar[dict[Any, Callable[..., Any]]] = {}
    BRACKETS: ClassVar[frozenset[TokenType]] = frozenset({TokenType.L_BRACKET})
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        token: read for token, read in SparkParser.PLACEHOLDER_PARSERS.items() if token not in _OF_OTHERS
    }
    NUMERIC_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.NUMERIC_PARSERS,
        TokenType.HEX_STRING: _hexadecimal,
        TokenType.NUMBER: _number,
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.PRIMARY_PARSERS,
        TokenType.HEX_STRING: _hexadecimal,
        TokenType.NUMBER: _number,
    }
    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        token: read
        for token, read in SparkParser.QUERY_MODIFIER_PARSERS.items()
        if token in _MODIFIERS or token == TokenType.WINDOW
    }
    # Spark's window(ts, …) is a key of GROUP BY, not a WINDOW clause.
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = set(_MODIFIERS)

    def stand_at(self, text: str, tokens: list[Token]) -> None:
        """Gives the parser the tokens of a statement and sets it to the first one. The tokens' positions point into
        ``text``.
        """
        self.reset()
        self.sql = text
        self._tokens = _without_suffixes(tokens)
        self._tokens_size = len(tokens)
        self._index = -1
        self._advance()

    # --- names ---

    def _advance_any(self, ignore_reserved: bool = False) -> Any:
        """A word in place of a name; keywords of two words, such as GROUP BY, and literals are none."""
        token = self._curr
        word = token.token_type not in _NOT_WORDS and _WORD.fullmatch(token.text) is not None
        return super()._advance_any(ignore_reserved) if word or token.token_type in _NAMES else None

    def _parse_id_var(self, *args: Any, **kwargs: Any) -> Any:
        """A reserved word in place of a name is printed in backticks, because it is none elsewhere."""
        name = super()._parse_id_var(*args, **kwargs)
        if isinstance(name, exp.Identifier) and self._prev.token_type not in self.ID_VAR_TOKENS:
            name.set("quoted", True)
        return name

    def _parse_column_reference(self) -> Any:
        """ALL is no column: after SELECT or inside of a call it would be another word."""
        token, before = self._curr, self._prev
        column = super()._parse_column_reference()
        is_all = isinstance(column, exp.Column) and token.token_type == TokenType.ALL
        if is_all and before.token_type != TokenType.ORDER_BY:
            raise failure('unexpected "ALL"', token_span(token), hint=_NAMED_SO)
        return column

    def _parse_table_part(self, schema: bool = False) -> Any:
        """A name stands before and after each dot; ``a..b`` is another system's."""
        behind_dot = self._prev.token_type == TokenType.DOT
        name = None if self._curr.token_type == TokenType.DOT else super()._parse_table_part(schema)
        if name is None and (behind_dot or self._curr.token_type == TokenType.DOT):
            raise self._unexpected("IDENT")
        return name

    def _parse_field(self, any_token: bool = False, *args: Any, **kwargs: Any) -> Any:
        behind_dot = any_token and self._prev.token_type == TokenType.DOT
        if behind_dot and self._curr.token_type in (*_NOT_WORDS, TokenType.STRING, TokenType.DOT):
            text = self._curr.token_type == TokenType.STRING
            raise failure(f'unexpected "{self._curr.text}"', token_span(self._curr), hint=_NAME if text else None)
        if behind_dot and self._curr.token_type in _CONSTANTS and self._match_set(_CONSTANTS):
            return exp.to_identifier(self._prev.text, quoted=False)
        return super()._parse_field(any_token, *args, **kwargs)

    # --- literals and what stands after them ---

    def _parse_column_ops(self, this: Any) -> Any:
        if isinstance(this, exp.Literal) and self._curr.token_type == TokenType.DOT:
            name = "text" if this.is_string else "number"
            raise failure(f"a {name} has no fields", token_span(self._prev), hint=_NAME if this.is_string else None)
        try:
            return super()._parse_column_ops(this)
        except InvalidOperation:  # after a number that begins with a dot, which is none of its own
            raise failure("this is not a number of the dialect", token_span(self._prev), LITERAL) from None

    def _parse_dcolon(self) -> Any:
        """``0.1BD`` comes as ``0.1::BD``: the decimal that holds the number, as in Spark."""
        number, suffix = self._tokens[self._index - 2], self._curr
        if suffix.token_type != TokenType.DECIMAL or suffix.start != number.start:
            return super()._parse_dcolon()
        self._advance()
        try:
            value = Decimal(number.text).as_tuple()
        except InvalidOperation:
            message = f'"{shortened(number.text)}" is out of the range of a DECIMAL'
            raise failure(message, token_span(number), LITERAL) from None
        exponent = value.exponent
        assert isinstance(exponent, int), "a NUMBER is finite"
        scale = max(0, -exponent)
        precision = max(len(value.digits) + max(0, exponent), scale)
        return exp.DataType.build(f"DECIMAL({precision}, {scale})")

    def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> Any:
        """A name in backticks is no type; nor is ``ARRAY(…)`` or ``ARRAY[…]`` in an expression, which sqlglot would
        read twice at each level of calls inside each other."""
        start, index = self._curr, self._index
        call = check_func and start.token_type in self.NESTED_TYPE_TOKENS and self._next.token_type in _OPENING
        if call or start.token_type == TokenType.IDENTIFIER:
            return None
        if not check_func and start.text.upper() == "RAW" and self._next.token_type == TokenType.L_PAREN:
            raise failure("a RAW type holds objects of Java", token_span(start), hint="Declare BYTES.")
        before = self._tokens[self._index - 1].token_type if self._index else None
        # Spark's would forget the lengths of texts outside of CREATE TABLE, and look through each type at each level.
        kind = self._multiset() or Parser._parse_types(self, check_func, *args, **kwargs)
        if check_func and self._is_no_type(kind, index):
            self._retreat(index)
            return None
        if isinstance(kind, exp.DataType):
            self._check_behind_type(index)
        is_schema = args[0] if args else kwargs.get("schema", False)
        if (isinstance(kind, exp.Cast) and is_schema) or (isinstance(kind, exp.DataType) and kind.args.get("values")):
            raise failure("an array has no size", Span(start.start, self._prev.end + 1), hint="Write ARRAY<INT>.")
        if isinstance(kind, exp.DataType) and self._prev.end >= start.start:
            if isinstance(kind.this, exp.Interval):
                self._interval_digits(kind.this)
            if before in _INSIDE_A_TYPE and self._match_text_seq("NOT", "NULL"):
                kind.set("nullable", False)
            kind.set("this", _SYNONYMS.get(kind.this, kind.this))
            if kind.this in _TEXTS and not kind.expressions:
                kind.set("this", exp.DType.TEXT)
            _check_sizes(kind, Span(start.start, self._prev.end + 1))
            kind = self._collected(kind)
            mark(kind, start.start, self._prev.end + 1)
        return kind

    def _is_no_type(self, kind: Any, index: int) -> bool:
        """sqlglot takes JSON(a):b for a type and one of its fields, LIST in an expression is a name like others, and
        DATE() is a call."""
        colon = self._prev.token_type == TokenType.R_PAREN and self._curr.token_type == TokenType.COLON
        is_list = isinstance(kind, exp.DataType) and kind.this == exp.DType.LIST
        return colon or is_list or self._is_empty(index)

    def _check_behind_type(self, index: int) -> None:
        """What begins there has been read as a type."""
        if self._is_empty(index):
            raise unexpected(self._tokens[index + 2], None, [])
        if self._prev.token_type == TokenType.COLLATE:
            raise self._unexpected("IDENT")

    def _is_empty(self, index: int) -> bool:
        """The word there has parentheses or angle brackets with nothing in them."""
        behind = self._tokens[index + 1 : index + 3]
        return [token.token_type for token in behind] in _EMPTY

    def _multiset(self) -> exp.DataType | None:
        """``MULTISET<T>`` is a map of its elements to how often they are in it, as Flink keeps it."""
        if self._curr.text.upper() != "MULTISET" or self._next.token_type != TokenType.LT:
            return None
        self._advance(2)
        element = self._parse_types()
        if element is None or not self._match(TokenType.GT):
            raise self._unexpected("TYPE")
        return _multiset_of(element)

    def _collected(self, kind: exp.DataType) -> exp.DataType:
        """``INT ARRAY`` and ``INT MULTISET``, which are the same as ``ARRAY<INT>`` and ``MULTISET<INT>``."""
        while self._curr.text.upper() in ("ARRAY", "MULTISET") and self._next.token_type not in _OPENING_A_TYPE:
            word = self._curr.text.upper()
            self._advance()
            array = exp.DataType(this=exp.DType.ARRAY, expressions=[kind], nested=True)
            kind = array if word == "ARRAY" else _multiset_of(kind)
        return kind

    def _interval_digits(self, interval: exp.Interval) -> None:
        """``DAY(3) TO SECOND(3)``: how many digits a unit may have makes no other type."""
        self._skip_digits()
        if not isinstance(interval.args["unit"], exp.IntervalSpan) and self._match_text_seq("TO"):
            unit = exp.IntervalSpan(this=interval.args["unit"], expression=self._parse_var(upper=True))
            interval.set("unit", unit)
            self._skip_digits()
        unit = interval.args["unit"]
        if isinstance(unit, exp.IntervalSpan) and unit.expression is None:
            raise failure("an interval needs a unit behind TO", token_span(self._prev), hint="Write DAY TO SECOND.")

    def _skip_digits(self) -> None:
        """Numbers in parentheses, where such follow."""
        index = self._index
        if not self._match(TokenType.L_PAREN):
            return
        while self._match(TokenType.NUMBER) and self._match(TokenType.COMMA):
            pass
        if self._prev.token_type != TokenType.NUMBER or not self._match(TokenType.R_PAREN):
            self._retreat(index)

    def _parse_struct_types(self, *args: Any, **kwargs: Any) -> Any:
        """A field, and what is said of it: Flink writes its comment without COMMENT. NULL says nothing."""
        field = super()._parse_struct_types(*args, **kwargs)
        if self._prev.token_type == TokenType.CONSTRAINT:
            raise self._unexpected("IDENT")
        if isinstance(field, exp.ColumnDef) and (said := field.args.get("constraints")):
            kinds = [constraint.args.get("kind") for constraint in said]
            if not all(isinstance(kind, _OF_A_FIELD) for kind in kinds) or len(kinds) != len(set(map(type, kinds))):
                raise failure("a field has a name, a type, NOT NULL and a comment", token_span(self._prev))
            field.set("constraints", [c for c in said if not c.args["kind"].args.get("allow_null")])
        if isinstance(field, exp.ColumnDef) and self._match(TokenType.STRING):
            comment = exp.CommentColumnConstraint(this=exp.Literal.string(self._prev.text))
            field.append("constraints", exp.ColumnConstraint(kind=comment))
        return field

    def _parse_type_size(self) -> Any:
        """A number and nothing after it."""
        size = self._parse_number()
        return exp.DataTypeParam(this=size) if size is not None else None

    def _parse_primary(self) -> Any:
        """``.5`` comes as a dot and a number, which then has no dot of its own."""
        if self._match_pair(TokenType.DOT, TokenType.NUMBER, advance=False):
            token = self._next
            if "." in token.text:
                raise failure("this is not a number of the dialect", token_span(token), LITERAL)
            if defect := _defect_of(f"0.{token.text}"):
                raise failure(f'".{shortened(token.text)}" {defect}', token_span(token), LITERAL)
        return super()._parse_primary()

    def _parse_bracket_key_value(self, is_map: bool = False) -> Any:
        """A value between brackets has no name, which would not be printed between parentheses."""
        return self._parse_slice(self._parse_disjunction())

    # --- operators ---

    def _parse_unary(self) -> Any:
        unary = super()._parse_unary()
        if isinstance(unary, exp.Unary) and isinstance(unary.this, exp.Star):
            raise unexpected(self._prev, None, ["CONDITION"])
        return unary

    def _parse_is(self, this: Any) -> Any:
        predicate = super()._parse_is(this)
        test = predicate.this if isinstance(predicate, exp.Not) else predicate
        if isinstance(test, exp.Is) and not isinstance(test.expression, _CONDITIONS_OF_IS):
            raise failure("IS needs NULL, TRUE, FALSE, JSON or DISTINCT FROM", token_span(self._prev))
        if isinstance(predicate, exp.Dot | exp.Bracket):
            raise failure("a condition has no fields", token_span(self._prev))
        if isinstance(test, exp.Is) and self._prev.text.upper() == "KEYS":
            raise failure("IS JSON has no UNIQUE KEYS", token_span(self._prev), hint="Write a IS JSON OBJECT.")
        if isinstance(test, exp.Is) and (test.expression.args.get("with_") or test.expression.args.get("unique")):
            raise failure("IS JSON has no UNIQUE KEYS", token_span(self._prev), hint="Write a IS JSON OBJECT.")
        return predicate

    def _build_predicate(self, klass: Any, this: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._build_predicate(klass, _enclosed(this), *args, **kwargs)

    def _parse_in(self, this: Any, alias: bool = False) -> Any:
        """A list or a query in parentheses."""
        if self._curr.token_type != TokenType.L_PAREN:
            raise failure("IN needs a list or a query in parentheses", token_span(self._prev), hint=_IN_LIST)
        return super()._parse_in(this, alias)

    def _parse_term(self, *args: Any, **kwargs: Any) -> Any:
        term = super()._parse_term(*args, **kwargs)
        if isinstance(term, exp.Collate) and not isinstance(term.expression, exp.Column | exp.Identifier | exp.Var):
            raise failure("a collation is a name", span_of(term.expression) or token_span(self._prev))
        return term

    def _parse_slice(self, this: Any) -> Any:
        if self._curr.token_type == TokenType.COLON:
            raise failure("an array has no [from:to]", token_span(self._curr), hint="Write SLICE(a, start, length).")
        return this

    def _parse_extract(self) -> Any:
        """A word says what to extract; a text is as good, and prints as the word."""
        token = self._curr
        extract = super()._parse_extract()
        if isinstance(extract, exp.Extract) and extract.this.is_string and _WORD.fullmatch(extract.this.name):
            words = self.dialect.tokenize(extract.this.name)
            if [word.token_type for word in words] == [TokenType.VAR]:
                extract.set("this", exp.Var(this=words[0].text.upper()))
        if isinstance(extract, exp.Extract) and not (
            isinstance(extract.this, exp.Var) and _WORD.fullmatch(extract.this.name)
        ):
            raise failure("EXTRACT needs the name of a unit", token_span(token), hint=_EXTRACT)
        return extract

    # --- clauses ---

    def _parse_describe(self) -> Any:
        raise failure('"DESCRIBE" is a statement of its own, and no query', token_span(self._prev))

    def _parse_lateral(self) -> Any:
        token = self._curr
        lateral = super()._parse_lateral()
        if isinstance(lateral, exp.Lateral) and lateral.args.get("outer") and not lateral.args.get("view"):
            raise failure("OUTER belongs to LATERAL VIEW", token_span(token), hint="Write LEFT JOIN LATERAL.")
        alias = lateral.args.get("alias") if isinstance(lateral, exp.Lateral) else None
        if alias is not None and isinstance(alias.this, exp.Placeholder):
            raise failure(
                "the alias of a table must be a name", token_span(token), hint="Write LATERAL VIEW f(a) t AS b."
            )
        read = lateral.this if isinstance(lateral, exp.Lateral) else None
        if isinstance(read, exp.Select | exp.SetOperation | exp.Values):
            raise failure("the query of LATERAL stands in parentheses", token_span(token), hint=_LATERAL)
        last = read.expression if isinstance(read, exp.Dot) else read
        if isinstance(last, exp.Identifier):
            raise failure("LATERAL needs a call or a query", token_span(token), hint=_LATERAL)
        return lateral

    def _parse_group(self, skip_group_by_token: bool = False) -> Any:
        """WITH ROLLUP and WITH CUBE stand once, after keys, and last."""
        group = super()._parse_group(skip_group_by_token)
        if group is not None:
            behind = [e for key in ("rollup", "cube") for e in group.args.get(key) or () if not e.expressions]
            if any(isinstance(key, exp.Column) and key.sql() == "LIMIT" for key in group.expressions):
                raise failure('unexpected "LIMIT"', token_span(self._prev), hint=_NAMED_SO)
            last = self._prev.token_type in (TokenType.CUBE, TokenType.ROLLUP)
            if len(behind) > bool(group.expressions and last):
                raise unexpected(self._prev, None, ["CONDITION"])
        return group

    def _parse_version(self) -> Any:
        """``AS OF`` is the only one."""
        version = super()._parse_version()
        if version is not None and (version.text("kind") != "AS OF" or version.args.get("expression") is None):
            raise failure("a version of a table needs AS OF and a time", token_span(self._prev), hint=_AS_OF)
        return version

    # --- hints ---

    def _parse_hint(self) -> Any:
        """The hint's inside is read like the rest of the script, and its places are those of the script."""
        if not self._match(TokenType.HINT):
            return None
        token = self._prev
        self._prev_comments = token.comments[:-1]  # the last one is the hint itself
        start, end = token.start + len("/*+"), token.end + 1 - len("*/")
        padded = " " * start + self.sql[start:end]
        inner = type(self)(dialect=self.dialect)
        try:
            inner.stand_at(padded, self.dialect.tokenize(padded))
        except TokenError as error:
            raise SyntaxFailure(token_error(padded, error).diagnostic) from None
        hint = inner._parse_hint_body()
        mark(hint, token.start, token.end + 1)
        return hint

    def _parse_hint_body(self) -> Any:
        """Names and calls with commas between; Flink allows the comma to be missing."""
        hints: list[Any] = []
        while self._curr:
            hints += self._parse_csv(lambda: self._parse_hint_function_call() or self._parse_var(upper=True))
            if self._curr and self._curr.token_type != TokenType.VAR:
                raise unexpected(self._curr, self._prev or None, [])
        if not hints:
            raise unexpected(None, self._prev or None, ["IDENT"])
        return exp.Hint(expressions=hints)


def _without_suffixes(tokens: list[Token]) -> list[Token]:
    """ARRAY after a type as a plain word: sqlglot reads on after it, as PostgreSQL does."""
    if all(token.token_type != TokenType.ARRAY for token in tokens):
        return tokens
    following = [*(token.token_type for token in tokens[1:]), None]
    return [
        Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)
        if token.token_type == TokenType.ARRAY and behind not in _OPENING_A_TYPE
        else token
        for token, behind in zip(tokens, following, strict=True)
    ]


def _multiset_of(element: exp.Expr) -> exp.DataType:
    count = exp.DataType(this=exp.DType.INT, nested=False)
    return exp.DataType(this=exp.DType.MAP, expressions=[element, count], nested=True)


def _check_sizes(kind: exp.DataType, span: Span) -> None:
    """The numbers in parentheses after a type: whole ones, and not more than it takes."""
    sizes = [e for e in kind.expressions if isinstance(e, exp.DataTypeParam)]
    most = _SIZES.get(kind.this, 0)
    if len(sizes) > most:
        what = f"{most} number{'s' if most > 1 else ''}" if most else "no numbers"
        raise failure(f"type {kind.this.name} takes {what} in parentheses", span)
    for size in sizes:
        if not (isinstance(size.this, exp.Literal) and size.name.isdigit()):
            raise failure(f'"{size.this.sql()}" is not a whole number', span_of(size) or span, LITERAL)
        if kind.this in _TIMES and int(size.name) > _DIGITS_OF_A_SECOND:
            message = f"a time has at most {_DIGITS_OF_A_SECOND} digits of a second, not {size.name}"
            raise failure(message, span_of(size) or span, LITERAL, "Times of Spark have microseconds.")
