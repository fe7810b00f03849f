"""DESCRIBE FUNCTION."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from sqlstream.catalog import Catalog
from sqlstream.errors import BindError, SqlStreamError
from sqlstream.functions.builtin import Builtin, BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.types import DataType
from sqlstream.udfs.functions import load

NO_FUNCTION = "SS203"

Line = tuple[str, str]


def describe_function_named(name: nodes.Name, catalog: Catalog, *, extended: bool = False) -> Rows:
    """What is known of a function, line by line."""
    local = str(name)
    function = catalog.function(local)
    if function is not None:
        told = [*_of_user(function), *(_more_of_user(function) if extended else ())]
        return Rows.of_text(("info name", "info value"), told)
    built_in = FUNCTIONS.get(local.lower())
    if built_in is None:
        hint = did_you_mean(local, catalog.function_names(), "functions of yours")
        raise BindError(NO_FUNCTION, f'function "{local}" does not exist', name.span, hint=hint)
    told = [("function name", built_in.name), ("kind", built_in.kind.value), ("origin", "built-in")]
    return Rows.of_text(("info name", "info value"), [*told, *(_more_of_built_in(built_in) if extended else ())])


# --- functions of users ---------------------------------------------------------------------------------------


def _of_user(function: Function) -> Iterator[Line]:
    defaults = dict(function.defaults)
    yield "function name", function.name
    yield "kind", function.kind.value
    yield "origin", "user"
    yield from (("argument", _argument(n, kind, defaults.get(n))) for n, kind in function.parameters)
    yield "returns", _returns(function)
    yield "deterministic", str(function.deterministic).upper()
    yield "definition" if function.kind is FunctionKind.SQL else "target", function.target


def _more_of_user(function: Function) -> Iterator[Line]:
    yield "language", "SQL" if function.kind is FunctionKind.SQL else "PYTHON"
    defaults = dict(function.defaults)
    arguments = ", ".join(_argument(n, kind, defaults.get(n)) for n, kind in function.parameters)
    yield "signature", f"{function.name}({arguments}){f' RETURNS {r}' if (r := _returns(function)) else ''}"
    if function.kind is not FunctionKind.SQL and not function.in_place:
        yield from _of_python(function.target)


def _of_python(target: str) -> Iterator[Line]:
    """What the module says, where it can be imported here."""
    try:
        implementation = load(target)
    except SqlStreamError:
        return
    if inspect.isclass(implementation):
        yield "class", f"{implementation.__module__}.{implementation.__qualname__}"
    if usage := _first_paragraph(implementation):
        yield "usage", usage


def _returns(function: Function) -> str:
    return function.declared or ("" if function.returns.is_unknown else function.returns.ddl())


def _argument(name: str, kind: DataType, default: str | None) -> str:
    typed = name if kind.is_unknown else f"{name} {kind}"
    return typed if default is None else f"{typed} DEFAULT {default}"


# --- built-in functions ---------------------------------------------------------------------------------------


def _more_of_built_in(function: Builtin) -> Iterator[Line]:
    of_flink = function.origin is Origin.FLINK
    yield "class", "an expression of Spark, by Flink's name" if of_flink else "a function of Spark"
    if function.arity is not None:
        yield "arguments", function.arity_in_words
    if function.kind in (BuiltinKind.SCALAR, BuiltinKind.AGGREGATE):
        yield "deterministic", str(not function.volatile).upper()
    if usage := _usage(function.name):
        yield "usage", usage


def _usage(name: str) -> str | None:
    """What PySpark says of a function of that name."""
    from pyspark.sql import functions

    function = getattr(functions, name, None)
    return _first_paragraph(function) if callable(function) else None


def _first_paragraph(documented: object) -> str | None:
    text = inspect.getdoc(documented) or ""
    return " ".join(text.partition("\n\n")[0].split()) or None
