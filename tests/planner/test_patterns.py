"""Warnings about regular expressions that hold a backspace; patterns of LIKE that Spark refuses when the query runs."""

from __future__ import annotations

import pytest

from sqlstream.grammar import parse_script
from sqlstream.planner.functions.patterns import warnings_of

WINDOW = "GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"


def warned(text: str) -> list[str]:
    """The texts that the warnings about a script point to."""
    parsed = [w for statement in parse_script(text) for w in warnings_of(statement)]
    assert all(w.code == "SS236" and w.warning and w.hint for w in parsed)
    return [text[w.span.start : w.span.end] for w in parsed if w.span]


@pytest.mark.parametrize(
    "call",
    [
        r"a RLIKE '\bx'",
        r"a NOT RLIKE '\bx'",
        r"a REGEXP '\bx'",
        r"REGEXP(a, '\bx')",
        r"rlike(a, '\bx')",
        r"regexp_like(a, '\bx')",
        r"regexp_count(a, '\bx')",
        r"regexp_extract(a, '\bx', 1)",
        r"regexp_extract_all(a, '\bx')",
        r"regexp_instr(a, '\bx')",
        r"REGEXP_REPLACE(a, '\bx', '\b')",
        r"regexp_substr(a, CONCAT('y', '\bx'))",
        r"split(a, '\bx')",
    ],
)
def test_a_pattern_with_a_backspace_gets_a_warning(call):
    assert warned(f"SELECT {call} FROM t") == [r"'\bx'"]


def test_it_is_found_wherever_it_stands():
    regex = r"a RLIKE '\b'"
    texts = [
        f"SELECT a FROM t WHERE {regex}",
        f"SELECT MAX(a) FROM t {WINDOW} HAVING MAX(a) RLIKE '\\b'",
        f"SELECT COUNT(*) FROM t {WINDOW} TRIGGER WHEN ({regex})",
        f"SELECT * FROM TUMBLE(TABLE (SELECT * FROM t WHERE {regex}), DESCRIPTOR(ts), INTERVAL '1' DAY)",
        f"SELECT * FROM t ALIGN BARRIERS (CHANNEL c OF 2, MARKER {regex}, ID d)",
        f"CREATE TABLE t (a STRING, b AS {regex}) WITH ('connector' = 'x\\b')",
        f"CREATE VIEW v AS SELECT {regex} FROM t",
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO u SELECT {regex} FROM t; END",
        f"EXPLAIN SELECT {regex} FROM t",
    ]
    assert [warned(text) for text in texts] == [[r"'\b'"]] * len(texts)


def test_the_warning_says_what_to_write():
    (statement,) = parse_script(r"SELECT a RLIKE '\ba\Z', a RLIKE 'it''s\b' FROM t")
    assert [w.hint for w in warnings_of(statement)] == [
        r"Write r'\ba\Z' for the edge of a word.",
        r"Write r'\ba\Z' for the end of input.",
        r"Write 'it''s\\b' for the edge of a word.",
    ]


@pytest.mark.parametrize(
    "text",
    [r"SELECT a RLIKE '\\b', a RLIKE r'\b', a LIKE '\b', '\b' RLIKE a, upper('\b') FROM t", "SHOW TABLES", "SET"],
)
def test_other_texts_get_none(text):
    assert warned(text) == []
