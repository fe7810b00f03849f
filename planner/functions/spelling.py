"""Calls of Flink's functions as SQL that Spark evaluates: by the templates of the catalogue, JSON functions by code.

Plans keep Flink's names, which their texts and checkpoints show. Calls are respelled where a plan, or a query over
finished data, becomes Spark's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlglot import exp

from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar import parse_query
from sqlstream.grammar.calls import JsonCall, PathInto
from sqlstream.planner.expressions import as_expression, parenthesized

# --- templates: SQL with p1, p2, … in place of operands -------------------------------------------------------


@cache
def _parsed(template: str) -> exp.Expr:
    expression: exp.Expr
    (expression,) = parse_query(f"SELECT {template}").expressions
    for node in expression.walk():
        node._meta = None  # places in the template are none of the script
    return expression


def filled(template: str, *operands: exp.Expr) -> exp.Expression:
    """Returns the expression of an SQL template: the operands replace its placeholders ``p1``, ``p2``, …, in
    parentheses where necessary.
    """
    values = {f"p{i}": operand for i, operand in enumerate(operands, 1)}

    def replaced(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name in values:
            return parenthesized(as_expression(values[node.name].copy()))
        return node

    return as_expression(_parsed(template).copy().transform(replaced, copy=False))


def text(value: str) -> exp.Expression:
    """Returns an SQL string literal with this value, as an expression."""
    return exp.Literal.string(value)


def called(name: str, *arguments: exp.Expr) -> exp.Expression:
    """Returns the call of the function ``name`` with these arguments, as an expression."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def with_value(value: exp.Expr, name: str, body: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Returns an expression in which ``value`` is computed once although ``body`` uses it several times. ``body`` gets
    the variable that stands for it, called ``name``, and returns the expression over it.
    """
    if isinstance(value, exp.Column | exp.Literal):
        return body(value)
    variable = exp.to_identifier(name)
    function = exp.Lambda(this=body(exp.column(variable.copy())), expressions=[variable])
    return called("GET", called("TRANSFORM", called("ARRAY", value), function), exp.Literal.number(0))


def case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None = None) -> exp.Expression:
    """The expression ``CASE WHEN … THEN … ELSE default END``."""
    made = exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in branches])
    if default is not None:
        made.set("default", default)
    return made


_MODE = re.compile(r"\s*(?:(strict|lax)\s+)?(.*?)\s*", re.IGNORECASE | re.DOTALL)
_STEP = re.compile(
    r"\.?\[\s*'(?P<single>(?:[^'\\]|\\.)+)'\s*\]"
    r'|\.?\[\s*"(?P<double>(?:[^"\\]|\\.)+)"\s*\]'
    r"|\[\s*(?P<index>\d+)\s*\]"
    r"|(?P<all>\[\s*\*\s*\]|\.\*)"
    r"|\.(?P<name>[^\s.\[\]()*?@,'\"]+)"
)
_PLAIN = re.compile(r"\w+", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Step = str | int | None
"""The name of a member, the number of an element, or None for all of them."""


@dataclass(frozen=True)
class JsonPath:
    """A parsed JSON path. ``strict``: the path was written with ``strict``, so missing fields are errors."""

    strict: bool
    steps: tuple[Step, ...]

    @property
    def many(self) -> bool:
        return None in self.steps


def parsed_path(text: str) -> JsonPath | None:
    """The JSON path of a text; None for an invalid one, or one with steps that are not supported: filters, slices,
    ``..``.
    """
    match = _MODE.fullmatch(text)
    assert match is not None, "the pattern takes every text"
    mode, path = match[1] or "strict", match[2]
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        steps.append(_step(step))
        position = step.end()
    return None if any(_unspeakable(step) for step in steps) else JsonPath(mode.lower() == "strict", tuple(steps))


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return int(match["index"])
    if match["all"] is not None:
        return None
    quoted = match["single"] or match["double"]
    return _ESCAPED.sub(r"\1", quoted) if quoted is not None else match["name"]


def _unspeakable(step: Step) -> bool:
    """A name with both kinds of quotes has no spelling in Spark's paths."""
    return isinstance(step, str) and "'" in step and '"' in step


def text_of(steps: tuple[Step, ...]) -> str:
    """Returns the text of a JSON path to a single value, as Spark's VARIANT_GET expects it."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else _member(str(step)) for step in steps)


def _member(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return f".{name}"
    return f'["{name}"]' if "'" in name else f"['{name}']"


def text_for_strings(steps: tuple[Step, ...]) -> str | None:
    """Returns the text of a JSON path to a single value, as Spark's GET_JSON_OBJECT expects it; None if that function
    cannot express the path.
    """
    if any(isinstance(step, str) and ("'" in step or "?" in step) for step in steps):
        return None
    return text_of(steps)


# --- JSON functions in Spark's words: VARIANT where a path is followed, texts where documents are built -------
# Spark's VARIANT sorts the members of objects, so what JSON_QUERY gives of one value is taken from the text itself.


_INSIDE = "(?s)^.(.*).$"
_NESTING = frozenset({"json_object", "json_array", "json_objectagg", "json_arrayagg", "json"})
_NOT_SCALAR = "SCHEMA_OF_VARIANT(p1) RLIKE '^(OBJECT|ARRAY)'"
_KINDS = {"OBJECT": r"(?s)^\s*\{.*", "ARRAY": r"(?s)^\s*\[.*", "SCALAR": r"(?s)^\s*[^\s\[{].*"}


@dataclass(frozen=True)
class _Asked:
    """A call of a function of a path. A behaviour of None is the default."""

    name: str
    document: exp.Expr
    path: JsonPath
    returning: exp.DataType | None
    wrapper: str | None
    on_empty: Any
    on_error: Any


def path_of(call: exp.Expr) -> JsonPath | None:
    """The constant path of JSON_VALUE, JSON_QUERY or JSON_EXISTS; None without a supported one."""
    path = call.expressions[1] if len(call.expressions) == 2 else None
    return parsed_path(path.name) if isinstance(path, exp.Literal) and path.is_string else None


def spelled_json(call: exp.Expr, name: str) -> exp.Expr | None:
    """The JSON call in Spark's functions, ``name`` in lower case; None for other functions. Operands may still be
    Flink's.
    """
    match name:
        case "json_value":
            return _value(_asked(call, name))
        case "json_query":
            return _query(_asked(call, name))
        case "json_exists":
            return _exists(_asked(call, name))
        case "json_object":
            return _object(call.expressions, _on_null(call, "NULL"))
        case "json_array":
            return _array(call.expressions, _on_null(call, "ABSENT"))
        case "json_string":
            return filled("NULLIF(p1, 'null')", _text_of(call.expressions[0]))
        case "json_quote":
            quoted = filled("NULLIF(p1, 'null')", _text_of(call.expressions[0]))
            return called("REPLACE", quoted, text("/"), text("\\/"))
        case "json_unquote":
            unquoted = "CASE WHEN p1 RLIKE '(?s)^\".*\"$' THEN TRY_VARIANT_GET(TRY_PARSE_JSON(p1), '$', 'string') END"
            return filled(f"COALESCE({unquoted}, p1)", call.expressions[0])
        case "json":
            raw: exp.Expr = call.expressions[0].copy()
            return raw
    return None


def is_json(predicate: exp.Is) -> exp.Expr:
    """Returns the Spark expression for ``a IS JSON``, ``a IS JSON OBJECT`` and the like. The expression is FALSE where
    ``a`` is NULL.
    """
    kind = predicate.expression.args.get("this")
    valid = filled("TRY_PARSE_JSON(p1) IS NOT NULL", predicate.this)
    if kind not in _KINDS:
        return exp.Paren(this=valid)
    return exp.Paren(this=filled("p1 AND p2 RLIKE p3", valid, predicate.this, text(_KINDS[kind])))


def nests(value: exp.Expr) -> bool:
    """True if the value is JSON text already, because a JSON function returns it. Other JSON text then contains it as
    it is, not as a quoted string.
    """
    return isinstance(value, exp.Anonymous | JsonCall) and value.name.lower() in _NESTING


def member_text(value: exp.Expr, on_null: str) -> exp.Expr:
    """Returns the expression for the JSON text of a value. For NULL its result is ``null``, or SQL's NULL where
    ``on_null`` is ABSENT.
    """
    whole = _raw(value) if nests(value) else _text_of(value)
    if on_null == "ABSENT":
        return filled("NULLIF(p1, 'null')", whole)
    return filled("COALESCE(p1, 'null')", whole) if nests(value) else whole


def _asked(call: exp.Expr, name: str) -> _Asked:
    path = path_of(call)
    assert path is not None, "the binder has looked at the path"
    words = call.args if isinstance(call, JsonCall) else {}
    return _Asked(
        name.upper(),
        call.expressions[0].copy(),
        path,
        words.get("returning"),
        words.get("wrapper"),
        words.get("on_empty"),
        words.get("on_error"),
    )


def _on_null(call: exp.Expr, default: str) -> str:
    return call.args.get("on_null") or default


# --- asking ---------------------------------------------------------------------------------------------------


def _value(asked: _Asked) -> exp.Expr:
    kind = asked.returning.sql("spark") if asked.returning is not None else "STRING"
    empty, error = (
        _value_of_case(asked.on_empty, asked, "is empty"),
        _value_of_case(asked.on_error, asked, "is an error"),
    )
    path = text(text_of(asked.path.steps))
    if kind != "STRING" and _is_null(empty) and _is_null(error):
        return filled("TRY_VARIANT_GET(TRY_PARSE_JSON(p1), p2, p3)", asked.document, path, text(kind))

    def of_node(node: exp.Expr) -> exp.Expr:
        value = filled("TRY_VARIANT_GET(p1, '$', p2)", node, text(kind))
        not_scalar = error if asked.path.strict else empty
        missing = error if asked.path.strict else empty
        branches = [
            (filled("p1 IS NULL", node), missing),
            (filled("IS_VARIANT_NULL(p1)", node), empty),
            (filled(_NOT_SCALAR, node), not_scalar),
        ]
        if kind != "STRING":
            return case([*branches, (filled("p1 IS NULL", value), error)], value)
        return case(branches, value)

    return _with_document(asked, error, lambda parsed_text, _: _on_node(parsed_text, path, of_node))


def _query(asked: _Asked) -> exp.Expr:
    empty, error = (
        _value_of_case(asked.on_empty, asked, "is empty"),
        _value_of_case(asked.on_error, asked, "is an error"),
    )
    missing = error if asked.path.strict else empty

    def of_list(document: exp.Expr, _: exp.Expr) -> exp.Expr:
        def made(values: exp.Expr) -> exp.Expr:
            whole = called("TO_JSON", values)
            wrapped = filled("CONCAT('[', p1, ']')", whole) if asked.wrapper == "UNCONDITIONAL" else whole
            absent = error if asked.path.strict else text("[]")
            return case([(filled("p1 IS NULL", values), absent)], wrapped)

        return with_value(_values(document, asked.path.steps), "__n", made)

    def of_one(document: exp.Expr, written: exp.Expr) -> exp.Expr:
        def made(node: exp.Expr) -> exp.Expr:
            nested = filled(_NOT_SCALAR, node)
            in_text = text_for_strings(asked.path.steps)
            whole = called("TO_JSON", node) if in_text is None else called("GET_JSON_OBJECT", written, text(in_text))
            wrapped = filled("CONCAT('[', p1, ']')", called("TO_JSON", node))
            around = filled("CONCAT('[', p1, ']')", whole)
            branches = [
                (filled("p1 IS NULL", node), missing),
                (filled("IS_VARIANT_NULL(p1)", node), empty),
            ]
            match asked.wrapper:
                case "UNCONDITIONAL":
                    return case([*branches, (nested, around)], wrapped)
                case "CONDITIONAL":
                    is_array = filled("SCHEMA_OF_VARIANT(p1) RLIKE '^ARRAY'", node)
                    return case([*branches, (is_array, whole), (nested, around)], wrapped)
            return case([*branches, (nested, whole)], missing)

        return _on_node(document, text(text_of(asked.path.steps)), made)

    result = _with_document(asked, error, of_list if asked.path.many else of_one)
    kind = asked.returning.sql("spark") if asked.returning is not None else "STRING"
    return result if kind == "STRING" else filled("FROM_JSON(p1, p2)", result, text(kind))


def _exists(asked: _Asked) -> exp.Expr:
    error = {"TRUE": exp.true(), "UNKNOWN": exp.null(), "ERROR": _raised(asked, "is an error")}.get(
        asked.on_error, exp.false()
    )
    missing = error if asked.path.strict else exp.false()

    def found(document: exp.Expr, _: exp.Expr) -> exp.Expr:
        if asked.path.many:
            absent = filled("p1 IS NULL", _values(document, asked.path.steps))
            return case([(absent, error if asked.path.strict else exp.true())], exp.true())

        def made(node: exp.Expr) -> exp.Expr:
            return case([(filled("p1 IS NULL", node), missing)], filled("NOT IS_VARIANT_NULL(p1)", node))

        return _on_node(document, text(text_of(asked.path.steps)), made)

    return _with_document(asked, error, found)


def _with_document(asked: _Asked, error: exp.Expr, body: Any) -> exp.Expr:
    """The body over the document as a VARIANT and as it is written; NULL for NULL, ``error`` for what is no JSON."""

    def of_text(written: exp.Expr) -> exp.Expr:
        def of_parsed(document: exp.Expr) -> exp.Expr:
            broken = (filled("p1 IS NULL", document), error)
            return case([(filled("p1 IS NULL", written), exp.null()), broken], body(document, written))

        return with_value(filled("TRY_PARSE_JSON(p1)", written), "__v", of_parsed)

    return with_value(asked.document, "__d", of_text)


def _on_node(document: exp.Expr, path: exp.Expr, body: Any) -> exp.Expr:
    return with_value(filled("TRY_VARIANT_GET(p1, p2, 'variant')", document, path), "__n", body)


def _values(document: exp.Expr, steps: Sequence[Any]) -> exp.Expr:
    """All values at a path with ``[*]``, as an array of VARIANT; NULL where the way to the first one ends."""
    first = list(steps).index(None)
    path = text(text_of(tuple(steps[:first])))
    members = "MAP_VALUES(TRY_VARIANT_GET(p1, p2, 'map<string, variant>'))"
    whole = filled(f"COALESCE(TRY_VARIANT_GET(p1, p2, 'array<variant>'), {members})", document, path)
    rest = tuple(steps[first + 1 :])
    if not rest:
        return whole
    element = exp.to_identifier("__e")
    inside = exp.column(element.copy())
    if None in rest:
        below = exp.Lambda(this=_values(inside, rest), expressions=[element])
        return filled("FLATTEN(FILTER(p1, __x -> __x IS NOT NULL))", called("TRANSFORM", whole, below))
    one = exp.Lambda(
        this=filled("TRY_VARIANT_GET(p1, p2, 'variant')", inside, text(text_of(rest))), expressions=[element]
    )
    return filled("FILTER(p1, __x -> __x IS NOT NULL)", called("TRANSFORM", whole, one))


def _value_of_case(behaviour: Any, asked: _Asked, what: str) -> exp.Expr:
    match behaviour:
        case None | "NULL":
            return exp.null()
        case "ERROR":
            return _raised(asked, what)
        case "EMPTY ARRAY":
            return text("[]")
        case "EMPTY OBJECT":
            return text("{}")
    kind = asked.returning.copy() if asked.returning is not None else exp.DataType.build("STRING")
    return exp.cast(behaviour.copy(), kind)


def _raised(asked: _Asked, what: str) -> exp.Expr:
    return called("RAISE_ERROR", text(f"the result of {asked.name} at {text_of_path(asked.path)} {what}"))


def text_of_path(path: JsonPath) -> str:
    """The text of a JSON path for error messages, such as ``$.a[0]``."""
    return "".join(["$", *("[*]" if step is None else text_of((step,))[1:] for step in path.steps)])


def _is_null(value: exp.Expr) -> bool:
    return isinstance(value, exp.Null)


# --- building -------------------------------------------------------------------------------------------------


def _object(operands: Sequence[exp.Expr], on_null: str) -> exp.Expr:
    pairs = list(zip(operands[::2], operands[1::2], strict=True))
    if not pairs:
        return text("{}")
    plain = on_null == "NULL" and all(_is_text(key) and not nests(value) for key, value in pairs)
    if plain and len({key.name for key, _ in pairs}) == len(pairs):
        struct = called("NAMED_STRUCT", *(e.copy() for e in operands))
        return filled("TO_JSON(p1, MAP('ignoreNullFields', 'false'))", struct)
    members = [called("CONCAT", key_text(key), member_text(value, on_null)) for key, value in pairs]
    return filled("CONCAT('{', p1, '}')", called("CONCAT_WS", text(","), *members))


def key_text(key: exp.Expr) -> exp.Expr:
    """Returns an expression for the text of a key in a JSON object, with the colon: ``"name":``."""
    if _is_text(key):
        return text(json.dumps(key.name, ensure_ascii=False) + ":")
    return filled("CONCAT(p1, ':')", _text_of(exp.cast(key.copy(), exp.DataType.build("STRING"))))


def _array(operands: Sequence[exp.Expr], on_null: str) -> exp.Expr:
    if not operands:
        return text("[]")
    elements = [member_text(value, on_null) for value in operands]
    return filled("CONCAT('[', p1, ']')", called("CONCAT_WS", text(","), *elements))


def _raw(value: exp.Expr) -> exp.Expr:
    """The text of another JSON function; what JSON(a) names must be JSON."""
    if value.name.lower() != "json":
        return value.copy()
    wrong = "RAISE_ERROR('JSON(…) is given a text that is no JSON')"
    return filled(f"IF(p1 IS NOT NULL AND TRY_PARSE_JSON(p1) IS NULL, {wrong}, p1)", value.expressions[0])


def _text_of(value: exp.Expr) -> exp.Expr:
    whole = filled("TO_JSON(ARRAY(p1), MAP('ignoreNullFields', 'false'))", value)
    return called("REGEXP_EXTRACT", whole, text(_INSIDE), exp.Literal.number(1))


def _is_text(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) and value.is_string


# --- all functions of Flink's -----------------------------------------------------------------------------------


_MERGED = "MAP_ZIP_WITH(p1, p2, (__k, __x, __y) -> IF(MAP_CONTAINS_KEY(p2, __k), __y, __x))"


def spelled_for_spark(node: exp.Expr) -> exp.Expr:
    """A Flink call or predicate as a Spark expression, all others unchanged. The operands may still be Flink's."""
    match node:
        case JsonCall() | exp.Anonymous():
            return _call(node, node.name.lower(), node.expressions)
        case exp.Is(expression=exp.JSON()):
            return is_json(node)
        case PathInto():
            return called("VARIANT_GET", node.this.copy(), text(node.args["expression"]), text("variant"))
    return node


def _call(call: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    function = FUNCTIONS.get(name)
    template = function.spark.get(len(arguments)) if function is not None and function.spark else None
    if template is not None and not (name == "array_sort" and isinstance(arguments[1], exp.Lambda)):
        return filled(template, *arguments)
    if name == "array_concat":
        return called("CONCAT", *(a.copy() for a in arguments))
    if name == "map_union":
        return _union(arguments)
    return spelled_json(call, name) or call


def _union(maps: Sequence[exp.Expr]) -> exp.Expr:
    """The value of the last map that has the key."""
    union = maps[0].copy()
    for other in maps[1:]:
        union = filled(_MERGED, union, other)
    return union
