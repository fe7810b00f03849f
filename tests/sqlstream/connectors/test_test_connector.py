"""The connector of tests: what it accepts, and what it says where no test runs."""

from __future__ import annotations

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.testing.spark import LocalSession


@pytest.fixture
def session():
    with LocalSession() as session:
        yield session


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'rol' = 'lookup'", 'SS502: connector "test" has no option "rol"'),
        ("'role' = 'dimension'", 'SS504: value "dimension" of option "role"'),
        ("'test.delay' = '5 ms'", 'SS504: option "test.delay" belongs to lookup tables'),
        (
            "'role' = 'lookup', 'test.delay' = 'random 5-1 ms'",
            'SS504: value "random 5-1 ms" of option "test.delay" is not',
        ),
        ("'role' = 'lookup', 'test.fail' = 'often'", 'SS504: value "often" of option "test.fail" is not a number'),
        ("'role' = 'lookup', 'test.delay-column' = 'b'", 'SS504: option "test.delay-column" names the column "b"'),
        ("'role' = 'lookup', 'test.misses-first' = 'x'", 'SS504: value "x" of option "test.misses-first"'),
    ],
)
def test_a_wrong_option_is_refused(session, options, message):
    with pytest.raises(SqlStreamError) as error:
        session.sql(f"CREATE TABLE t (a INT) WITH ('connector' = 'test', {options})")
    assert str(error.value).startswith(message)


def test_the_options_of_lookup_tables_are_accepted(session):
    options = "'test.misses-first' = '1', 'test.delay' = '501 ms', 'test.delay-column' = 'a', 'test.fail' = 'always'"
    session.sql(f"CREATE TABLE t (a INT) WITH ('connector' = 'test', 'role' = 'lookup', {options})")
    (mistake,) = session.check("SELECT a FROM t")
    assert mistake.code == "SS250"  # only a lookup join reads it


@pytest.mark.parametrize("kind", ["VARIANT", "INTERVAL DAY TO SECOND", "ARRAY<STRUCT<x: VARIANT>>"])
def test_a_column_without_values_in_tests_is_refused(session, kind):
    with pytest.raises(SqlStreamError, match=r'SS505: connector "test" has no values of type .* for column "a"'):
        session.sql(f"CREATE TABLE t (a {kind}) WITH ('connector' = 'test')")


@pytest.mark.spark
@pytest.mark.parametrize("statement", ["SELECT a FROM t", "INSERT INTO t SELECT a FROM g"])
def test_outside_of_a_test_there_is_nothing_to_read_or_write(session, statement):
    session.sql("CREATE TABLE t (a INT) WITH ('connector' = 'test')")
    session.sql("CREATE TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    with pytest.raises(SqlStreamError) as error:
        session.sql(statement)
    assert str(error.value).startswith('SS515: table "t" with the connector "test" is used outside a test')
