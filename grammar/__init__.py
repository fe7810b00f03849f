"""Text to syntax: sqlglot reads SQL, lark the streaming clauses and statements (``streaming.lark``)."""

from sqlstream.grammar.formatting import format_script, to_sql
from sqlstream.grammar.script import (
    Written,
    expected_after,
    parse_each,
    parse_query,
    parse_script,
    parse_script_recovering,
)
from sqlstream.grammar.spans import name_span_of, span_of
from sqlstream.grammar.trees import clauses_of, match_recognize_of, table_clauses_of, table_function_of

__all__ = [
    "Written",
    "clauses_of",
    "expected_after",
    "format_script",
    "match_recognize_of",
    "name_span_of",
    "parse_each",
    "parse_query",
    "parse_script",
    "parse_script_recovering",
    "span_of",
    "table_clauses_of",
    "table_function_of",
    "to_sql",
]
