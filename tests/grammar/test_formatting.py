# ruff: noqa: E501
"""The layout of scripts; comments are never lost."""

from __future__ import annotations

import re

import pytest

from sqlstream.errors import ParseError
from sqlstream.grammar import format_script, parse_script

_MESSY = """\
-- bids as they come
create table bids (auction bigint, -- which one
  price decimal(10,2), ts timestamp(3), /* event time */ watermark for ts as ts - interval '5' second)
with ('connector'='datagen','rows-per-second'='5');
/* the question */ select auction, -- the key
 max(price) as top from tumble(table bids, descriptor(ts), interval '10' second) where price > 1 /* real ones */ group by auction,
 window_start, window_end trigger every 5 /* five */ rows emit changes;
set 'a'='b'
"""

_TIDY = """\
-- bids as they come
CREATE TABLE bids (
  auction BIGINT, -- which one
  price DECIMAL(10, 2),
  ts TIMESTAMP(3), /* event time */
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '5'
);

/* the question */
SELECT
  auction, -- the key
  MAX(price) AS top
FROM tumble(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)
WHERE
  price > 1 /* real ones */
GROUP BY
  auction,
  window_start,
  window_end
TRIGGER EVERY 5 /* five */ ROWS
EMIT CHANGES;

SET 'a' = 'b';
"""


def test_a_messy_script_becomes_tidy() -> None:
    assert format_script(_MESSY) == _TIDY


def test_formatting_changes_neither_the_meaning_nor_a_tidy_script() -> None:
    assert parse_script(_TIDY) == parse_script(_MESSY)
    assert format_script(_TIDY) == _TIDY


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /* 1 */ a /* 2 */ , /* 3 */ b /* 4 */ FROM /* 5 */ t /* 6 */ AS /* 7 */ x /* 8 */ WHERE /* 9 */ a",
        "SELECT a AS b /* 1 */, c d /* 2 */ FROM t /* 3 */",
        "CREATE /* 1 */ VIEW /* 2 */ v /* 3 */ AS /* 4 */ SELECT /* 5 */ 1 /* 6 */",
        "SELECT a FROM t GROUP BY a /* 1 */ TRIGGER /* 2 */ AFTER /* 3 */ WATERMARK /* 4 */ EMIT /* 5 */ CHANGES /* 6 */",
        "EXECUTE STATEMENT SET BEGIN -- 1\n INSERT INTO a /* 2 */ SELECT 1; -- 3\n INSERT INTO b SELECT 2; END -- 4",
        "SET 'a' /* 1 */ = /* 2 */ 'b' /* 3 */; /* 4 */ RESET /* 5 */ 'a'",
        "CREATE TABLE t (a INT /* 1 */, /* 1 */ b INT -- 2\n) /* 3 */ WITH /* 4 */ ('k' = /* 5 */ 'v' /* 6 */)",
    ],
)
def test_every_comment_is_kept_once(text: str) -> None:
    formatted = format_script(text)
    comments = re.compile(r"/\*.*?\*/|--.*")
    assert comments.findall(formatted) == comments.findall(text)
    assert format_script(formatted) == formatted


_WITH_COMMENTS = """\
-- The head of the file.

-- About the query.
SELECT
  a, -- the key
  -- the price,
  -- in cents
  price -- {# money #}
FROM t /* of
   trades */ AS x -- all of them
WHERE
  /* not
     those */
  a > 1 /*+ no hint */
/* the end */
GROUP BY
  a;

SELECT /*+ LOOKUP('table' = 'c') */ -- one
  1;

-- The tail.
"""


def test_comments_stay_where_they_are() -> None:
    assert format_script(_WITH_COMMENTS) == _WITH_COMMENTS.replace("/*+ no hint */", "/* + no hint */")


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("SELECT a -- one\n, b -- two\nFROM t", "SELECT\n  a, -- one\n  b -- two\nFROM t;\n"),
        ("SELECT a\n-- key\n, b FROM t", "SELECT\n  a,\n  -- key\n  b\nFROM t;\n"),
        ("SELECT f(a, -- one\nb) -- two", "SELECT\n  -- one\n  F(a, b); -- two\n".replace("F(", "f(")),
        ("SELECT a\n-- last\n;", "SELECT\n  a; -- last\n"),
        ("SELECT 1; -- one\n-- two\n;; -- three\nSELECT 2", "SELECT\n  1; -- one\n\n-- two\n-- three\nSELECT\n  2;\n"),
        ("-- only this", "\n".join(["-- only this", ""])),
        ("SELECT a /* x /* y */ z */ FROM t", "SELECT\n  a /* x /* y */ z */\nFROM t;\n"),
        ("SELECT 'a\n--b' -- c", "SELECT\n  'a\\n--b'; -- c\n"),
    ],
)
def test_comments_move_with_their_words(text: str, formatted: str) -> None:
    assert format_script(text) == formatted
    assert format_script(formatted) == formatted


def test_parameters_of_the_command_line_stay() -> None:
    text = (
        "select ${column}, count(*) from ${db}.${table} where a > ${least} and b = '${dir}/x' -- ${why}\n"
        "group by ${column} count window (${n} rows) trigger every ${n} rows;"
        "create table t (a int) with (${key} = ${value}, 'path' = '${dir}/y')"
    )
    assert (
        format_script(text)
        == """\
SELECT
  ${column},
  COUNT(*)
FROM ${db}.${table}
WHERE
  a > ${least} AND b = '${dir}/x' -- ${why}
GROUP BY
  ${column} COUNT WINDOW (${n} ROWS)
TRIGGER EVERY ${n} ROWS;

CREATE TABLE t (
  a INT
) WITH (
  ${key} = ${value},
  'path' = '${dir}/y'
);
"""
    )


def test_a_mistake_beside_a_parameter_is_told_as_it_is_written() -> None:
    with pytest.raises(ParseError) as raised:
        format_script("SELECT ${a} ${b} ${c} FROM t")
    assert str(raised.value).splitlines()[:2] == ['SS101: unexpected "${c}"', "LINE 1: SELECT ${a} ${b} ${c} FROM t"]


def test_a_wrong_script_is_not_formatted() -> None:
    with pytest.raises(ParseError):
        format_script("SELECT a FORM t")


def test_an_empty_script_stays_empty() -> None:
    assert format_script("").strip() == ""


_SEPARATORS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\ufeff", "\u00a0"]
"""What Python takes for the end of a line, or for white space, and SQL does not."""

_PLACES_OF_TEXTS = [
    "SELECT '{}' AS x FROM t",
    "SELECT `{}` FROM t WHERE a LIKE '{}'",
    "CREATE TABLE t (a INT COMMENT '{}') COMMENT '{}' WITH ('path' = '{}')",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT '{}' FROM t; INSERT INTO b SELECT `{}` FROM t; END",
    "CREATE VIEW v AS SELECT '{}' AS x FROM t -- {}",
    "SET 'a' = '{}'",
]


@pytest.mark.parametrize("separator", _SEPARATORS, ids=lambda s: f"U+{ord(s):04X}")
@pytest.mark.parametrize("text", _PLACES_OF_TEXTS)
def test_texts_keep_separators_of_lines(text: str, separator: str) -> None:
    script = text.replace("{}", f"x{separator}y")
    formatted = format_script(script)
    assert parse_script(formatted) == parse_script(script)
    assert format_script(formatted) == formatted


@pytest.mark.parametrize(
    "comment", ["-- c */ x", "-- /* c", "-- */", "/* -- */", "/* ' */", "-- 'c", "/* a /* b */ c */", "-- x\u2028y */"]
)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, {} b {} FROM t {} WHERE {} a = 1 {}",
        "SELECT a {} FROM {} t; {} SELECT b FROM t {}",
        "EXECUTE STATEMENT SET BEGIN {} INSERT INTO a {} SELECT b FROM t; {} END",
        "CREATE TABLE t ( {} a INT, {} b INT {} ) WITH ( {} 'a' = 'b' {} )",
    ],
)
def test_comments_that_look_like_ends_of_comments_stay_comments(text: str, comment: str) -> None:
    script = text.replace("{}", f"{comment}\n")
    formatted = format_script(script)
    assert parse_script(formatted) == parse_script(script)
    assert formatted.count(comment) == text.count("{}")
    assert format_script(formatted) == formatted


@pytest.mark.parametrize(
    "wrong",
    [
        lambda printed, *_: printed,  # without its comments
        lambda printed, *_: printed.replace("1", "2 /* kept */"),
        lambda printed, *_: f"{printed} /* kept",
    ],
)
def test_a_layout_that_loses_something_is_refused(wrong, monkeypatch) -> None:
    monkeypatch.setattr("sqlstream.grammar.formatting.woven", wrong)
    with pytest.raises(ParseError) as raised:
        format_script("SELECT 1 /* kept */")
    assert raised.value.code == "SS108"


def test_a_comment_in_a_long_statement_stays_beside_its_word() -> None:
    """Words are aligned a part at a time, also where the layout writes all of them otherwise."""
    casts = ", ".join(f"a{i}::int /* {i} */" for i in range(300))
    formatted = format_script(f"SELECT {casts} FROM t")
    assert re.findall(r"CAST\(a(\d+) AS INT /\* (\d+) \*/\)", formatted) == [(str(i), str(i)) for i in range(300)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("values(1),(2)a", "VALUES\n  (1),\n  (2) AS a;\n"),
        ("SELECT d FROM x LATERAL VIEW E() `t` AS o", "SELECT\n  d\nFROM x\nLATERAL VIEW\nE() `t` AS o;\n"),
        ("SELECT a FROM W(TABLE b PARTITION BY:R)", "SELECT\n  a\nFROM W(TABLE b PARTITION BY (:R));\n"),
        ("SELECT */*+/*/ FROM t", "SELECT\n  * /* +/ */\nFROM t;\n"),
        ("SELECT a, /*+ b /* c */ d FROM t", "SELECT\n  a, /* + b / * c */\n  d\nFROM t;\n"),
        ("SELECT . 5", "SELECT\n  0.5;\n"),
        ("SELECT EXTRACT('day' FROM s)", "SELECT\n  EXTRACT(DAY FROM s);\n"),
    ],
)
def test_rare_texts_keep_their_trees(text: str, expected: str) -> None:
    assert format_script(text) == expected
    assert format_script(expected) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT [m AS E]", 'unexpected "AS"'),
        ("SELECT m[1 AS E]", 'unexpected "AS"'),
        ("SELECT EXTRACT(? FROM s)", "EXTRACT needs the name of a unit"),
        ("SELECT EXTRACT(:a FROM s)", "EXTRACT needs the name of a unit"),
        ("SELECT EXTRACT(f(x) FROM s)", "EXTRACT needs the name of a unit"),
        ("SELECT a FROM t JOIN u USING (s.TRUE)", 'unexpected "."'),
        ("SELECT a FROM t JOIN u USING (u.a)", 'unexpected "."'),
        ("SELECT EXTRACT('select' FROM s)", "EXTRACT needs the name of a unit"),
        ("SELECT EXTRACT(`` FROM s)", "EXTRACT needs the name of a unit"),
        ("SELECT x FROM s, LATERAL TABLE e AS o", "the query of LATERAL stands in parentheses"),
        ("SELECT x FROM s, LATERAL SELECT 1 AS o", "the query of LATERAL stands in parentheses"),
        ("SELECT x FROM (DESCRIBE DATABASE d)", '"DESCRIBE" is a statement of its own, and no query'),
        ("SELECT .1.", "this is not a number of the dialect"),
        (f"SELECT .{'1' * 39}", "has more than the 38 digits of a DECIMAL"),
    ],
)
def test_what_would_not_print_is_a_mistake(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=re.escape(said)):
        parse_script(text)


def test_a_text_between_dollars_may_begin_with_a_brace():
    text = "CREATE FUNCTION f () RETURNS INT LANGUAGE PYTHON AS $${x}$$;\n"
    assert format_script(text) == text
