"""Secrets in the options of tables: looked up in the environment, and shown nowhere."""

from __future__ import annotations

import pytest

import sqlstream
from sqlstream.connectors.secrets import masked, resolved
from sqlstream.errors import ConnectorError
from sqlstream.results import Rows


def test_a_reference_is_an_environment_variable():
    actual = resolved({"password": "${PW}", "url": "http://${HOST}:80/", "size": 3}, {"PW": "s", "HOST": "h"})
    assert actual == {"password": "s", "url": "http://h:80/", "size": 3}


def test_a_variable_that_is_not_set_is_named():
    with pytest.raises(ConnectorError, match='SS560: environment variable "PW" of option "password" is not set'):
        resolved({"password": "${PW}"}, {})


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("password", "hunter2", "******"),
        ("password", "${PW}", "${PW}"),
        ("password", "hunter2${PW} x", "******"),
        ("http.header.Authorization", "Bearer abc", "******"),
        ("http.header.Authorization", "Bearer ${TOKEN}", "Bearer ${TOKEN}"),
        ("auth.token", "abc", "******"),
        ("url", "postgresql://me:hunter2@h/db", "postgresql://me:******@h/db"),
        ("url", "postgresql://me:${PW}@h/db", "postgresql://me:${PW}@h/db"),
        (
            "url",
            "jdbc:postgresql://h/db?user=me&password=hunter2&x=1",
            "jdbc:postgresql://h/db?user=me&password=******&x=******",
        ),
        ("url", "redis://:hunter2@h", "redis://:******@h"),
        ("path", "a@b:c", "a@b:c"),
    ],
)
def test_literal_secrets_are_masked(key, value, shown):
    assert masked([(key, value)]) == ((key, shown),)


def test_no_statement_shows_a_secret():
    create = """
        CREATE TABLE out (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',
        'properties.bootstrap.servers' = 'h:1', 'properties.sasl.password' = 'hunter2')"""
    with sqlstream.connect() as session:
        session.sql(create)
        session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')")
        result = session.sql("SHOW CREATE TABLE out")
        assert isinstance(result, Rows)
        shown = str(result.fetchall())
        plan = session.explain("INSERT INTO out SELECT a FROM t", format="JSON")
    assert "******" in shown and "******" in plan
    assert "hunter2" not in shown + plan
