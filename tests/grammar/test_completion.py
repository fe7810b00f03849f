"""What the shell may offer behind an unfinished script."""

from __future__ import annotations

import pytest

from sqlstream.grammar import expected_after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CREATE ",
            [
                "CATALOG",
                "DATABASE",
                "FUNCTION",
                "MATERIALIZED",
                "OR",
                "SCHEMA",
                "STREAMING",
                "TABLE",
                "TEMPORARY",
                "VIEW",
            ],
        ),
        (
            "SELECT 1; SHOW ",
            [
                "CATALOGS",
                "CHECKPOINTS",
                "COLUMNS",
                "CONNECTORS",
                "CREATE",
                "CURRENT",
                "DATABASES",
                "FULL",
                "FUNCTIONS",
                "JARS",
                "JOBS",
                "MATERIALIZED",
                "MODELS",
                "MODULES",
                "PARTITIONS",
                "PROCEDURES",
                "SCHEMAS",
                "STREAMING",
                "TABLES",
                "USER",
                "VIEWS",
            ],
        ),
        ("SELECT ", ["an expression"]),
        ("SELECT a FROM ", ["a table name"]),
        ("SELECT a FROM t WHERE ", ["an expression"]),
        ("SELECT a FROM t JOIN d LOOKUP ", ["ASYNC"]),
        ("SELECT a FROM t ALIGN BARRIERS (CHANNEL c OF ", ["a number"]),
        ("SELECT a FROM t GROUP BY a TRIGGER AFTER PROCESSING ", ["TIME"]),
        ("SELECT a FROM t EMIT ", ["AFTER", "CHANGES", "EVERY", "FINAL", "ON"]),
        ("CREATE TABLE t (a INT, ", ["CONSTRAINT", "PRIMARY", "WATERMARK", "a name"]),
        ("SELECT a FORM t ", []),
        ("SELECT 'abc", []),
    ],
)
def test_exactly_these_may_follow(text: str, expected: list[str]) -> None:
    assert expected_after(text) == expected


@pytest.mark.parametrize(
    ("text", "offered", "not_offered"),
    [
        ("", {"CREATE", "SELECT", "INSERT", "EXPLAIN"} - {"SELECT"} | {"a query"}, {"TRIGGER"}),
        ("SET 'a' = 'b'; ", {"CREATE", "a query"}, {"WHERE"}),
        ("SELECT a FROM t ", {"WHERE", "GROUP BY", "JOIN", "WATERMARK", "ALIGN", "EMIT"}, {"COUNT WINDOW", "TUMBLE"}),
        ("SELECT a FROM t WHERE b > 1 ", {"GROUP BY", "ORDER BY", "EMIT"}, {"WHERE", "JOIN"}),
        ("SELECT a FROM t GROUP BY ", {"TUMBLE", "SESSION"}, {"WHERE"}),
        ("SELECT a FROM t GROUP BY a ", {"COUNT WINDOW", "TRIGGER", "HAVING", "EMIT"}, {"WHERE", "GROUP BY"}),
        ("SELECT a FROM t GROUP BY a TRIGGER ", {"AFTER", "EVERY", "DELTA", "PURGING", "("}, {"EMIT"}),
        ("SELECT a FROM t GROUP BY a TRIGGER EVERY 5 ROWS ", {"OR", "THEN", "RETRACTING", "EVICT"}, {"TRIGGER"}),
        ("SELECT a FROM (SELECT b FROM u GROUP BY b ", {"COUNT WINDOW", "TRIGGER"}, {"WHERE"}),
        ("EXPLAIN ", {"FORMAT", "TRACE", "INSERT", "a query"}, {"DROP"}),
    ],
)
def test_some_are_offered_and_some_not(text: str, offered: set[str], not_offered: set[str]) -> None:
    actual = set(expected_after(text))
    assert offered <= actual
    assert not not_offered & actual
