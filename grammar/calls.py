"""Calls that the parser treats specially: those that become typed nodes of sqlglot, and JSON functions with words
between their arguments.

sqlglot rewrites many functions on the way through its tree (``DATE_SUB(a, b)`` prints as ``DATE_ADD(a, b * -1)``,
``LOG10`` as ``LOG(10, …)``). Spark knows its own functions best, so a call stays ``exp.Anonymous`` and prints exactly
as it was written, except the few whose node the planner looks for and whose printing changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

from sqlstream.errors import Span
from sqlstream.functions.builtin import Builtin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar.failures import failure, token_span
from sqlstream.grammar.spans import mark
from sqlstream.grammar.strict import StrictParser

Builder = Callable[[list[Any]], exp.Expr]


def _exactly_one(function: Builtin) -> Builder:
    """The typed node for one argument; with another number the call stays as written, for the binder to judge."""
    name = function.name.upper()
    kind = getattr(exp, function.node or "")
    return lambda args: kind(this=args[0]) if len(args) == 1 else exp.Anonymous(this=name, expressions=args)


def _without_arguments(name: str, kind: type[exp.Func]) -> Builder:
    """``CURRENT_TIMESTAMP()`` is ``CURRENT_TIMESTAMP``."""
    return lambda args: exp.Anonymous(this=name, expressions=args) if args else kind()


def _collect_list(args: list[Any]) -> exp.Expr:
    if len(args) != 1 or isinstance(args[0], exp.Order):  # sqlglot would not print the order
        return exp.Anonymous(this="COLLECT_LIST", expressions=args)
    return exp.ArrayAgg(this=args[0], nulls_excluded=True)


_UNITS = frozenset({
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "DAYOFYEAR", "WEEK", "MONTH", "QUARTER", "YEAR",
})  # fmt: skip


def _unit_first(name: str) -> Builder:
    """``TIMESTAMPDIFF(DAY, a, b)``: of three arguments the first is a unit, not a column."""

    def call(args: list[Any]) -> exp.Expr:
        match args:
            case [exp.Column(table="", this=exp.Identifier(quoted=False) as unit), _, _] if unit.name.upper() in _UNITS:
                args = [exp.Var(this=unit.name.upper()), *args[1:]]
        return exp.Anonymous(this=name, expressions=args)

    return call


def _array(args: list[Any]) -> exp.Expr:
    return exp.Array(expressions=args)


BUILDERS: dict[str, Builder] = {
    **{
        name.upper(): _exactly_one(function)
        for name, function in FUNCTIONS.items()
        if function.node and not function.alias_of
    },
    **{name.upper(): _unit_first(name.upper()) for name, function in FUNCTIONS.items() if function.unit_first},
    "ARRAY": _array,
    "COALESCE": exp.Coalesce.from_arg_list,
    "COLLECT_LIST": _collect_list,
    "COUNT": exp.Count.from_arg_list,
    "CURRENT_DATE": _without_arguments("CURRENT_DATE", exp.CurrentDate),
    "CURRENT_TIMESTAMP": _without_arguments("CURRENT_TIMESTAMP", exp.CurrentTimestamp),
    "GROUP_ID": lambda args: exp.Anonymous(this="GROUP_ID" if args else "GROUPING_ID", expressions=args),
    "ROW": lambda args: exp.Anonymous(this="STRUCT", expressions=args),  # Flink's row constructor
}

_TOKENS = {"FROM": TokenType.FROM, "IN": TokenType.IN}

ALIASED_ARGUMENTS = frozenset({"STRUCT"})

KEYWORDS: dict[str, TokenType | str] = {
    f.name.upper(): _TOKENS.get(f.keyword, f.keyword) for f in FUNCTIONS.values() if f.keyword is not None
}
"""Calls with keywords between their arguments; without the keyword they are ordinary calls."""

SPECIAL_FORMS: dict[str, Callable[[Any], Any]] = {
    "CAST": SparkParser.FUNCTION_PARSERS["CAST"],
    "TRY_CAST": SparkParser.FUNCTION_PARSERS["TRY_CAST"],
    **{name: SparkParser.FUNCTION_PARSERS[name] for name in KEYWORDS},
}


# --- JSON functions of standard SQL, and paths into documents: payload:item.sku -------------------------------
# A call without words between its arguments stays ``exp.Anonymous``, like every other call.


OF_PAIRS = frozenset({"JSON_OBJECT", "JSON_OBJECTAGG"})
OF_A_PATH = frozenset({"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS"})
JSON_CALLS = OF_PAIRS | OF_A_PATH | {"JSON_ARRAY", "JSON_ARRAYAGG"}
KINDS = frozenset({"VALUE", "SCALAR", "ARRAY", "OBJECT"})
"""What a text may be asked for after IS JSON."""

_BEHAVIOURS = {
    "JSON_VALUE": frozenset({"NULL", "ERROR", "DEFAULT"}),
    "JSON_QUERY": frozenset({"NULL", "ERROR", "EMPTY"}),
    "JSON_EXISTS": frozenset({"TRUE", "FALSE", "UNKNOWN", "ERROR"}),
}
_COLON = "A path stands right behind its value, as in payload:item.sku."


class JsonCall(exp.Expression, exp.Func):
    """A call of a JSON function, such as JSON_VALUE or JSON_OBJECT.

    ``this`` is the name in upper case. ``expressions`` are the operands; those of JSON_OBJECT are key, value, key,
    value and so on. ``wrapper`` and the behaviours (``on_empty``, ``on_error``, ``on_null``) are words as written;
    DEFAULT has its expression instead.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": False,
        "returning": False,
        "wrapper": False,
        "on_empty": False,
        "on_error": False,
        "on_null": False,
    }


class PathInto(exp.Expression, exp.Condition):
    """``this:expression``, Spark's access to a field inside JSON text. ``expression`` is a string with the path,
    ``$.item.sku``.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class JsonParser(StrictParser):
    """Parses the arguments of JSON functions, which have clauses such as ON EMPTY inside the parentheses."""

    def json_call(self, name: str) -> Any:
        """Parse the call from after its opening parenthesis."""
        start = self._tokens[self._index - 2]
        operands = self._pairs() if name in OF_PAIRS else self._values()
        if name == "JSON_ARRAYAGG" and operands:
            operands[-1] = self._parse_order(operands[-1])
        words: dict[str, Any] = {}
        if name in OF_A_PATH:
            self._path_words(name, words)
        else:
            words["on_null"] = self._on_null()
        words = {key: value for key, value in words.items() if value is not None}
        if not words and name not in OF_PAIRS:
            call: Any = exp.Anonymous(this=name, expressions=operands)
        else:
            call = JsonCall(this=name, expressions=operands, **words)
        mark(call, start.start, self._prev.end + 1)
        return self.expression(call)

    def _word(self, *words: str) -> bool:
        return self._curr.token_type != TokenType.STRING and self._curr.text.upper() in words

    def _values(self) -> list[Any]:
        if self._curr.token_type == TokenType.R_PAREN or self._begins_on_null():
            return []
        return self._parse_csv(self._parse_disjunction)

    def _pairs(self) -> list[Any]:
        operands: list[Any] = []
        if self._curr.token_type == TokenType.R_PAREN or self._begins_on_null():
            return operands
        while True:
            operands += self._pair()
            if not self._match(TokenType.COMMA):
                return operands

    def _pair(self) -> list[Any]:
        behind = self._next.token_type
        is_name = behind in (TokenType.COLON, TokenType.COMMA, TokenType.R_PAREN, TokenType.DOT)
        if self._word("KEY") and not is_name and self._next.text.upper() != "VALUE":
            self._advance()
        key = self._parse_bitwise()
        if key is None or not (self._match_text_seq("VALUE") or self._match(TokenType.COLON)):
            hint = "Write KEY 'name' VALUE a, or 'name' VALUE a."
            raise failure("a member of a JSON object needs a key and a value", token_span(self._at()), hint=hint)
        value = self._parse_disjunction()
        if value is None:
            raise self._unexpected("CONDITION")
        return [key, value]

    def _at(self) -> Token:
        return self._curr or self._prev

    def _begins_on_null(self) -> bool:
        return self._word("NULL", "ABSENT") and self._next.text.upper() == "ON"

    def _on_null(self) -> str | None:
        if not self._begins_on_null():
            return None
        word = self._curr.text.upper()
        self._advance(2)
        if not self._match_text_seq("NULL"):
            raise self._unexpected()
        return word

    def _path_words(self, name: str, words: dict[str, Any]) -> None:
        if name != "JSON_EXISTS" and self._match_text_seq("RETURNING"):
            words["returning"] = self._parse_types()
            if not isinstance(words["returning"], exp.DataType):
                raise self._unexpected("TYPE")
        if name == "JSON_QUERY":
            words["wrapper"] = self._wrapper()
        while self._word(*_BEHAVIOURS[name]):
            start = self._curr
            behaviour = self._behaviour()
            case = self._curr.text.upper() if self._match_text_seq("ON") else ""
            if case not in (("ERROR",) if name == "JSON_EXISTS" else ("EMPTY", "ERROR")):
                raise self._unexpected()
            self._advance()
            key = f"on_{case.lower()}"
            if key in words or (key == "on_empty" and "on_error" in words):
                span = Span(start.start, self._prev.end + 1)
                raise failure(f"ON {case} is given twice or out of order", span, hint="ON EMPTY is before ON ERROR.")
            words[key] = behaviour

    def _behaviour(self) -> Any:
        word = self._curr.text.upper()
        self._advance()
        if word == "DEFAULT":
            default = self._parse_bitwise()
            if default is None:
                raise self._unexpected("CONDITION")
            return default
        if word == "EMPTY":
            if self._match_text_seq("OBJECT"):
                return "EMPTY OBJECT"
            self._array()
            return "EMPTY ARRAY"
        return word

    def _array(self) -> bool:
        return bool(self._match_text_seq("ARRAY"))

    def _wrapper(self) -> str | None:
        """WITHOUT [ARRAY] WRAPPER, WITH [CONDITIONAL | UNCONDITIONAL] [ARRAY] WRAPPER."""
        if self._match_text_seq("WITHOUT"):
            wrapper = None
        elif self._match_text_seq("WITH"):
            conditional = self._match_text_seq("CONDITIONAL")
            if not conditional:
                self._match_text_seq("UNCONDITIONAL")
            wrapper = "CONDITIONAL" if conditional else "UNCONDITIONAL"
        else:
            return None
        self._array()
        if not self._match_text_seq("WRAPPER"):
            raise self._unexpected()
        return wrapper

    # --- paths ---

    def _parse_column_ops(self, this: Any) -> Any:
        value = super()._parse_column_ops(this)
        while value is not None and self._path_follows():
            self._advance()
            value = super()._parse_column_ops(self.expression(PathInto(this=value, expression=self._path())))
        return value

    def _path_follows(self) -> bool:
        """A colon and a name, right after the value: ``:name`` after a space is a parameter."""
        colon, name = self._curr, self._next
        if colon.token_type != TokenType.COLON or not self._prev or colon.start != self._prev.end + 1:
            return False
        if self._prev.token_type in (TokenType.STRING, TokenType.NUMBER):
            return False
        return bool(name) and name.start == colon.end + 1 and self._is_name(name)

    def _is_name(self, token: Token) -> bool:
        return token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"

    def _path(self) -> str:
        path = "$" + self._member()
        while True:
            if self._curr.token_type == TokenType.DOT and self._next and self._is_name(self._next):
                self._advance()
                path += self._member()
            elif self._curr.token_type == TokenType.L_BRACKET:
                path += self._subscript()
            else:
                return path

    def _member(self) -> str:
        token = self._curr
        self._advance()
        return member(token.text)

    def _subscript(self) -> str:
        key = self._next
        if key.token_type not in (TokenType.NUMBER, TokenType.STRING):
            raise failure("a path has numbers and texts in brackets", token_span(key or self._curr), hint=_COLON)
        self._advance(2)
        if not self._match(TokenType.R_BRACKET):
            raise self._unexpected()
        return f"[{int(key.text)}]" if key.token_type == TokenType.NUMBER else member(key.text)


def member(name: str) -> str:
    """Returns a step of a JSON path that selects the field ``name``: ``.sku``, or ``['a b']`` if the name is not a
    plain word.
    """
    if name.isidentifier():
        return f".{name}"
    return f'["{name}"]' if "'" in name else f"['{name}']"


def steps_behind_colon(path: str) -> str:
    """Converts a JSON path, such as ``$.item.sku`` or ``$['a b'][0]``, to Spark's notation after a colon: ``item.sku``,
    `` `a b`[0] ``.
    """
    text = path.removeprefix("$")
    if text.startswith("."):
        return text[1:]
    end = text.index("]")
    name = text[2 : end - 1].replace("`", "``")
    return f"`{name}`{text[end + 1 :]}"


def json_call_text(call: JsonCall, sql: Any) -> str:
    """The SQL text between the parentheses of a JSON function's call: operands and clauses. ``sql`` is a function that
    prints an expression.
    """
    operands = [sql(e) for e in call.expressions]
    if call.name in OF_PAIRS:
        pairs = zip(operands[::2], operands[1::2], strict=True)
        text = ", ".join(f"KEY {key} VALUE {value}" for key, value in pairs)
    else:
        text = ", ".join(operands)
    words = [
        f"RETURNING {sql(returning)}" if (returning := call.args.get("returning")) is not None else "",
        f"WITH {wrapper} ARRAY WRAPPER" if (wrapper := call.args.get("wrapper")) else "",
        _text_of_case(call.args.get("on_empty"), "EMPTY", sql),
        _text_of_case(call.args.get("on_error"), "ERROR", sql),
        f"{on_null} ON NULL" if (on_null := call.args.get("on_null")) else "",
    ]
    return " ".join(filter(None, [text, *words]))


def _text_of_case(behaviour: Any, case: str, sql: Any) -> str:
    if behaviour is None:
        return ""
    return f"{behaviour if isinstance(behaviour, str) else f'DEFAULT {sql(behaviour)}'} ON {case}"
