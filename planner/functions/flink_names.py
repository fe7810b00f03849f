"""Functions of Flink's that Spark has not, or not with so many arguments: how many they take and what they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlstream.planner.functions.coercion import common_type
from sqlstream.types import BOOLEAN, INT, STRING, TIMESTAMP, UNKNOWN, DataType

Rule = Callable[[Sequence[DataType]], DataType]


def _always(result: DataType) -> Rule:
    return lambda _: result


def _first(types: Sequence[DataType]) -> DataType:
    return types[0] if types and types[0].name != "VOID" else UNKNOWN


def _common(types: Sequence[DataType]) -> DataType:
    return common_type(types)


def _element(types: Sequence[DataType]) -> DataType:
    match types:
        case [DataType("ARRAY", (DataType() as element,))]:
            return element
    return UNKNOWN


def _multiset(types: Sequence[DataType]) -> DataType:
    return DataType("MAP", (types[0], INT)) if types and not types[0].is_unknown else UNKNOWN


def _truncated(types: Sequence[DataType]) -> DataType:
    """A number keeps its type; of decimals precision and scale change."""
    return types[0] if types and types[0].is_numeric and types[0].name != "DECIMAL" else UNKNOWN


_SCALAR: dict[str, tuple[str, Rule]] = {
    "array_concat": ("1+", _common),
    "array_reverse": ("1", _first),
    "array_slice": ("2 3", _first),
    "convert_tz": ("3", _always(STRING)),
    "current_row_timestamp": ("0", _always(TIMESTAMP)),
    "element": ("1", _element),
    "from_base64": ("1", _always(STRING)),
    "is_alpha": ("1", _always(BOOLEAN)),
    "is_decimal": ("1", _always(BOOLEAN)),
    "is_digit": ("1", _always(BOOLEAN)),
    "json": ("1", _always(STRING)),
    "json_array": ("0+", _always(STRING)),
    "json_exists": ("2", _always(BOOLEAN)),
    "json_object": ("even", _always(STRING)),
    "json_query": ("2", _always(STRING)),
    "json_quote": ("1", _always(STRING)),
    "json_string": ("1", _always(STRING)),
    "json_unquote": ("1", _always(STRING)),
    "json_value": ("2", _always(STRING)),
    "map_union": ("1+", _common),
    "rand_integer": ("1 2", _always(INT)),
    "sha224": ("1", _always(STRING)),
    "sha256": ("1", _always(STRING)),
    "sha384": ("1", _always(STRING)),
    "sha512": ("1", _always(STRING)),
    "split_index": ("3", _always(STRING)),
    "to_base64": ("1", _always(STRING)),
    "truncate": ("1 2", _truncated),
    "week": ("1", _always(INT)),
}
_AGGREGATE: dict[str, tuple[str, Rule]] = {
    "collect": ("1", _multiset),
    "json_arrayagg": ("1", _always(STRING)),
    "json_objectagg": ("2", _always(STRING)),
}

SCALAR = frozenset(_SCALAR)
AGGREGATE = frozenset(_AGGREGATE)

COUNTS: dict[str, str] = {name: counts for name, (counts, _) in (_SCALAR | _AGGREGATE).items()}
"""How many arguments they take, as ``arities`` writes it."""

MORE_COUNTS: dict[str, str] = {
    "array_sort": "1 2 3",
    "parse_json": "1 2",
    "to_timestamp_ltz": "1 2 3",
    "try_parse_json": "1 2",
    "typeof": "1 2",
}
"""Functions of Spark's that Flink calls with more arguments."""

RESULTS: dict[str, Rule] = {name: rule for name, (_, rule) in (_SCALAR | _AGGREGATE).items()}
