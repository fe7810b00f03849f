"""Python classes of the user's in a window: assigners, triggers and evictors, with their constant arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlstream.planner.fields import Schema
from sqlstream.planner.firing import PythonCall
from sqlstream.planner.lowering.columnar.inputs import Inputs
from sqlstream.planner.lowering.functions import ship
from sqlstream.planner.lowering.lower import Context


@dataclass(frozen=True)
class UserClass:
    """``columns`` are those of the rows that its instances see, under the names of the query."""

    name: str
    implementation: Any
    arguments: tuple[object, ...]
    columns: tuple[str, ...]


def user_class(call: PythonCall, rows: Schema, inputs: Inputs) -> UserClass:
    """The class that ``call`` names; the fields of its rows become columns of ``inputs``."""
    context = inputs.context
    function = context.runtime.function(call.function)
    assert function is not None, f'the binder has seen "{call.function}"'
    implementation = context.runtime.implementation(function)
    ship(implementation)
    columns = tuple(inputs.field(f.name, f.name) for f in rows)
    return UserClass(function.name, implementation, values_of(call.arguments, context), columns)


def values_of(constants: Sequence[exp.Expression], context: Context) -> tuple[object, ...]:
    """Constant arguments as Python objects, evaluated by Spark."""
    if not constants:
        return ()
    texts = ", ".join(f"{context.sql(a)} AS a{i}" for i, a in enumerate(constants))
    (row,) = context.runtime.spark.sql(f"SELECT {texts}").collect()
    return tuple(row)
