# ruff: noqa: E501
"""The layout of scripts; comments are never lost."""

from __future__ import annotations

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
/* bids as they come */
CREATE TABLE bids (
  auction BIGINT, /* which one */
  price DECIMAL(10, 2),
  ts TIMESTAMP(3), /* event time */
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '5'
);

/* five */
/* the question */
SELECT
  auction, /* the key */
  MAX(price) AS top
FROM tumble(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)
WHERE
  price > 1 /* real ones */
GROUP BY
  auction,
  window_start,
  window_end
TRIGGER EVERY 5 ROWS
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
    written = sorted(c for c in text.replace("-- ", "/* ").replace("*/", " ").split("/* ")[1:] for c in c.split()[:1])
    kept = sorted(c.split(" */")[0] for c in formatted.split("/* ")[1:])
    assert kept == written
    assert format_script(formatted) == formatted


def test_a_wrong_script_is_not_formatted() -> None:
    with pytest.raises(ParseError):
        format_script("SELECT a FORM t")


def test_an_empty_script_stays_empty() -> None:
    assert format_script("").strip() == ""
