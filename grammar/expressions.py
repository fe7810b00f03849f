"""SQL expressions: sqlglot's parser for Spark, made strict, with the place of every operand recorded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Span
from sqlstream.grammar.calls import ALIASED_ARGUMENTS, BUILDERS, JSON_CALLS, KEYWORDS, SPECIAL_FORMS, JsonParser
from sqlstream.grammar.failures import LITERAL, failure, missing, token_span, unexpected
from sqlstream.grammar.spans import mark, mark_double_quoted, span_of
from sqlstream.grammar.strict import StrictParser
from sqlstream.grammar.trees import ROUNDED_TO, RoundedTime, rebalanced

# --- CASE: sqlglot's, made strict, with several values after one WHEN -------------------------------------------


_ONE_EACH = "Write a WHEN for each value."


class CaseParser(StrictParser):
    """Parses CASE with several values after WHEN, as in standard SQL and Flink: ``CASE day WHEN 6, 7 THEN …`` becomes
    ``CASE day WHEN 6 THEN … WHEN 7 THEN …``.
    """

    def _parse_case(self) -> Any:
        if self._match(TokenType.DOT, advance=False):  # a table of this name
            return super()._parse_case()
        comments = self._prev_comments
        operand = self._parse_disjunction()
        branches: list[exp.If] = []
        while self._match(TokenType.WHEN):
            when = self._prev
            values = self._parse_csv(self._operand) if operand is not None else [self._operand()]
            if not values or not self._match(TokenType.THEN):
                self.raise_error("Expected THEN after WHEN")
            pairs = _each(values, self._operand(), when)
            branches += [self.expression(exp.If(this=value, true=result)) for value, result in pairs]
        if not branches:
            self.raise_error("Expected WHEN")
        default = self._parse_disjunction() if self._match(TokenType.ELSE) else None
        if not self._match(TokenType.END):
            self.raise_error("Expected END after CASE")
        return self.expression(exp.Case(this=operand, ifs=branches, default=default), comments=comments)

    def _operand(self) -> Any:
        operand = self._parse_disjunction()
        if operand is None:
            self.raise_error("Expected an expression")
        return operand


def _each(values: list[exp.Expr], result: exp.Expr, when: Token) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Each value with a result of its own, as a node has one parent."""
    if len(values) > 1 and result.find(exp.Case) is not None:
        # Copies inside of copies would make a text of n characters one of 2 to the n.
        message = "several values behind one WHEN cannot lead to another CASE"
        raise failure(message, token_span(when), hint=_ONE_EACH)
    yield values[0], result
    for value in values[1:]:
        copied = result.copy()
        for node in copied.walk():
            node.comments = None
        yield value, copied


# --- the names of lambdas: ``x -> x + 1`` reads an argument, where sqlglot's parser reads a column first ---------


def name_arguments(outermost: exp.Lambda) -> None:
    """Makes names in a lambda refer to its arguments: in ``x -> x + 1``, sqlglot parses the second ``x`` as a column.
    Replaces such columns, also in nested lambdas; changes the tree in place.
    """
    arguments: Counter[str] = Counter()
    waiting: list[tuple[exp.Expr, bool]] = [(outermost, True)]
    while waiting:
        node, enters = waiting.pop()
        if isinstance(node, exp.Lambda):
            (arguments.update if enters else arguments.subtract)(argument.name for argument in node.expressions)
            if enters:
                waiting.append((node, False))
        if isinstance(node, exp.Column) and arguments[node.parts[0].name] > 0:
            _name_argument(node)
        elif enters:
            waiting += [(child, True) for child in node.iter_expressions()]


def _name_argument(column: exp.Column) -> None:
    """As sqlglot does: the column, with the members after it, becomes a name or a chain of dots."""
    argument = column.to_dot() if column.table else column.this
    replaced: exp.Expr = column
    while isinstance(replaced.parent, exp.Dot):
        replaced = replaced.parent
    replaced.replace(argument)


_MEASURED = (exp.Literal, exp.Neg, exp.Column, exp.Paren)
_INTERVAL_VALUES = frozenset({TokenType.STRING, TokenType.NUMBER})
_NO_NAMES = frozenset({TokenType.L_PAREN, TokenType.R_PAREN, TokenType.STRING})
_UNITS: Collection[str] = frozenset(
    unit + plural
    for unit in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for plural in ("", "S")
)
_TRIMS = {"": "TRIM", "BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}
_INTERVAL_UNIT = "Write for example INTERVAL '5' SECOND."


def _special_form(name: str) -> Callable[[ExpressionParser], Any]:
    return lambda self: self.special_form(name)


def _json_call(name: str) -> Callable[[ExpressionParser], Any]:
    return lambda self: self.json_call(name)


_CALLED = frozenset({"ARRAY", "MAP"})
"""Names that brackets call; a parameter of that name would do so, too."""


def _any(self: ExpressionParser) -> Any:
    values = self._parse_primary() if self._curr.token_type == TokenType.L_PAREN else self._parse_bitwise()
    if values is None or (isinstance(values, exp.Tuple) and not values.expressions):
        raise unexpected((self._curr or None) if values is None else self._prev, self._prev, ["CONDITION"])
    return self.expression(exp.Any(this=values))


def _plain_string(self: ExpressionParser, token: Token) -> Any:
    literal = self.expression(exp.Literal.string(token.text), token)
    if self.sql[token.start : token.start + 1] == '"':
        mark_double_quoted(literal)
    return literal


_UNICODE = r"{0}({0}|\+[0-9A-Fa-f]{{6}}|[0-9A-Fa-f]{{4}})"


def _unicode_string(self: ExpressionParser, token: Token) -> Any:
    """``U&'d\\0061t'``, with ``UESCAPE '!'`` in place of the backslash, is the text that it spells."""
    escape = self._advance_any() and self._prev.text if self._match_text_seq("UESCAPE") else "\\"
    written = self.sql[token.start + 3 : token.end].replace("''", "'")
    pattern = _UNICODE.format(re.escape(escape or ""))
    if not escape or len(escape) != 1 or re.sub(pattern, "", written).count(escape):
        hint = "Write U&'\\0061' or U&'!0061' UESCAPE '!', with four hexadecimal digits or + and six."
        raise failure("this is not a text of Unicode characters", token_span(token), LITERAL, hint)
    text = re.sub(
        pattern, lambda found: found[1] if found[1] == escape else chr(int(found[1].lstrip("+"), 16)), written
    )
    return self.expression(exp.Literal.string(text), token)


def _of_database(node: Any) -> Any:
    """``db.f(x)`` as a call of the function ``db.f``, also where a member of its value is taken."""
    if not isinstance(node, exp.Dot):
        return node
    node.set("this", _of_database(node.this))
    call, names = node.expression, [node.this] if isinstance(node.this, exp.Identifier) else []
    if isinstance(node.this, exp.Dot):
        names = [node.this.this, node.this.expression]
    if not isinstance(call, exp.Anonymous) or not names or not all(isinstance(n, exp.Identifier) for n in names):
        return node
    span = span_of(node)
    call.set("this", ".".join([*(name.name for name in names), call.name]))
    if span is not None:
        mark(call, span.start, span.end)
    return call


class ExpressionParser(CaseParser, JsonParser):
    """Parses expressions. It keeps calls as they are written, refuses what sqlglot would ignore, and raises only
    ``SyntaxFailure``.
    """

    _in_lambda = False
    ADD_JOIN_ON_TRUE = False
    STRICT_CAST = True
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = dict(BUILDERS)
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: _special_form(name) for name in SPECIAL_FORMS},
        **{name: _json_call(name) for name in JSON_CALLS},
        "CEIL": lambda self: self.rounding("CEIL"),
        "FLOOR": lambda self: self.rounding("FLOOR"),
        "DESCRIPTOR": lambda self: self.descriptor(),
        "LISTAGG": lambda self: self.listagg(),
    }
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        token: SparkParser.COLUMN_OPERATORS[token] for token in (TokenType.DOT, TokenType.DCOLON)
    }
    LAMBDAS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.LAMBDAS,
        TokenType.ARROW: lambda self, names: self.lambda_of(names),
        TokenType.FARROW: lambda self, names: self.named_argument(names),
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {
        **SparkParser.NO_PAREN_FUNCTIONS,
        # Spark wants parentheses
        TokenType.CURRENT_TIME: lambda: exp.Anonymous(this="CURRENT_TIME"),
        TokenType.LOCALTIME: lambda: exp.Anonymous(this="LOCALTIME"),
        TokenType.LOCALTIMESTAMP: lambda: exp.Anonymous(this="LOCALTIMESTAMP"),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **JsonParser.PRIMARY_PARSERS,
        TokenType.NATIONAL_STRING: _plain_string,
        TokenType.RAW_STRING: _plain_string,
        TokenType.STRING: _plain_string,
        TokenType.UNICODE_STRING: _unicode_string,
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")},
        "ANY": _any,
    }

    def raise_error(self, message: str, token: Any = None) -> None:
        """Raise sqlglot's own error as a ``SyntaxFailure``."""
        raise missing(message, token or self._curr or None, self._prev or None)

    # --- places ---

    def _marked(self, read: Callable[[], Any]) -> Any:
        start = self._curr
        parsed = read()
        if start and isinstance(parsed, exp.Expression) and self._prev.end >= start.start:
            mark(parsed, start.start, self._prev.end + 1)
        return parsed

    def _parse_unary(self) -> Any:
        return self._marked(super()._parse_unary)

    def _parse_equality(self, parse_is: bool = True) -> Any:
        read = super()._parse_equality
        return self._marked(lambda: read(parse_is))

    def _parse_conjunction(self) -> Any:
        return rebalanced(super()._parse_conjunction())

    def _parse_disjunction(self) -> Any:
        return rebalanced(super()._parse_disjunction())

    def _parse_lambda(self, alias: bool = False) -> Any:
        read = super()._parse_lambda
        return self._marked(lambda: read(alias=alias))

    def lambda_of(self, names: list[Any]) -> Any:
        """Parse a lambda after its argument names, which are replaced once all nested lambdas are read."""
        inside, self._in_lambda = self._in_lambda, True
        try:
            function = self.expression(exp.Lambda(this=self._parse_disjunction(), expressions=names))
        finally:
            self._in_lambda = inside
        if not inside:
            name_arguments(function)
        return function

    def named_argument(self, names: list[Any]) -> Any:
        """Parse the value of a named argument ``name => value``, from after the arrow. ``names`` are the names before
        the arrow; several of them, or a string, are a syntax error.
        """
        if self._tokens[self._index - 2].token_type in _NO_NAMES or not isinstance(names[0], exp.Identifier):
            raise unexpected(self._prev, None, ["RPAR"])
        value = self._parse_disjunction() or self._parse_select()
        return self.expression(exp.Kwarg(this=exp.var(names[0].name), expression=value))

    def _parse_ordered(self, parse_method: Any = None) -> Any:
        read = super()._parse_ordered
        return self._marked(lambda: read(parse_method))

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        """Called right after a function's closing parenthesis, which ends the function."""
        if isinstance(this, exp.Func) and "start" in this.meta:
            mark(this, this.meta["start"], self._prev.end + 1)
            this = self._parse_respect_or_ignore_nulls(this)  # Flink has it before FILTER, Spark after
        return super()._parse_window(this, alias=alias)

    # --- literals ---

    def _parse_primary(self) -> Any:
        """``'a' 'b'`` is one string; sqlglot makes a call of it."""
        primary = super()._parse_primary()
        if isinstance(primary, exp.Concat) and all(isinstance(e, exp.Literal) for e in primary.expressions):
            return exp.Literal.string("".join(e.name for e in primary.expressions))
        return primary

    def _parse_bracket(self, this: Any = None) -> Any:
        """``MAP['k', v]`` is Flink's constructor, whose values may be asked for; with one key it reads from a column
        named map. sqlglot calls this again for each bracket that follows."""
        if (
            isinstance(this, exp.Placeholder)
            and self._curr.token_type == TokenType.L_BRACKET
            and this.name.upper() in _CALLED
        ):
            raise unexpected(self._curr, self._prev, [])
        return _map_constructor(super()._parse_bracket(_map_constructor(this)))

    # --- strictness ---

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """An item must follow each separator; sqlglot forgives a trailing one."""
        item = parse_method()
        items = [item] if item is not None else []
        if item is None and self._curr.token_type == sep:
            raise unexpected(self._curr, self._prev or None, ["CONDITION"])
        while self._match(sep):
            if items:
                self._add_comments(items[-1])
            item = parse_method()
            if item is None:
                raise self._unexpected("CONDITION")
            items.append(item)
        return items

    def _parse_function_args(self, alias: bool = False) -> list[Any]:
        name = self._tokens[self._index - 2].text.upper() if self._index > 1 else ""
        return super()._parse_function_args(alias=name in ALIASED_ARGUMENTS)

    def _parse_column_ops(self, this: Any) -> Any:
        return _of_database(super()._parse_column_ops(this))

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        call = super()._parse_function_call(*args, **kwargs)
        if isinstance(call, exp.Func) and any(
            isinstance(e, exp.Values) and e.args.get("alias") for e in call.expressions
        ):
            raise failure("a list of values in a call has no name", token_span(self._prev))
        if isinstance(call, exp.Any) and isinstance(call.this, exp.UNWRAPPED_QUERIES):  # SOME, which is printed as ANY
            call.set("this", exp.Subquery(this=call.this))
        return call

    def _parse_value(self, values: bool = True) -> Any:
        """``VALUES 1, 2 AS t(x)`` names the table, not the last value."""
        if self._curr.token_type == TokenType.L_PAREN:
            return super()._parse_value(values)
        if not values:  # after DISTINCT ON
            raise self._unexpected("LPAR")
        value = self._parse_disjunction()
        return exp.Tuple(expressions=[value]) if value is not None else None

    # --- calls with words between the arguments ---

    def special_form(self, name: str) -> Any:
        """Parses calls with words between their arguments, such as CAST(a AS t) and EXTRACT(f FROM a). Without the word
        it is an ordinary call.
        """
        word: TokenType | str | None = KEYWORDS.get(name)
        if word is not None and not self._inside_call(word):
            return exp.Anonymous(this=name, expressions=self._parse_function_args())
        form = SPECIAL_FORMS[name](self)
        if isinstance(form, exp.Substring):
            return exp.Anonymous(this=name, expressions=[form.this, *_present(form, "start", "length")])
        if isinstance(form, exp.Trim) and not form.expression:
            return exp.Anonymous(this=_TRIMS[form.text("position").upper()], expressions=[form.this])
        return form

    def _inside_call(self, word: TokenType | str) -> bool:
        depth = 1
        for token in self._tokens[self._index :]:
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return False
            if depth == 1 and word in (token.token_type, token.text.upper()):
                return True
        return False

    def rounding(self, name: str) -> exp.Expression:
        """Parse ``FLOOR(ts TO HOUR)`` and ``CEIL(ts TO HOUR)``, with the unit after the time."""
        if not self._inside_call("TO"):
            return exp.Anonymous(this=name, expressions=self._parse_function_args())
        time = self._parse_disjunction()
        if not self._match_text_seq("TO") or self._curr.text.upper() not in ROUNDED_TO:
            hint = f"Units are {', '.join(ROUNDED_TO)}."
            raise failure(f"{name}(… TO unit) needs a unit of time", token_span(self._curr), hint=hint)
        self._advance()
        unit = self._prev.text.upper()
        return self.expression(RoundedTime(this=time, name=name, unit=unit))

    def descriptor(self) -> exp.Expression:
        raise failure("DESCRIPTOR is an argument of a table function", token_span(self._prev))

    def listagg(self) -> exp.Expression:
        """Parse ``LISTAGG([DISTINCT] x [, separator] [ORDER BY y])``; the default separator is a comma, as in Flink. In
        the tree the ORDER BY node contains the separator, so that ORDER BY is printed after it.
        """
        distinct = self._match(TokenType.DISTINCT)
        values = self._parse_csv(self._parse_disjunction)
        if not values or len(values) > 2:
            return exp.Anonymous(this="LISTAGG", expressions=[exp.Distinct(expressions=values)] if distinct else values)
        value = exp.Distinct(expressions=[values[0]]) if distinct else values[0]
        separator = values[1] if len(values) > 1 else exp.Literal.string(",")
        return exp.GroupConcat(this=value, separator=self._parse_order(separator))

    # --- intervals ---

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        """``INTERVAL '5' DAY``; ``INTERVAL 5 DAYS 3 HOURS`` is the sum; a column may be named interval."""
        index = self._index
        if not self._match(TokenType.INTERVAL):
            return None
        value = self._interval_value()
        if value is None:
            self._retreat(index)
            return None
        total: exp.Expr = self._parse_interval_span(value)
        while self._curr.token_type in _INTERVAL_VALUES and self._next.text.upper() in _UNITS:
            total = exp.Add(this=total, expression=self._parse_interval_span(self._interval_value()))
        return self.expression(exp.Paren(this=total)) if isinstance(total, exp.Add) else total

    def _interval_value(self) -> Any:
        value = self._parse_primary() if self._match(TokenType.STRING, advance=False) else self._parse_unary()
        named = isinstance(value, exp.Column) and not value.table and not value.this.quoted
        if named and self._curr.text.upper() not in _UNITS:
            return None
        if value is not None and not isinstance(value, _MEASURED):
            raise failure("an interval needs a number or a string", token_span(self._prev), LITERAL, _INTERVAL_UNIT)
        return value

    def _parse_interval_span(self, this: Any, parse_function_unit: bool = True) -> Any:
        """``TO`` continues an interval only before a unit: ``ALLOW INTERVAL '1' SECOND TO late`` names a table."""
        unit = self._parse_unit()
        parts = exp.INTERVAL_STRING_RE.findall(this.name) if this.is_string and unit is None else []
        if unit is None and not all(unit_name.upper() in _UNITS for _, unit_name in parts or [("", "")]):
            raise failure("an interval needs a unit", self._after_interval(), LITERAL, _INTERVAL_UNIT)
        if len(parts) == 1:
            this, unit = exp.Literal.string(parts[0][0]), exp.Var(this=parts[0][1].upper())
        if self._curr.text.upper() == "TO" and self._next.text.upper() in _UNITS:
            self._advance()
            unit = exp.IntervalSpan(this=unit, expression=self._parse_unit())
        digits = this.this if isinstance(this, exp.Neg) else this
        if isinstance(digits, exp.Literal) and digits.is_number:
            this = exp.Literal.string(f"{'' if digits is this else '-'}{digits.name}")
        return self.expression(exp.Interval(this=this, unit=unit))

    def _parse_unit(self) -> Any:
        """A unit; the digits that it may have, as in ``SECOND(3)``, are those of the value anyway."""
        unit = self._parse_var(any_token=True, upper=True) if self._curr.text.upper() in _UNITS else None
        if unit is not None:
            self._skip_digits()
        return unit

    def _after_interval(self) -> Span:
        """The wrong word after the interval's value, or the value."""
        return token_span(self._curr if self._curr.token_type == TokenType.VAR else self._prev)


def _present(node: exp.Expression, *keys: str) -> list[exp.Expression]:
    return [node.args[key] for key in keys if node.args.get(key) is not None]


def _map_constructor(parsed: Any) -> Any:
    """The call that ``MAP['k', v, …]`` stands for; what else there is as it is."""
    if not isinstance(parsed, exp.Bracket) or not isinstance(parsed.this, exp.Column) or len(parsed.expressions) < 2:
        return parsed
    if parsed.this.name.upper() != "MAP" or parsed.this.table:
        return parsed
    if len(parsed.expressions) % 2:
        hint = "Write MAP['a', 1, 'b', 2], or MAP('a', 1, 'b', 2)."
        raise failure("MAP has a key without a value", span_of(parsed.this) or Span(0, 0), hint=hint)
    return exp.Anonymous(this="MAP", expressions=parsed.expressions)
