"""What to write here for functions of PostgreSQL, and a few of others, that Spark calls something else.

Each entry is an expression that runs here; what its letters stand for is in ``LETTERS``, with which a test runs all.
"""

from __future__ import annotations

from collections.abc import Mapping

LETTERS = {
    "s": "STRING",
    "d": "STRING",
    "n": "INT",
    "x": "DOUBLE",
    "a": "ARRAY<INT>",
    "b": "ARRAY<INT>",
    "m": "MAP<STRING, INT>",
    "o": "MAP<STRING, INT>",
    "k": "STRING",
    "v": "INT",
    "ts": "TIMESTAMP",
}

_JSON_FIELD = "GET_JSON_OBJECT(s, '$.field')"
_JSON_LIST = "TO_JSON(COLLECT_LIST(v))"
_JSON_MAP = "TO_JSON(MAP_FROM_ENTRIES(COLLECT_LIST(STRUCT(k, v))))"
_JSON_STRUCT = "TO_JSON(NAMED_STRUCT('k', v))"
_NOW = "CURRENT_TIMESTAMP()"

_POSTGRES = {
    "array_cat": "CONCAT(a, b)",
    "array_length": "SIZE(a)",
    "array_to_json": "TO_JSON(a)",
    "array_to_string": "ARRAY_JOIN(a, d)",
    "clock_timestamp": _NOW,
    "ends_with": "ENDSWITH(s, d)",
    "format": "FORMAT_STRING('%s: %d', s, n)",
    "gen_random_uuid": "UUID()",
    "generate_series": "SEQUENCE(1, n)",
    "json_agg": _JSON_LIST,
    "json_build_array": "TO_JSON(ARRAY(v, n))",
    "json_build_object": _JSON_STRUCT,
    "json_extract_path": _JSON_FIELD,
    "json_extract_path_text": _JSON_FIELD,
    "json_object_agg": _JSON_MAP,
    "jsonb_agg": _JSON_LIST,
    "jsonb_array_length": "JSON_ARRAY_LENGTH(s)",
    "jsonb_build_array": "TO_JSON(ARRAY(v, n))",
    "jsonb_build_object": _JSON_STRUCT,
    "jsonb_extract_path": _JSON_FIELD,
    "jsonb_extract_path_text": _JSON_FIELD,
    "jsonb_object_agg": _JSON_MAP,
    "quote_literal": "QUOTE(s)",
    "regexp_match": "REGEXP_EXTRACT(s, '([0-9]+)', 1)",
    "regexp_matches": "REGEXP_EXTRACT_ALL(s, '([0-9]+)', 1)",
    "regexp_split_to_array": "SPLIT(s, '[,;]')",
    "regexp_split_to_table": "EXPLODE(SPLIT(s, '[,;]'))",
    "row_to_json": _JSON_STRUCT,
    "starts_with": "STARTSWITH(s, d)",
    "statement_timestamp": _NOW,
    "string_to_array": "SPLIT(s, ',')",
    "string_to_table": "EXPLODE(SPLIT(s, ','))",
    "strpos": "INSTR(s, d)",
    "to_hex": "LOWER(HEX(n))",
    "to_jsonb": "TO_JSON(a)",
    "transaction_timestamp": _NOW,
}

_OTHERS = {
    "approx_distinct": "APPROX_COUNT_DISTINCT(v)",
    "arbitrary": "ANY_VALUE(v)",
    "date_parse": "TO_TIMESTAMP(s, 'yyyy-MM-dd HH:mm:ss')",
    "from_iso8601_timestamp": "TO_TIMESTAMP(s)",
    "group_concat": "LISTAGG(s, ',')",
    "json_extract": _JSON_FIELD,
    "json_extract_scalar": _JSON_FIELD,
    "strftime": "DATE_FORMAT(ts, 'yyyy-MM-dd')",
    "strptime": "TO_TIMESTAMP(s, 'yyyy-MM-dd HH:mm:ss')",
}

INSTEAD: Mapping[str, str] = _POSTGRES | _OTHERS


def instead_of(name: str) -> str | None:
    """The hint on what to write instead of a function of another system, for instance of PostgreSQL; None for other
    names.
    """
    replacement = INSTEAD.get(name.lower())
    return None if replacement is None else f"Write {replacement}, for example."
