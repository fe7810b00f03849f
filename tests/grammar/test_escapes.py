"""What a text means: Spark's escapes are its, all others keep their backslash, and printing changes nothing."""

from __future__ import annotations

import string

import pytest
from sqlglot import exp

from sqlstream.grammar import format_script, nodes, parse_query, parse_script, to_sql

KNOWN = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "\\": "\\", "'": "'", '"': '"'}
OTHERS = [c for c in string.printable if c not in KNOWN]
SPELLINGS = {
    r"'\d'": r"\d",
    r"'\\d'": r"\d",
    r"r'\d'": r"\d",
    r"R'\'": "\\",
    r'"\d"': r"\d",
    r"N'\d'": r"\d",
    r"'a' '\d'": r"a\d",
    r"'\\\\d'": r"\\d",
    r"'it\'s'": "it's",
    "'it''s'": "it's",
    "\"it''s\"": "it''s",
    r"'(a)\1'": r"(a)\1",
    r"'\101'": "A",
    r"'\400'": r"\400",
    r"'\0001'": "\x001",
    r"'\u00e9'": "é",
    r"'\u12'": r"\u12",
    r"'\U0001F600'": "😀",
    r"'\uD83D\uDE00'": "😀",
    r"'C:\data\new'": "C:\\data\new",
    r"'50\% of \_'": r"50\% of \_",
    "'a\\\nb'": "a\\\nb",
    "''": "",
    "'\\''": "'",
}


def literal(text: str) -> exp.Literal:
    (parsed,) = parse_query(f"SELECT {text}").expressions
    assert isinstance(parsed, exp.Literal) and parsed.is_string
    return parsed


@pytest.mark.parametrize("quote", ["'", '"'])
def test_an_escape_that_spark_does_not_know_keeps_its_backslash(quote):
    for escape, meaning in KNOWN.items():
        assert literal(f"{quote}x\\{escape}y{quote}").name == f"x{meaning}y"
    for other in OTHERS:
        assert literal(f"{quote}x\\{other}y{quote}").name == f"x\\{other}y"


@pytest.mark.parametrize(("text", "meaning"), SPELLINGS.items())
def test_a_text_means_the_same_after_printing_and_formatting(text, meaning):
    actual = literal(text)
    assert actual.name == meaning
    assert literal(to_sql(actual)) == actual
    script = f"SELECT a RLIKE {text} FROM t"
    assert parse_script(format_script(script)) == parse_script(script)


def test_options_comments_and_settings_are_texts_like_all_others():
    script = (
        r"CREATE TABLE t (a STRING COMMENT '\d') WITH ('path' = 'C:\data\dir', 'regex' = '^\d+\.\w$'); SET 'k' = '\s'"
    )
    table, setting = parse_script(script)
    assert isinstance(table, nodes.CreateTable) and isinstance(setting, nodes.Set)
    assert [o.value for o in table.options] == [r"C:\data\dir", r"^\d+\.\w$"]
    column = table.columns[0]
    assert isinstance(column, nodes.PhysicalColumn) and column.comment == r"\d"
    assert setting.value == r"\s"
    assert parse_script(f"{to_sql(table)}; {to_sql(setting)}") == (table, setting)


@pytest.mark.spark
def test_spark_reads_what_is_printed_for_it_and_knows_the_same_escapes(spark):
    texts = [*SPELLINGS, *(rf"'x\{c}y'" for c in (*KNOWN, *OTHERS))]
    meanings = [literal(text).name for text in texts]
    printed = ", ".join(literal(text).sql(dialect="spark") for text in texts)
    assert list(spark.sql(f"SELECT {printed}").collect()[0]) == meanings
    known = [rf"'x\{c}y'" for c in (*KNOWN, "%", "_")]
    assert list(spark.sql(f"SELECT {', '.join(known)}").collect()[0]) == [literal(text).name for text in known]
