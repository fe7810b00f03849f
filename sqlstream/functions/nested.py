"""Functions of arrays, maps and structs, and higher-order functions."""

from __future__ import annotations

from sqlstream.functions.builtin import FLINK, Builtin, scalar
from sqlstream.functions.coercion import common_type
from sqlstream.functions.result_types import (
    array_with_element,
    element,
    map_of_pairs,
    map_part,
    same_as_first,
    string_or_array,
)
from sqlstream.types import BOOLEAN, INT, STRING

NESTED: tuple[Builtin, ...] = (
    scalar("aggregate", "3 4", aliases="reduce"),
    scalar("array", flink=True),
    scalar("array_append", "2", flink=True),
    scalar("array_compact", "1", same_as_first),
    scalar("array_concat", "1+", common_type, origin=FLINK, flink=True),
    scalar("array_contains", "2", BOOLEAN, flink=True),
    scalar("array_distinct", "1", same_as_first, flink=True),
    scalar("array_except", "2", flink=True),
    scalar("array_insert", "3"),
    scalar("array_intersect", "2", flink=True),
    scalar("array_join", "2 3", STRING, flink=True),
    scalar("array_max", "1", element, flink=True),
    scalar("array_min", "1", element, flink=True),
    scalar("array_position", "2", flink=True),
    scalar("array_prepend", "2", flink=True),
    scalar("array_remove", "2", array_with_element, flink=True),
    scalar("array_repeat", "2"),
    scalar("array_reverse", "1", same_as_first, origin=FLINK, flink=True, spark={1: "REVERSE(p1)"}),
    scalar("array_size", "1", INT),
    scalar(
        "array_slice",
        "2 3",
        same_as_first,
        origin=FLINK,
        flink=True,
        spark={
            2: "FILTER(p1, (__x, __i) -> __i >= IF(p2 < 0, SIZE(p1) + p2, p2 - 1) AND p2 IS NOT NULL)",
            3: "IF(p2 IS NULL OR p3 IS NULL, NULL, FILTER(p1, (__x, __i) -> __i >= IF(p2 < 0, SIZE(p1) + p2, p2 - 1) "
            "AND __i <= CASE WHEN p3 < 0 THEN SIZE(p1) + p3 WHEN p3 = 0 THEN 0 ELSE p3 - 1 END))",
        },
    ),
    scalar(
        "array_sort",
        "1 2",
        same_as_first,
        spark={
            2: "SORT_ARRAY(p1, p2)",
            3: "IF(p3, CONCAT(FILTER(p1, __x -> __x IS NULL), SORT_ARRAY(FILTER(p1, __x -> __x IS NOT NULL), p2)), "
            "CONCAT(SORT_ARRAY(FILTER(p1, __x -> __x IS NOT NULL), p2), FILTER(p1, __x -> __x IS NULL)))",
        },
    ),
    scalar("array_union", "2", flink=True),
    scalar("arrays_overlap", "2", BOOLEAN),
    scalar("arrays_zip"),
    scalar("cardinality", "1", INT, aliases="size", flink=True),
    scalar("concat", None, string_or_array, flink=True),
    scalar(
        "element",
        "1",
        element,
        origin=FLINK,
        spark={
            1: "CASE WHEN SIZE(p1) > 1 THEN RAISE_ERROR('ELEMENT takes an array of at most one element') "
            "ELSE GET(p1, 0) END"
        },
    ),
    scalar("element_at", "2"),
    scalar("exists", "2", flink=True),
    scalar("filter", "2"),
    scalar("flatten", "1"),
    scalar("forall", "2"),
    scalar("get", "2", element),
    scalar("map", "even", map_of_pairs, flink=True),
    scalar("map_concat"),
    scalar("map_contains_key", "2", BOOLEAN),
    scalar("map_entries", "1", flink=True),
    scalar("map_filter", "2"),
    scalar("map_from_arrays", "2", flink=True),
    scalar("map_from_entries", "1"),
    scalar("map_keys", "1", map_part(0), flink=True),
    scalar("map_union", "1+", common_type, origin=FLINK, flink=True),
    scalar("map_values", "1", map_part(1), flink=True),
    scalar("map_zip_with", "3"),
    scalar("named_struct", "even"),
    scalar("reverse", "1", string_or_array, flink=True),
    scalar("sequence", "2 3"),
    scalar("shuffle", "1 2", same_as_first, volatile=True),
    scalar("slice", "3", same_as_first),
    scalar("sort_array", "1 2", same_as_first),
    scalar("str_to_map", "1 2 3"),
    scalar("struct"),
    scalar("transform", "2"),
    scalar("transform_keys", "2"),
    scalar("transform_values", "2"),
    scalar("try_element_at", "2"),
    scalar("zip_with", "3"),
)
