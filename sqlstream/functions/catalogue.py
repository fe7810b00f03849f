"""The built-in functions by name. What is user-defined is in the session's catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.functions.aggregates import AGGREGATES, MAKING_ROWS, OF_CLAUSES, OVER_ROWS, SKETCHES
from sqlstream.functions.builtin import Aggregate, Builtin, BuiltinKind
from sqlstream.functions.nested import DOCUMENTS, NESTED
from sqlstream.functions.strings import STRINGS
from sqlstream.functions.times import TIMES
from sqlstream.functions.values import CONDITIONS, CONVERSIONS, NUMBERS
from sqlstream.types import UNKNOWN, DataType

_EVALUATED: tuple[Sequence[Builtin], ...] = (
    AGGREGATES, CONDITIONS, CONVERSIONS, DOCUMENTS, MAKING_ROWS, NESTED, NUMBERS, OVER_ROWS, SKETCHES, STRINGS, TIMES,
)  # fmt: skip


def _by_name(functions: Sequence[Builtin]) -> dict[str, Builtin]:
    return {named.name: named for function in functions for named in function.by_each_name}


FUNCTIONS: Mapping[str, Builtin] = {
    name: function for functions in _EVALUATED for name, function in _by_name(functions).items()
}
"""The functions that Spark evaluates, by each of their names in lower case."""

CLAUSE_FUNCTIONS: Mapping[str, Builtin] = _by_name(OF_CLAUSES)
"""The functions that the planner resolves, by name."""


def kind_of(name: str) -> BuiltinKind | None:
    """The kind of the function with that name (any case), as Spark evaluates it; None if Spark has none."""
    function = FUNCTIONS.get(name.lower())
    return None if function is None else function.kind


def is_aggregate(name: str | None) -> bool:
    """True if Spark evaluates an aggregate function by that name."""
    return name is not None and kind_of(name) is BuiltinKind.AGGREGATE


def aggregate_of(name: str | None) -> Aggregate | None:
    """The aggregate function of that name or alias, in lower case; None where there is none."""
    function = FUNCTIONS.get(name) if name is not None else None
    if function is not None and function.alias_of is not None:
        function = FUNCTIONS[function.alias_of]
    return function if isinstance(function, Aggregate) else None


def kinds_to_show() -> dict[str, str]:
    """The functions that an expression may call without OVER, as a dictionary from the name to the kind in words."""
    kinds = (BuiltinKind.SCALAR, BuiltinKind.AGGREGATE, BuiltinKind.GENERATOR)
    called = {name: function.kind.text for name, function in FUNCTIONS.items() if function.kind in kinds}
    return called | {name: function.kind.text for name, function in CLAUSE_FUNCTIONS.items()}


def same_in_flink(name: str) -> bool:
    """True if Flink has a function of that name with the same meaning, apart from differences that translating scripts
    from Flink takes care of.
    """
    function = FUNCTIONS.get(name) or CLAUSE_FUNCTIONS.get(name)
    return function is not None and bool(function.flink)


def result_type(name: str, arguments: Sequence[DataType]) -> DataType:
    """The type of a call of the function ``name`` on arguments of these types, UNKNOWN where it is not certain."""
    function = FUNCTIONS.get(name)
    return UNKNOWN if function is None else function.result_type(arguments)
