"""Expressions of every form that the parser knows, over columns of every type, by seed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from sqlglot.tokens import TokenType

from sqlstream.functions.builtin import BuiltinKind, Origin
from sqlstream.functions.catalogue import FUNCTIONS
from sqlstream.grammar.dialect import SqlStream
from sqlstream.grammar.parser import SqlStreamParser as Parser

COLUMNS = {
    "b": "BOOLEAN", "ti": "TINYINT", "si": "SMALLINT", "i": "INT", "l": "BIGINT", "f": "FLOAT", "d": "DOUBLE",
    "m": "DECIMAL(10, 2)", "s": "STRING", "bin": "BINARY", "dt": "DATE", "ts": "TIMESTAMP", "tn": "TIMESTAMP_NTZ",
    "a": "ARRAY<INT>", "sa": "ARRAY<STRING>", "mp": "MAP<STRING, BIGINT>", "st": "STRUCT<x: INT, y: STRING>",
}  # fmt: skip

NESTED = {
    "st3": "STRUCT<x: INT, y: STRING, z: DATE>", "sd": "STRUCT<p: DECIMAL(10, 2), q: STRING>",
    "sn": "STRUCT<x: BIGINT, y: STRUCT<u: INT, v: STRING>>", "sta": "ARRAY<STRUCT<x: INT, y: STRING>>",
    "sda": "ARRAY<STRUCT<p: DOUBLE, q: STRING>>", "mps": "MAP<STRING, STRUCT<x: INT, y: STRING>>",
}  # fmt: skip
"""Further columns, of ``random_meetings`` alone."""

_LITERALS = (
    "1", "1.5", "'x'", "NULL", "TRUE", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 00:00:00'", "INTERVAL '1' DAY",
    "INTERVAL '1' MONTH", "1e3", "3000000000", "ARRAY[1]", "X'1F'", "0.1BD", "5L", "(ts - ts)",
)  # fmt: skip
_ALIKE = (("i", "l"), ("s", "'x'"), ("ts", "ts"), ("dt", "ts"), ("a", "a"), ("b", "b"), ("m", "m"), ("i", "1"))
_OPERATOR_TABLES = (
    "CONJUNCTION", "DISJUNCTION", "EQUALITY", "COMPARISON", "BITWISE", "TERM", "FACTOR", "EXPONENT", "RANGE_PARSERS",
    "COLUMN_OPERATORS", "ASSIGNMENT",
)  # fmt: skip
_MORE_OPERATORS = (
    "<<",
    ">>",
    ">>>",
    "NOT LIKE",
    "NOT RLIKE",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "REGEXP",
    "||",
)
_BEHIND = (
    "IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN", "ISNULL", "IS JSON", "IS TRUE IS NULL",
    "ISNULL ISNULL",
    "BETWEEN 1 AND 2", "BETWEEN SYMMETRIC 1 AND 2", "LIKE ANY ('a', 'b')", "NOT LIKE ALL ('a')", "LIKE 'a' ESCAPE '/'",
    "SIMILAR TO 'a%'", "SIMILAR TO '(a|b)_' ESCAPE '/'", "COLLATE UTF8_LCASE", "COLLATE 'x'", "AT TIME ZONE 'UTC'",
    "[0]", "[1:2]", "['k']", ".x", "::INT", "::STRING", "IN (1, 2)", "IN ('a')", "IN i", "= ANY (ARRAY[1])",
    "> ALL (1, 2)",
    "OVERLAPS b", "FORMAT JSON", "NOT NULL",
)  # fmt: skip
_UNITS = (
    "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND",
    "EPOCH", "DOW", "ISODOW", "DOY", "DAYOFYEAR", "ISOYEAR", "DECADE", "CENTURY", "MILLENNIUM", "TIMEZONE",
)  # fmt: skip
_OF_UNITS = (
    "EXTRACT({unit} FROM {time})", "DATE_PART('{unit}', {time})", "FLOOR({time} TO {unit})", "INTERVAL '1' {unit}",
    "INTERVAL i {unit}", "INTERVAL (i + 1) {unit}", "ts + INTERVAL '1' {unit}", "ts + INTERVAL '1.5' {unit}",
    "TIMESTAMPADD({unit}, 1, {time})", "TIMESTAMPDIFF({unit}, {time}, {time})",
)  # fmt: skip
_FORMS = (
    "LOCALTIMESTAMP", "LOCALTIMESTAMP()", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER",
    "TRIM(BOTH 'x' FROM s)", "TRIM(LEADING FROM s)", "POSITION('a' IN s)", "OVERLAY(s PLACING 'x' FROM 1 FOR 2)",
    "SUBSTRING(s FROM 1 FOR 2)", "CASE WHEN b THEN 1 END", "CASE i WHEN 1 THEN 'a' ELSE 'b' END", "IF(b, 1, 2)",
    "STRUCT(1 AS x)", "ROW(1, 'a')", "(1, 'a')", "MAP['a', 1]", "ARRAY[]", "TRANSFORM(a, x -> x + 1)",
    "AGGREGATE(a, 0, (x, y) -> x + y)", "EXISTS(a, x -> x > 1)", "MAX(i) FILTER (WHERE b)", "COUNT(DISTINCT i, l)",
    "LISTAGG(DISTINCT s, ',')", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY i)", "ANY_VALUE(i) IGNORE NULLS",
    "CAST(s AS INT FORMAT 'x')", "CAST(s AS INT DEFAULT 1 ON CONVERSION ERROR)", "CONVERT(s USING utf8)", "CHAR(65)",
    "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1 02:03' DAY TO MINUTE", "INTERVAL 1 DAY 2 HOURS", "INTERVAL -1 DAY",
    "dt + 1", "dt - dt", "-s", "~i", "+i", "!b", "i % 2", "i DIV 2", "i ^ 1", "1L", "1D", "1BD", "1e400", "0x1F",
    "N'a'", "r'a'", "st.x", "mp['a']", "s:a", "TIME '10:00:00'", "GROUPING(i)", "COUNT()", "JSON_OBJECT('a' VALUE 1)",
    "s -> 'a'",
)  # fmt: skip


def random_expressions(seed: int, functions: int) -> list[str]:
    """Operators, types, units and forms with operands of random types, and so many calls of random functions."""
    random = Random(seed)
    collected = [*_operators(random), *_types(random), *_units(random), *_FORMS, *_calls(random, functions)]
    return list(dict.fromkeys(collected))


# --- values that get one type ---------------------------------------------------------------------------------

_MEETINGS = (
    "{0} = {1}", "{0} <> {1}", "{0} < {1}", "{0} >= {1}", "{0} IS DISTINCT FROM {1}", "{0} IS NOT DISTINCT FROM {1}",
    "{0} IN ({1}, {2})", "{0} NOT IN ({1}, NULL)", "{0} BETWEEN {1} AND {2}", "CASE WHEN b THEN {0} ELSE {1} END",
    "CASE WHEN b THEN {0} WHEN NOT b THEN NULL ELSE {1} END", "CASE {0} WHEN {1} THEN 1 WHEN {2} THEN 2 END",
    "COALESCE({0}, {1})", "IF(b, {0}, {1})", "ARRAY[{0}, {1}]", "NULLIF({0}, {1})", "NVL({0}, {1})",
    "NVL2(b, {0}, {1})", "GREATEST({0}, {1})", "LEAST({0}, {1}, {2})", "MAP['k', {0}, 'l', {1}]", "MAX({0}) = {1}",
    "ARRAY[{0}] = ARRAY[{1}]", "ROW(1, {0}) = ROW(2, {1})", "COALESCE(ARRAY[{0}], ARRAY[{1}])", "IFNULL({0}, {1})",
    "IF(b, {0}, {1}) = {2}", "{0} = ANY (({1}, {2}))", "(1, {0}) IN ((1, {1}))", "MAX({0}) IN ({1}, {2})",
)  # fmt: skip
_PARTS = ("i", "l", "m", "d", "s", "dt", "ts", "a", "st", "1", "1.5", "'x'", "NULL")


def random_meetings(seed: int, number: int) -> list[str]:
    """So many expressions with values that must have one type: rows of all shapes, and some others."""
    random = Random(seed)
    return list(dict.fromkeys(_meeting(random) for _ in range(number)))


def _meeting(random: Random) -> str:
    values = [_nested(random) if random.random() < 0.8 else random.choice((*COLUMNS, *_LITERALS))]
    while len(values) < 3:
        values.append(values[0] if random.random() < 0.1 else _nested(random))
    if random.random() < 0.3:
        values = [random.choice((*COLUMNS, *_LITERALS)) for _ in values]
    return random.choice(_MEETINGS).format(*values)


def _nested(random: Random) -> str:
    width = random.choice((2, 2, 2, 3))
    parts = random.choices(_PARTS, k=width) if random.random() < 0.3 else random.choices(("i", "l", "1", "s"), k=width)
    row = f"({', '.join(parts)})"
    forms = (row, row, f"ROW{row}", f"ARRAY[{row}]", "ROW(i)", f"ROW(l, {row})", *NESTED, "st", "st", "NULL")
    return random.choice(forms)


def _words(kinds: set[TokenType]) -> list[str]:
    """The words of the tokenizer that stand for such tokens."""
    tokenizer = SqlStream.Tokenizer
    words = {**tokenizer.KEYWORDS, **tokenizer.SINGLE_TOKENS}
    return sorted(word for word, kind in words.items() if kind in kinds and word.strip())


def _operators(random: Random) -> Iterator[str]:
    tokens = {token for table in _OPERATOR_TABLES for token in getattr(Parser, table)}
    operands = (*COLUMNS, *_LITERALS)
    for operator in (*_words(tokens), *_MORE_OPERATORS):
        pairs = [random.choice(_ALIKE), (random.choice(list(COLUMNS)), random.choice(operands))]
        yield from (f"{left} {operator} {right}" for left, right in pairs)
    for operator in _words(set(Parser.UNARY_PARSERS)):
        yield f"{operator} {random.choice(operands)}"
    for behind in _BEHIND:
        yield from (f"{column} {behind}" for column in random.sample(list(COLUMNS), 2))


def _types(random: Random) -> Iterator[str]:
    for name in _words(Parser.TYPE_TOKENS):
        yield f"CAST({random.choice(list(COLUMNS))} AS {name})"
        yield f"{name} '2020-01-01'"


def _units(random: Random) -> Iterator[str]:
    for unit in _UNITS:
        for form in random.sample(_OF_UNITS, 4):
            yield form.format(unit=unit, time=random.choice(("ts", "tn", "dt", "(ts - ts)")))


def _calls(random: Random, number: int) -> Iterator[str]:
    kinds = (BuiltinKind.SCALAR, BuiltinKind.AGGREGATE)
    of_spark = (f for f in FUNCTIONS.values() if f.origin is Origin.SPARK and f.kind in kinds)
    names = sorted(f.name for f in of_spark if f.arity is not None)
    for name in random.choices(names, k=number):
        count = random.choice([n for n in range(5) if FUNCTIONS[name].takes(n)] or [random.randrange(4)])
        count = count if random.random() < 0.9 else random.randrange(5)
        yield f"{name}({', '.join(random.choices((*COLUMNS, *_LITERALS), k=count))})"
