"""Excerpts of scripts: the mistake may stand where the password does."""

from __future__ import annotations

import time

import pytest

import sqlstream
from sqlstream.cli.execution import label
from sqlstream.grammar import parse_script
from sqlstream.secrets import secrets_of_script, shown_script

TABLE = "CREATE TABLE t (k STRING) WITH ('connector' = 'redis', 'key' = '{{k}}', 'url' = 'redis://h', {})"
OPTIONS = (
    "'password' 'hunter2'",
    "'password' : 'hunter2'",
    "'password' == 'hunter2'",
    "'password' => 'hunter2'",
    "'password', 'hunter2'",
    "'password' = hunter2",
    "'password' = hunter2-4711",
    "'password' = 4711.hunter2",
    "'password' = 'hunter2",
    "'password' = hunter2'",
    "'password' = 'hunter2\\'",
    "'password' = 'hun' 'ter2 hunter2'",
    "'password' = 'a' || 'hunter2'",
    "'password' = concat('hunter2')",
    "'password' = ('hunter2')",
    "'password' = r'hunter2' x",
    "'password' = `hunter2`",
    "'password' = $$hunter2$$ x",
    "'password' = “hunter2”",
    "'password' = ‘hunter2’",
    "'password' /* of the shop */ = 'hunter2' x",
    "'password' =\n'hunter2' x",
    "password = 'hunter2'",
    "password = hunter2",
    "password 'hunter2'",
    "`password` = 'hunter2'",
    "'passwrd' = hunter2",
    "'url' 'redis://:hunter2@h'",
    "url = 'redis://:hunter2@h'",
    "'url' = redis://:hunter2@h",
    "'host' = 'me:hunter2@h'",
    "-- 'password' 'hunter2'\n x",
    "'username' = 'me' 'password' = 'hunter2'",
)
STATEMENTS = (
    "SET password = 'hunter2'",
    "SET 'spark.hadoop.fs.s3a.secret.key' 'hunter2'",
    "SET spark.hadoop.fs.s3a.secret.key = hunter2; SELEC 1",
    "SET 'spark.hadoop.fs.s3a.secret.key' = hunter2; SHOW THINGS",
    "SET 'spark.hadoop.fs.s3a.secret.key' = 'hunter2",
    "SET 'spark.hadoop.fs.s3a.secret.key' TO 'hunter2'",
    "SET 'fs.s3a.secret.key' 'hunter2'",
    "SELECT k FROM 's3a://AKIA:hunter2@b/x'",
    "SELECT nope FROM t WHERE token = 'hunter2'",
    "SELECT k FROM t /*+ OPTIONS('password' = 'hunter2') */ x y z",
    "SELECT k FROM t /*+ OPTIONS(password = 'hunter2') */",
    "ALTER TABLE t SET ('password' = 'hunter2')",
    "CREATE CATALOG c WITH ('password' = 'hunter2')",
    "CREATE TABLE t (k STRING) COMMENT 'password=hunter2' WITH ('a')",
)


@pytest.fixture(scope="module")
def session():
    with sqlstream.connect() as own_session:
        yield own_session


@pytest.mark.parametrize("text", [*(TABLE.format(option) for option in OPTIONS), *STATEMENTS])
def test_no_mistake_shows_a_secret(session, text):
    diagnostics = session.check(text)
    assert diagnostics
    assert "hunter2" not in "\n".join(f"{d.render()} {d}" for d in diagnostics)
    assert len(shown_script(text)) == len(text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (token STRING NOT NULL, password STRING COMMENT 'of users', PRIMARY KEY (token) NOT ENFORCED)",
        "SELECT token, price AS secret FROM t AS a JOIN u AS b ON (a.token = b.token AND b.secret <> x.y)",
        "SELECT k FROM t WHERE 'EUR' = currency AND nope = 1",
        "SELECT k FROM t WHERE k IN ('EUR', 'USD') AND d = '2024-01-01' GROUP BY token, TUMBLE(ts, INTERVAL '1' DAY)",
        "CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'path' = 's3a://b/x?y', 'seed' = '1') -- it's",
        TABLE.format("'password' = '${PW}'"),
        TABLE.format("'password' = '${DB_PASSWORD}', 'table-name' = 'totals'"),
        TABLE.format("'password' = ${PW}"),
        "SELECT /*+ STATE_TTL('user' = '1 d', 'password' = '2 h') */ a FROM t",
        "SELECT /*+ STATE_TTL('user' = '1 d'), LOOKUP('table'='t') */ a FROM t",
        "SELECT * FROM a JOIN t FOR SYSTEM_TIME AS OF a.pt ON t.k = a.k /*+ LOOKUP('table'='t', 'async'='true') */",
    ],
)
def test_what_is_harmless_stays(text):
    assert shown_script(text) == text
    assert secrets_of_script(text).hidden(text) == text


def test_a_comment_behind_an_option_stays():
    text = TABLE.format("'password' = 'hunter2' -- don't tell, never\n")
    assert shown_script(text) == text.replace("hunter2", "*******")


def test_a_long_script_is_looked_at_in_time():
    text = "SELECT token, a = 'x', 'y' FROM t WHERE password = 'hunter2'; -- it's\n" * 4_000
    start = time.monotonic()
    assert "hunter2" not in shown_script(text)
    assert time.monotonic() - start < 5, "seconds"


@pytest.mark.parametrize(
    "text", ["SET 'spark.hadoop.fs.s3a.secret.key' = 'hunter2'", TABLE.format("'password' = 'hunter2'")]
)
def test_the_line_that_says_what_takes_so_long_shows_none(text):
    (statement,) = parse_script(text)
    assert "hunter2" not in label(statement) and "*******" in label(statement)
