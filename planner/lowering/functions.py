"""Python functions of CREATE FUNCTION as Spark's Arrow functions, registered where an expression calls them."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.functions import arrow_udf
from sqlglot import exp

from sqlstream.errors import UnsupportedError
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.planner.catalog import Function, FunctionKind
from sqlstream.planner.expressions import as_expression, with_children_changed
from sqlstream.planner.functions.spelling import spelled_for_spark
from sqlstream.planner.lowering.runtime import Runtime
from sqlstream.types import STRING, DataType
from sqlstream.udfs import columnar
from sqlstream.udfs.columnar import Columnar, by_batch, by_group, by_row, by_row_to_rows, tolerant, unless
from sqlstream.udfs.expressions.tree import Called, ColumnStep, bound
from sqlstream.udfs.functions import options_of
from sqlstream.udfs.lookup.source import LookupSource, Request
from sqlstream.udfs.lookup.sources.function import function_source

if TYPE_CHECKING:
    from pyspark.sql._typing import UserDefinedFunctionLike

# --- modules that workers cannot import and that are sent by value --------------------------------------------


_INSTALLED = tuple(Path(sysconfig.get_path(key)).resolve() for key in ("stdlib", "platstdlib", "purelib", "platlib"))


def modules_to_ship(implementation: object) -> tuple[ModuleType, ...]:
    """The modules whose code must be sent to workers with a user's function, because workers may not have them: those
    loaded from the folder of the module that defines ``implementation``. Installed modules are not sent, except
    sqlstream's adapter.
    """
    module = inspect.getmodule(implementation)
    folder = _folder(module) if module is not None else None
    if folder is None or _installed(folder):
        return (columnar,)
    others = (m for m in tuple(sys.modules.values()) if _is_below(m, folder))
    return (columnar, *others)


def _folder(module: ModuleType) -> Path | None:
    """The directory on the path that the module was found in."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    depth = module.__name__.count(".") + (1 if hasattr(module, "__path__") else 0)
    return Path(file).resolve().parents[depth]


def _installed(folder: Path) -> bool:
    return any(folder.is_relative_to(root) for root in _INSTALLED)


def _is_below(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.partition(".")[0] in ("__main__", "sqlstream"):
        return False
    path = Path(file).resolve()
    return path.is_relative_to(folder) and not _installed(path)


_EXECUTED = (FunctionKind.SCALAR, FunctionKind.AGGREGATE, FunctionKind.TABLE)


def called_function(expression: exp.Expression, runtime: Runtime) -> Function | None:
    """The user's function that the expression calls; None for other expressions."""
    return runtime.function(expression.name) if isinstance(expression, exp.Anonymous) else None


@on_deep_stack
def with_registered_functions(
    expression: exp.Expression, runtime: Runtime, skipped: exp.Expression | None = None
) -> exp.Expression:
    """The expression with calls of Flink's and users' functions replaced by calls of functions registered in Spark.

    Scalar functions are not called for rows for which ``skipped`` is true, and return NULL.
    """

    def renamed(node: exp.Expr) -> exp.Expr:
        spelled = spelled_for_spark(node)
        while spelled is not node:
            node, spelled = spelled, spelled_for_spark(spelled)
        return with_children_changed(node, lambda child: changed(as_expression(child)))

    def changed(node: exp.Expression) -> exp.Expr:
        function = called_function(node, runtime)
        if function is None:
            return renamed(node)
        arguments = [changed(a) for a in cast_arguments(node, function)]
        if skipped is not None and function.kind is FunctionKind.SCALAR:
            name = register_unless(function, runtime, len(arguments))
            return exp.Anonymous(this=name, expressions=[skipped.copy(), *arguments])
        name = register(function, runtime, len(arguments))
        return exp.Anonymous(this=name, expressions=arguments or [exp.true()])

    return as_expression(changed(expression))


def cast_arguments(call: exp.Expression, function: Function) -> list[exp.Expression]:
    """The arguments, cast to the types that the function declares."""
    declared = [kind for _, kind in function.parameters]
    declared += [DataType("UNKNOWN")] * (len(call.expressions) - len(declared))
    pairs = zip(call.expressions, declared, strict=False)
    return [a if kind.is_unknown else exp.cast(a.copy(), kind.to_sqlglot()) for a, kind in pairs]


def register(function: Function, runtime: Runtime, arity: int) -> str:
    """Registers the function in the Spark session, and returns its name there. The name is unique, so that other jobs
    may use the same name for another function. ``arity`` is the number of arguments of the call.
    """
    if function.kind not in _EXECUTED:
        raise UnsupportedError("SS392", f'{function.kind.value} function "{function.name}" is not executed')
    return _registered("", function, runtime, arity, _columnar(function, runtime, arity), _result(function))


def register_unless(function: Function, runtime: Runtime, arity: int) -> str:
    """Registers a scalar function with an additional first argument: where it is true, the function is not called and
    the result is NULL. Returns the function's name in Spark.
    """
    result = _result(function)
    columnar = unless(_columnar(function, runtime, arity), result.to_arrow())
    return _registered("unless_", function, runtime, arity, columnar, result)


def register_tolerant(function: Function, runtime: Runtime, arity: int) -> str:
    """Registers a scalar or table function whose exceptions do not fail the job. Returns its name in Spark.

    Its additional first argument is true for rows for which it is not called. The result is a STRUCT of the value, the
    error's text, and where the error was raised.
    """
    result = _result(function)
    columnar = tolerant(_columnar(function, runtime, arity), result.to_arrow())
    returns = DataType("STRUCT", (("value", result), ("error", STRING), ("place", STRING)))
    return _registered("tolerant_", function, runtime, arity, columnar, returns)


def _registered(
    prefix: str, function: Function, runtime: Runtime, arity: int, columnar: Columnar, returns: DataType
) -> str:
    digest = hashlib.sha256(function.target.encode()).hexdigest()[:12]
    plain = re.sub(r"\W", "_", function.name.lower())  # functions of Spark's sessions are in no database
    name = f"sqlstream_{prefix}{plain}_{arity}_{digest}"
    udf = _arrow_function(columnar, returns)
    runtime.spark.udf.register(name, udf if function.deterministic else udf.asNondeterministic())
    return name


def ship(implementation: object) -> None:
    """Makes Python pickle the user's definitions by value, because workers may not be able to import them."""
    for module in modules_to_ship(implementation):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def lookup_source(function: Function, implementation: object, request: Request) -> LookupSource:
    """Returns the lookup source that calls a user's coroutine. The coroutine is sent to workers by value, because they
    may not be able to import it.
    """
    ship(implementation)
    dumps: Any = cloudpickle.dumps
    return function_source(function, implementation, request, dumps)


def bound_calls(steps: tuple[ColumnStep, ...], runtime: Runtime) -> tuple[ColumnStep, ...]:
    """The steps with the users' functions that they call, for tasks."""

    def call(called: Called) -> Columnar:
        function = runtime.function(called.name)
        assert function is not None, f'planning has seen "{called.name}"'
        return _columnar(function, runtime, len(called.arguments))

    return bound(steps, call)


def _arrow_function(columnar: Columnar, returns: DataType) -> UserDefinedFunctionLike:
    def call(*columns: pa.Array) -> pa.Array:  # Spark reads from the annotations how to call it
        return columnar(*columns)

    make: Any = arrow_udf
    return make(call, returns.ddl())  # type: ignore[no-any-return]


def _result(function: Function) -> DataType:
    return DataType("ARRAY", (function.returns,)) if function.kind is FunctionKind.TABLE else function.returns


def _columnar(function: Function, runtime: Runtime, arity: int) -> Columnar:
    implementation: Any = runtime.implementation(function)
    ship(implementation)
    returns = function.returns.to_arrow()
    if function.kind is FunctionKind.AGGREGATE:
        return by_group(function.name, implementation, returns)
    if function.kind is FunctionKind.TABLE:
        call: Any = implementation().eval if isinstance(implementation, type) else implementation
        return by_row_to_rows(function.name, call, returns, arity)
    if options_of(implementation).vectorized:
        return by_batch(function.name, implementation, returns)
    return by_row(function.name, implementation, returns, arity)
