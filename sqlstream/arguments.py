"""Values for the parameters of a script: ``?`` by position and ``:name`` by name.

A value stands in the script as a literal, so it may stand wherever one may, and nothing in it is read as SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from math import isfinite

from sqlglot.tokens import Token, TokenType

from sqlstream.errors import BindError, Span
from sqlstream.grammar.quoting import quote_string
from sqlstream.grammar.script import tokenize

NO_VALUE = "SS345"
NOT_USED = "SS377"
NO_LITERAL = "SS378"

Arguments = Sequence[object] | Mapping[str, object]
_BEFORE_A_QUANTIFIER = frozenset({
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACE, TokenType.PLUS, TokenType.STAR,
})  # fmt: skip

_VALUES = frozenset({
    TokenType.IDENTIFIER, TokenType.STRING, TokenType.RAW_STRING, TokenType.R_PAREN, TokenType.R_BRACKET,
})  # fmt: skip


def with_arguments(text: str, arguments: Arguments) -> str:
    """Returns the script with its parameters (``?`` or ``:name``) replaced by SQL literals of the arguments.

    Raises BindError SS345 for a parameter without a value, SS377 for a value that is not used, SS378 for a value
    without a literal.
    """
    if isinstance(arguments, Mapping):
        return _with_named(text, arguments)
    marks = [Span(token.start, token.end + 1) for token in _marks(tokenize(text))]
    if len(marks) > len(arguments):
        span = marks[len(arguments)]
        message = f"parameter {len(arguments) + 1} has no value"
        raise BindError(NO_VALUE, message, span, hint="Give args one value for each ?.").with_source(text)
    if len(marks) < len(arguments):
        message = f"the text has {len(marks)} parameters, and args has {len(arguments)} values"
        raise BindError(NOT_USED, message, hint="Write ? where a value stands.").with_source(text)
    return _replaced(text, [(span, literal(value)) for span, value in zip(marks, arguments, strict=True)])


def named_parameters(text: str) -> list[tuple[str, Span]]:
    """Returns the named parameters ``:name`` of a text, in order: pairs of name and span."""
    return list(_names(tokenize(text)))


def parameters_of(text: str) -> list[tuple[str, Span, str]]:
    """Returns all parameters of a text in order, as tuples: the name (for ``?`` its number, from 1), the span, and the
    preceding word in upper case.
    """
    tokens = tokenize(text)
    words = {after.start: before.text.upper() for before, after in pairwise(tokens)}
    marks = [(str(i), Span(token.start, token.end + 1)) for i, token in enumerate(_marks(tokens), 1)]
    in_order = sorted([*marks, *_names(tokens)], key=lambda one: one[1].start)
    return [(name, span, words.get(span.start, "")) for name, span in in_order]


def _with_named(text: str, arguments: Mapping[str, object]) -> str:
    named = named_parameters(text)
    for name, span in named:
        if name not in arguments:
            hint = f"Give args a value for it: {{'{name}': …}}."
            raise BindError(NO_VALUE, f'parameter "{name}" has no value', span, hint=hint).with_source(text)
    if unused := sorted(arguments.keys() - {name for name, _ in named}):
        raise BindError(NOT_USED, f'no parameter is called "{unused[0]}"', hint=f"Write :{unused[0]} where it stands.")
    return with_values(text, {name: literal(value) for name, value in arguments.items()})


def with_values(text: str, literals: Mapping[str, str]) -> str:
    """Returns the text with named parameters replaced by the given literals. Parameters without a literal are left as
    they are.
    """
    return _replaced(text, [(span, literals[name]) for name, span in named_parameters(text) if name in literals])


def literal(value: object) -> str:
    """Returns the SQL literal for a Python value. Raises BindError SS378 for values of other types."""
    for kind, spelled in _LITERALS.items():
        if isinstance(value, kind):
            return spelled(value)
    hint = "Values are None, bool, int, float, Decimal, str, bytes, date, datetime, time, timedelta, lists and dicts."
    raise BindError(NO_LITERAL, f"a value of the type {type(value).__name__} is no value of SQL", hint=hint)


def literal_of_text(text: str) -> str:
    """Returns the SQL literal for a value given on the command line: numbers, TRUE, FALSE and NULL as such, other
    texts as strings.
    """
    if text.upper() in ("TRUE", "FALSE", "NULL"):
        return text.upper()
    try:
        number = Decimal(text)
    except ArithmeticError:
        return quote_string(text)
    return literal(number) if number.is_finite() and text.strip() == text else quote_string(text)


def _float(value: float) -> str:
    if not isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    return _signed(repr(value) if "e" in repr(value) else f"{value!r}E0")


def _signed(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _datetime(value: datetime) -> str:
    kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP_LTZ"
    return f"{kind} '{value.isoformat(' ')}'"


def _interval(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    sign, whole = "-" if micros < 0 else "", abs(micros)
    return f"INTERVAL '{sign}{whole // 1_000_000}.{whole % 1_000_000:06}' SECOND"


_LITERALS: dict[type, Callable[..., str]] = {
    type(None): lambda value: "NULL",
    bool: lambda value: str(value).upper(),
    int: lambda value: _signed(str(value)),
    float: _float,
    Decimal: lambda value: _signed(f"{value:f}"),
    str: quote_string,
    bytes: lambda value: f"X'{value.hex()}'",
    datetime: _datetime,
    date: lambda value: f"DATE '{value.isoformat()}'",
    time: lambda value: f"TIME '{value.isoformat()}'",
    timedelta: _interval,
    list: lambda value: f"ARRAY({', '.join(map(literal, value))})",
    tuple: lambda value: f"ARRAY({', '.join(map(literal, value))})",
    dict: lambda value: f"MAP({', '.join(literal(part) for pair in value.items() for part in pair)})",
}
"""In this order: a bool is an int, and a datetime a date."""


def _marks(tokens: Sequence[Token]) -> Iterator[Token]:
    """``?``, but for one right behind a variable of a pattern."""
    for before, token in zip((None, *tokens), tokens, strict=False):
        behind = before is not None and before.end + 1 == token.start and before.token_type in _BEFORE_A_QUANTIFIER
        if token.token_type == TokenType.PLACEHOLDER and not behind:
            yield token


def _names(tokens: Sequence[Token]) -> Iterator[tuple[str, Span]]:
    """``:name`` without a space inside, and not right behind a value, where it reads a field."""
    for before, colon, name in zip((None, *tokens), tokens, tokens[1:], strict=False):
        apart = before is None or before.end + 1 != colon.start or not _is_value(before)
        joined = colon.end + 1 == name.start and name.text.isidentifier()
        if colon.token_type == TokenType.COLON and apart and joined and name.token_type != TokenType.STRING:
            yield name.text, Span(colon.start, name.end + 1)


def _is_value(token: Token) -> bool:
    """Whether a value can end with the token, so that a colon behind it begins a path, or the value of a key."""
    return token.token_type in _VALUES or token.text[-1:].isalnum() or token.text[-1:] == "_"


def _replaced(text: str, values: Sequence[tuple[Span, str]]) -> str:
    for span, value in reversed(values):
        text = text[: span.start] + value + text[span.end :]
    return text
