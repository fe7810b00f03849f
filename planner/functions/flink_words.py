"""Functions of Flink's in the words of Spark, so that Catalyst runs them.

Plans keep Flink's names, which their texts and checkpoints show; the words are put in their place where a plan, or a
query over finished data, becomes Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream.grammar.json_calls import JsonCall, PathInto
from sqlstream.planner.functions.json_words import is_json, spelled_json
from sqlstream.planner.functions.templates import called, filled, text

_SPELLINGS: dict[str, dict[int, str]] = {
    "array_reverse": {1: "REVERSE(p1)"},
    "array_slice": {
        2: "FILTER(p1, (__x, __i) -> __i >= IF(p2 < 0, SIZE(p1) + p2, p2 - 1) AND p2 IS NOT NULL)",
        3: "IF(p2 IS NULL OR p3 IS NULL, NULL, FILTER(p1, (__x, __i) -> __i >= IF(p2 < 0, SIZE(p1) + p2, p2 - 1) "
        "AND __i <= CASE WHEN p3 < 0 THEN SIZE(p1) + p3 WHEN p3 = 0 THEN 0 ELSE p3 - 1 END))",
    },
    "array_sort": {
        2: "SORT_ARRAY(p1, p2)",
        3: "IF(p3, CONCAT(FILTER(p1, __x -> __x IS NULL), SORT_ARRAY(FILTER(p1, __x -> __x IS NOT NULL), p2)), "
        "CONCAT(SORT_ARRAY(FILTER(p1, __x -> __x IS NOT NULL), p2), FILTER(p1, __x -> __x IS NULL)))",
    },
    "convert_tz": {
        3: "DATE_FORMAT(CONVERT_TIMEZONE(p2, p3, TRY_CAST(p1 AS TIMESTAMP_NTZ)), 'yyyy-MM-dd HH:mm:ss')",
    },
    "current_row_timestamp": {0: "CURRENT_TIMESTAMP"},
    "element": {
        1: "CASE WHEN SIZE(p1) > 1 THEN RAISE_ERROR('ELEMENT takes an array of at most one element') "
        "ELSE GET(p1, 0) END",
    },
    "from_base64": {1: "CAST(UNBASE64(p1) AS STRING)"},
    "is_alpha": {1: r"COALESCE(p1 RLIKE '^\\p{L}+$', FALSE)"},
    "is_decimal": {1: "TRY_CAST(NULLIF(CAST(p1 AS STRING), '') AS DOUBLE) IS NOT NULL"},
    "is_digit": {1: r"COALESCE(p1 RLIKE '^\\p{Nd}+$', FALSE)"},
    "parse_json": {2: "PARSE_JSON(p1)"},
    "rand_integer": {1: "CAST(FLOOR(RAND() * p1) AS INT)", 2: "CAST(FLOOR(RAND(p1) * p2) AS INT)"},
    "sha224": {1: "SHA2(p1, 224)"},
    "sha256": {1: "SHA2(p1, 256)"},
    "sha384": {1: "SHA2(p1, 384)"},
    "sha512": {1: "SHA2(p1, 512)"},
    "split_index": {3: r"GET(SPLIT(NULLIF(p1, ''), CONCAT('\\Q', p2, '\\E')), p3)"},
    "to_base64": {1: "BASE64(CAST(p1 AS BINARY))"},
    "to_timestamp_ltz": {
        3: "CAST(CONVERT_TIMEZONE(p3, CURRENT_TIMEZONE(), TO_TIMESTAMP_NTZ(p1, p2)) AS TIMESTAMP)",
    },
    "truncate": {
        1: "CASE WHEN p1 < 0 THEN CEIL(p1, 0) ELSE FLOOR(p1, 0) END",
        2: "CASE WHEN p1 < 0 THEN CEIL(p1, p2) ELSE FLOOR(p1, p2) END",
    },
    "try_parse_json": {2: "TRY_PARSE_JSON(p1)"},
    "typeof": {2: "TYPEOF(p1)"},
    "week": {1: "WEEKOFYEAR(p1)"},
}
"""By name and number of arguments; ``p1`` is the first of them."""

_MERGED = "MAP_ZIP_WITH(p1, p2, (__k, __x, __y) -> IF(MAP_CONTAINS_KEY(p2, __k), __y, __x))"


def spelled_for_spark(node: exp.Expr) -> exp.Expr:
    """A call or predicate of Flink's as Spark has it, all others as they are. Its operands may still be Flink's."""
    match node:
        case JsonCall() | exp.Anonymous():
            return _call(node, node.name.lower(), node.expressions)
        case exp.Is(expression=exp.JSON()):
            return is_json(node)
        case PathInto():
            return called("VARIANT_GET", node.this.copy(), text(node.args["expression"]), text("variant"))
    return node


def _call(call: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
    spelling = _SPELLINGS.get(name, {}).get(len(arguments))
    if spelling is not None and not (name == "array_sort" and isinstance(arguments[1], exp.Lambda)):
        return filled(spelling, *arguments)
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
