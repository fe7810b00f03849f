"""From CREATE FUNCTION to the function: one that Python holds somewhere, or one whose body is in the statement."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from sqlstream.errors import BindError, SqlStreamError, UnsupportedError
from sqlstream.grammar import nodes, to_sql
from sqlstream.grammar.spans import span_of
from sqlstream.planner.binder import bind_query
from sqlstream.planner.binder.calls import aggregate_name, parsed, sql_functions_in
from sqlstream.planner.binder.respelling import SIZED
from sqlstream.planner.catalog import Catalog, Function, FunctionKind
from sqlstream.planner.expressions import as_expression
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.types import UNKNOWN, DataType, from_sqlglot
from sqlstream.udfs.functions import describe_function, function_in_place

OTHER_LANGUAGE = "SS352"
NO_BODY = "SS368"
_JAVA_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)+")
_IN_PYTHON = (
    "Write it in Python, AS 'package.module:name' LANGUAGE PYTHON, or here: f(x INT) RETURNS INT RETURN x + 1, or "
    "LANGUAGE PYTHON AS $$ return x + 1 $$."
)


def declared_function(statement: nodes.CreateFunction, name: str, catalog: Catalog) -> tuple[Function, object]:
    """Returns a pair: the function that the statement declares, called ``name``, and its Python object.

    The object is made from Python source text in the statement (LANGUAGE PYTHON). It is None for SQL functions, and
    for functions that name a Python object, which is imported when it is used.
    """
    _refuse_other_languages(statement)
    try:
        if statement.definition is None:
            return describe_function(name, statement.target), None
        if statement.definition.body is not None:
            return _of_sql(name, statement, statement.definition, catalog), None
        return _of_python(name, statement, statement.definition)
    except SqlStreamError as error:
        raise _at(error, statement) from error.__cause__


def _at(error: SqlStreamError, statement: nodes.Statement) -> SqlStreamError:
    """The error with the place of the statement, where it has none of its own."""
    return SqlStreamError.of(d if d.span is not None else replace(d, span=statement.span) for d in error.diagnostics)


def _refuse_other_languages(statement: nodes.CreateFunction) -> None:
    language = statement.language
    if language == "PYTHON" and not statement.definition and _JAVA_CLASS.fullmatch(statement.target):
        message = f'"{statement.target}" names a class of Java: functions in Java are not executed'
        raise UnsupportedError(OTHER_LANGUAGE, message, statement.span, hint=_IN_PYTHON)
    if statement.jars:
        raise UnsupportedError(OTHER_LANGUAGE, "functions of jars are not executed", statement.span, hint=_IN_PYTHON)
    in_sql = statement.definition is not None and statement.definition.body is not None
    if language != ("SQL" if in_sql else "PYTHON"):
        message = f"functions in the language {language} are not executed"
        if in_sql and language == "PYTHON":
            message = "RETURN is followed by SQL, and the language is PYTHON"
        raise UnsupportedError(OTHER_LANGUAGE, message, statement.span, hint=_IN_PYTHON)
    if statement.definition is not None and statement.definition.columns is not None:
        hint = "Write CREATE VIEW v AS SELECT …, or a generator of Python: AS 'package.module:name' LANGUAGE PYTHON."
        raise UnsupportedError(NO_BODY, "functions with RETURNS TABLE are not executed", statement.span, hint=hint)


# --- bodies ---------------------------------------------------------------------------------------------------


def _parameters(
    name: str, definition: nodes.FunctionDefinition
) -> tuple[tuple[tuple[str, DataType], ...], tuple[tuple[str, str], ...]]:
    """Names and types, and the defaults by name. SS207 for names that are there twice, and for defaults
    before parameters without one."""
    names = [p.name.casefold() for p in definition.parameters]
    for parameter in definition.parameters:
        if names.count(parameter.name.casefold()) > 1:
            raise BindError("SS207", f'parameter "{parameter.name}" of "{name}" is there twice', parameter.span)
    defaults = tuple((p.name, to_sql(p.default)) for p in definition.parameters if p.default is not None)
    without = [p for p in definition.parameters if p.default is None]
    if defaults and without and names.index(without[-1].name.casefold()) > names.index(defaults[0][0].casefold()):
        message = f'parameter "{without[-1].name}" without DEFAULT stands behind one with it'
        raise BindError("SS207", message, without[-1].span, hint="Give it a DEFAULT, or put it before the others.")
    return tuple((p.name, from_sqlglot(p.type)) for p in definition.parameters), defaults


def _described(
    name: str, kind: FunctionKind, text: str, definition: nodes.FunctionDefinition, returns: DataType
) -> Function:
    parameters, defaults = _parameters(name, definition)
    least, most = len(parameters) - len(defaults), len(parameters)
    function = Function(name, text, kind, returns, parameters, least, most, definition.deterministic, defaults=defaults)
    written = definition.returns
    sized = written is not None and written.this in SIZED and written.expressions
    return replace(function, declared=written.sql("sqlstream")) if written is not None and sized else function


def _of_sql(
    name: str, statement: nodes.CreateFunction, definition: nodes.FunctionDefinition, catalog: Catalog
) -> Function:
    body = definition.body
    assert body is not None
    returns = UNKNOWN if definition.returns is None else from_sqlglot(definition.returns)
    function = _described(name, FunctionKind.SQL, to_sql(body), definition, returns)
    result = _checked_body(name, body, function, catalog)
    return replace(function, returns=result) if returns.is_unknown else function


def _checked_body(name: str, body: exp.Expression, function: Function, catalog: Catalog) -> DataType:
    """The type of the body. SS201, SS209, SS368 and others for what could not stand in place of a call."""
    if body.find(exp.Query, exp.Window) is not None:
        hint = "Join the tables in the query that calls the function."
        raise UnsupportedError(NO_BODY, "subqueries and OVER in a function are not executed", span_of(body), hint=hint)
    aggregate = next((a for node in body.walk() if (a := aggregate_name(node, catalog)) is not None), None)
    if aggregate is not None:
        hint = "Call it with an aggregate: f(SUM(x)). An aggregate function is a class in Python."
        raise BindError("SS209", f'aggregate "{aggregate}" is not allowed in a function', span_of(body), hint=hint)
    calls_itself = name.casefold() in sql_functions_in(body, catalog)
    if calls_itself or any(c.name.casefold() == name.casefold() for c in body.find_all(exp.Anonymous)):
        raise BindError("SS209", f'function "{name}" calls itself', span_of(body), hint="Write it in Python.")
    names = {parameter.casefold() for parameter, _ in function.parameters}
    for column in body.find_all(exp.Column):
        if column.table or column.name.casefold() not in names:
            meant = did_you_mean(column.name, [p for p, _ in function.parameters], "parameters")
            message = f'"{column.name}" is no parameter of function "{name}"'
            raise BindError("SS201", message, span_of(column), hint=meant)
    return bind_query(_tried(body, function), catalog).schema[0].type


def _tried(body: exp.Expression, function: Function) -> exp.Select:
    """A query that has the body, for what is wrong with it."""
    value = body.copy() if function.returns.is_unknown else exp.cast(body.copy(), function.returns.to_sqlglot())
    query = exp.select(exp.alias_(value, "result"))
    if not function.parameters:
        return query
    typed = (exp.alias_(exp.cast(exp.null(), kind.to_sqlglot()), n, quoted=True) for n, kind in function.parameters)
    return query.from_(exp.select(*typed).subquery("parameters"))


def _of_python(
    name: str, statement: nodes.CreateFunction, definition: nodes.FunctionDefinition
) -> tuple[Function, object]:
    if definition.returns is None:
        hint = "Write CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS $$ … $$."
        raise BindError("SS206", f'function "{name}" needs RETURNS with a type', statement.span, hint=hint)
    returns = from_sqlglot(definition.returns)
    function = replace(_described(name, FunctionKind.SCALAR, statement.target, definition, returns), in_place=True)
    return function, function_in_place(name, [p for p, _ in function.parameters], statement.target)


def function_statement(function: Function) -> nodes.CreateFunction:
    """Converts a function back into the CREATE FUNCTION statement that declares it."""
    name = nodes.Name((function.name,))
    if function.kind is not FunctionKind.SQL and not function.in_place:
        return nodes.CreateFunction(name, function.target)
    defaults = {parameter: as_expression(parsed(text)) for parameter, text in function.defaults}
    parameters = tuple(
        nodes.FunctionParameter(parameter, kind.to_sqlglot(), defaults.get(parameter))
        for parameter, kind in function.parameters
    )
    returns = None if function.returns.is_unknown else function.returns.to_sqlglot()
    if function.declared is not None:
        returns = exp.DataType.build(function.declared, dialect="sqlstream")
    body = None if function.in_place else as_expression(parsed(function.target))
    definition = nodes.FunctionDefinition(parameters, returns, body, function.deterministic)
    language, target = ("PYTHON", function.target) if function.in_place else ("SQL", "")
    return nodes.CreateFunction(name, target, language, definition=definition)
