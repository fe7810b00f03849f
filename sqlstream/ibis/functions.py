"""Functions of Python that Ibis's expressions call, registered in the session: by row, over Arrow, over pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ibis.expr.operations as ops
import pandas as pd
import pyarrow as pa
from ibis.expr.operations.udf import InputType

from sqlstream.ibis.datatypes import SqlStreamType
from sqlstream.session import Session
from sqlstream.types import DataType, parse_type
from sqlstream.udfs.functions import scalar
from sqlstream.udfs.signature import Function, FunctionKind


def register_functions(operation: ops.Node, session: Session) -> None:
    """Makes the functions that an expression calls callable in the session. Those of the dialect, which
    ``udf.scalar.builtin`` and ``udf.agg.builtin`` name, are there.
    """
    for call in operation.find(ops.ScalarUDF):
        if call.__input_type__ != InputType.BUILTIN:
            _register(call, session)


def _register(call: Any, session: Session) -> None:
    name, function = type(call).__name__, call.__func__
    parameters = tuple(
        (parameter, _type(declared.annotation.pattern.dtype))
        for parameter, declared in call.__signature__.parameters.items()
    )
    described = Function(
        name=name,
        target=f"{function.__module__}:{function.__qualname__}",
        kind=FunctionKind.SCALAR,
        returns=_type(call.dtype),
        parameters=parameters,
        min_arguments=len(parameters),
        max_arguments=len(parameters),
    )
    session.workspace.catalog.register(described, _implementation(call.__input_type__, function))


def _type(dtype: Any) -> DataType:
    return parse_type(SqlStreamType.to_string(dtype))


def _implementation(kind: InputType, function: Callable[..., Any]) -> Callable[..., Any]:
    if kind == InputType.PYTHON:
        return lambda *values: function(*values)  # its annotations may be types of Ibis
    if kind == InputType.PYARROW:
        return scalar(vectorized=True)(lambda *columns: function(*columns))

    def over_series(*columns: pa.Array) -> pa.Array:
        return pa.Array.from_pandas(pd.Series(function(*(column.to_pandas() for column in columns))))

    return scalar(vectorized=True)(over_series)
