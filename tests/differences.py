"""Expressions whose results are not those of Flink 2.3, where all of them were run: the tables of docs/dialect.md.

A result is written as SQL shows it; ``ERROR`` fails the job. What Flink refuses is no difference: such queries do not
come from there.
"""

from __future__ import annotations

from dataclasses import dataclass

ERROR = "an error"


@dataclass(frozen=True)
class Difference:
    """``rows``: for an aggregate, the values of its column ``x``, and ``type``, which that has."""

    expression: str
    flink: str
    here: str
    rows: tuple[object, ...] = ()
    type: str = "INT"


def _all(*lines: tuple[str, str, str]) -> tuple[Difference, ...]:
    return tuple(Difference(*line) for line in lines)


NUMBERS = _all(
    ("7 / 2", "3", "3.5"),
    ("10.0 / 3", "3.333333333333", "3.333333"),
    ("2147483647 + 1", "-2147483648", ERROR),
    ("-CAST(-128 AS TINYINT)", "-128", ERROR),
    ("CAST(300 AS TINYINT)", "44", ERROR),
    ("TRY_CAST(300 AS TINYINT)", "44", "NULL"),
    ("CAST(CAST(1E20 AS DOUBLE) AS BIGINT)", "9223372036854775807", ERROR),
    ("CAST(12345.6 AS DECIMAL(4, 1))", "NULL", ERROR),
    ("CAST('1.5' AS INT)", "1", ERROR),
    ("TRY_CAST('1.5' AS INT)", "1", "NULL"),
    ("CAST(0.1 AS FLOAT) = 0.1", "TRUE", "FALSE"),
    ("CEIL(CAST(1.5 AS DOUBLE))", "2.0", "2"),
    ("FLOOR(CAST(-1.5 AS DOUBLE))", "-2.0", "-2"),
    ("SIGN(-3)", "-1", "-1.0"),
    ("LN(0)", "-Infinity", "NULL"),
    ("LOG10(0)", "-Infinity", "NULL"),
    ("LOG2(0)", "-Infinity", "NULL"),
    ("LOG(0)", "-Infinity", "NULL"),
    ("LN(-1)", "NaN", "NULL"),
    ("EXP(1)", "2.718281828459045", "2.7182818284590455"),
    ("GREATEST(1, CAST(NULL AS INT), 3)", "NULL", "3"),
    ("LEAST(1, CAST(NULL AS INT), 3)", "NULL", "1"),
    ("TYPEOF(1)", "'INT NOT NULL'", "'int'"),
)
TEXTS = _all(
    (r"CHAR_LENGTH('\n')", "2", "1"),
    (r"CHAR_LENGTH('a\\b')", "4", "3"),
    ("CAST(TRUE AS STRING)", "'TRUE'", "'true'"),
    ("CAST(ROW(1, 'a') AS STRING)", "'(1, a)'", "'{1, a}'"),
    ("CAST(MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1]) AS STRING)", "'{a=1}'", "'{a -> 1}'"),
    ("CAST(INTERVAL '1' DAY AS STRING)", "'+1 00:00:00.000'", "'INTERVAL '1' DAY'"),
    ("LTRIM('xxa', 'x')", "'a'", "''"),
    ("RTRIM('axx', 'x')", "'a'", "''"),
    ("SUBSTRING('abcdef', -10, 6)", "''", "'ab'"),
    ("SUBSTRING('abcdef', -10)", "''", "'abcdef'"),
    ("SUBSTRING('abcdef', 2, -1)", "NULL", "''"),
    ("LOCATE('a', 'banana', 0)", "2", "0"),
    ("OVERLAY('abc' PLACING 'x' FROM 10)", "'abc'", "'abcx'"),
    ("OVERLAY('abc' PLACING 'x' FROM 0)", "'abc'", "'xabc'"),
    ("REPLACE('abc', '', 'x')", "'xaxbxcx'", "'abc'"),
    ("LPAD('hi', 4, '')", "NULL", "'hi'"),
    ("RPAD('hi', -1, '?')", "NULL", "''"),
    ("INITCAP('foo-bar')", "'Foo-Bar'", "'Foo-bar'"),
    ("ASCII('é')", "-61", "233"),
    ("ELT(5, 'a', 'b')", "NULL", ERROR),
    ("URL_DECODE('%')", "NULL", ERROR),
)
PATTERNS = _all(
    (r"'a%b' LIKE 'a\%b'", "FALSE", "TRUE"),
    ("REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)')", "'foothebar'", "'the'"),
    ("REGEXP_EXTRACT('abc', 'x(.)', 1)", "NULL", "''"),
    (r"REGEXP_EXTRACT('a1', '(b)?a(\d)', 1)", "NULL", "''"),
    (r"REGEXP_EXTRACT('a1', 'a(\d)', 2)", "NULL", ERROR),
    ("REGEXP_REPLACE('abc', '(b)', '[$1]')", "'a[$1]c'", "'a[b]c'"),
    ("REGEXP_REPLACE('abc', '[', 'x')", "NULL", ERROR),
    ("SPLIT('a.b', '.')", "['a', 'b']", "['', '', '', '']"),
    ("SPLIT('', ',')", "[]", "['']"),
    ("STR_TO_MAP('a=1')", "{'a': '1'}", "{'a=1': NULL}"),
    ("STR_TO_MAP('a=1,a=2', ',', '=')", "{'a': '2'}", ERROR),
)
TIMES = _all(
    ("FLOOR(TIMESTAMP '2024-02-29 12:34:56' TO WEEK)", "2024-02-25 00:00:00", "2024-02-26 00:00:00"),
    ("TIMESTAMPADD(DAY, 1, DATE '2024-01-31')", "2024-02-01", "2024-02-01 00:00:00"),
    ("TIMESTAMPDIFF(MONTH, TIMESTAMP '2024-01-31 00:00:00', TIMESTAMP '2024-02-29 00:00:00')", "1", "0"),
    ("TIMESTAMPDIFF(YEAR, TIMESTAMP '2024-02-29 00:00:00', TIMESTAMP '2025-02-28 00:00:00')", "1", "0"),
    ("EXTRACT(SECOND FROM TIMESTAMP '2024-01-01 00:00:01.5')", "1", "1.500000"),
    ("DATE_FORMAT(TIMESTAMP '2024-12-30 12:34:56', 'YYYY')", "'2025'", ERROR),
    ("DATE_FORMAT(TIMESTAMP '2024-12-30 12:34:56', 'w')", "'1'", ERROR),
    ("TO_DATE('abc')", "NULL", ERROR),
    ("TO_TIMESTAMP('abc')", "NULL", ERROR),
    ("TO_TIMESTAMP('2024-02-29 12:34')", "NULL", "2024-02-29 12:34:00"),
    (
        "TO_TIMESTAMP('2024-02-29 12:34:56.123456', 'yyyy-MM-dd HH:mm:ss.SSSSSS')",
        "2024-02-29 12:34:56.123",
        "2024-02-29 12:34:56.123456",
    ),
    ("UNIX_TIMESTAMP('abc')", "-9223372036854775808", ERROR),
)
COLLECTIONS = _all(
    ("ARRAY[10, 20, 30][1]", "10", "20"),
    ("ARRAY[10, 20, CAST(NULL AS INT)][4]", "NULL", ERROR),
    ("ARRAY_SORT(ARRAY[2, CAST(NULL AS INT), 1])", "[NULL, 1, 2]", "[1, 2, NULL]"),
    ("ARRAY_CONTAINS(ARRAY[1, CAST(NULL AS INT)], 3)", "FALSE", "NULL"),
    ("ARRAY_REMOVE(ARRAY[1, CAST(NULL AS INT)], CAST(NULL AS INT))", "[1]", "NULL"),
    ("MAP_FROM_ARRAYS(ARRAY['a', 'a'], ARRAY[1, 2])", "{'a': 2}", ERROR),
)

_INTS = (1, 4)
AGGREGATES = (
    Difference("AVG(x)", "2", "2.5", _INTS),
    Difference("STDDEV(x)", "2", "2.1213203435596424", _INTS),
    Difference("STDDEV_POP(x)", "1", "1.5", _INTS),
    Difference("VAR_POP(x)", "2", "2.25", _INTS),
    Difference("VAR_SAMP(x)", "4", "4.5", _INTS),
    Difference("SUM(x)", "-2147483648", "2147483648", (2147483647, 1)),
    Difference("AVG(x)", "1.666667", "1.6666667", ("1.000", "2.000", "2.000"), "DECIMAL(5, 3)"),
)

EXPRESSIONS = {
    "Numbers": NUMBERS,
    "Texts": TEXTS,
    "Patterns": PATTERNS,
    "Times": TIMES,
    "Arrays and maps": COLLECTIONS,
}


def tables() -> str:
    """The tables as Markdown."""
    parts = [_table(title, "", lines) for title, lines in EXPRESSIONS.items()]
    return "\n".join([*parts, _table("Aggregates", " of", AGGREGATES)])


def _table(title: str, of: str, lines: tuple[Difference, ...]) -> str:
    head = [
        f"### {title}",
        "",
        f"| {'x is | ' if of else ''}expression | Flink | here |",
        f"|{'---|' * (4 if of else 3)}",
    ]
    return "\n".join([*head, *(_line(line) for line in lines), ""])


def _line(line: Difference) -> str:
    values = ", ".join("NULL" if v is None else str(v) for v in line.rows)
    kind = f" {line.type}" if line.rows and line.type != "INT" else ""
    cells = [f"`{line.expression}`", _code(line.flink), _code(line.here)]
    return (
        "| "
        + " | ".join(cell.replace("|", "\\|") for cell in ([f"{values}{kind}"] if line.rows else []) + cells)
        + " |"
    )


def _code(result: str) -> str:
    return result if result == ERROR else f"`{result}`"
