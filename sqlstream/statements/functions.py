"""DESCRIBE FUNCTION."""

from __future__ import annotations

from sqlstream.catalog import Catalog
from sqlstream.errors import BindError
from sqlstream.grammar import nodes
from sqlstream.planner.catalog import FunctionKind
from sqlstream.planner.functions.kinds import kind_of
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.results import Rows
from sqlstream.types import DataType

NO_FUNCTION = "SS203"


def describe_function_named(name: nodes.Name, catalog: Catalog) -> Rows:
    """What is known of a function, line by line."""
    local = str(name)
    function = catalog.function(local)
    if function is None:
        kind = kind_of(local)
        if kind is None:
            hint = did_you_mean(local, catalog.function_names(), "functions of yours")
            raise BindError(NO_FUNCTION, f'function "{local}" does not exist', name.span, hint=hint)
        told = [("function name", local.lower()), ("kind", kind.value), ("origin", "built-in")]
    else:
        defaults = dict(function.defaults)
        told = [
            ("function name", function.name),
            ("kind", function.kind.value),
            ("origin", "user"),
            *(("argument", _argument(n, kind, defaults.get(n))) for n, kind in function.parameters),
            ("returns", "" if function.returns.is_unknown else function.returns.ddl()),
            ("deterministic", str(function.deterministic).upper()),
            ("definition" if function.kind is FunctionKind.SQL else "target", function.target),
        ]
    return Rows.of_text(("info name", "info value"), told)


def _argument(name: str, kind: DataType, default: str | None) -> str:
    typed = name if kind.is_unknown else f"{name} {kind}"
    return typed if default is None else f"{typed} DEFAULT {default}"
