"""Files, ``-e`` and ``${name}``."""

from __future__ import annotations

import click
import pytest

from sqlstream.cli.options import pairs
from sqlstream.cli.scripts import Script, read_scripts, substitute, with_parameters
from sqlstream.errors import ParseError


def test_parameter_is_put_in_everywhere():
    scripts = [Script("a", "${n} '${n}/x'"), Script("b", "-- ${n}")]
    assert [s.text for s in substitute(scripts, {"n": "7"})] == ["7 '7/x'", "-- 7"]


def test_a_text_between_dollars_may_begin_with_a_brace():
    body = "CREATE FUNCTION f() RETURNS INT LANGUAGE PYTHON AS $${x}$$"
    assert with_parameters(body, {"x": "1"}) == body


def test_value_is_not_expanded_again():
    assert substitute([Script("a", "${n} ${m}")], {"n": "${m}", "m": r"\1"})[0].text == r"${m} \1"


def test_parameter_without_value_is_shown_with_carets():
    with pytest.raises(ParseError) as error:
        substitute([Script("a", "SELECT 1\nFROM ${t} WHERE ${c}")], {"c": "true"})
    assert str(error.value) == (
        'SS190: parameter "t" has no value\n'
        "LINE 2: FROM ${t} WHERE ${c}\n"
        "             ^^^^\n"
        "HINT: Give it one: --param t=VALUE."
    )


def test_every_missing_parameter_is_reported():
    with pytest.raises(ParseError) as error:
        substitute([Script("a", "${x} ${y}")], {})
    assert len(error.value.diagnostics) == 2


def test_unused_parameter_is_a_usage_error():
    with pytest.raises(click.UsageError, match='no script uses the parameter "m"'):
        substitute([Script("a", "${n}")], {"n": "1", "m": "2"})


@pytest.mark.parametrize("given", [("n",), ("=1",), ("n=1", "n=2")])
def test_wrong_pairs_are_usage_errors(given):
    with pytest.raises(click.UsageError):
        pairs(given, "--param")


def test_value_may_hold_an_equals_sign():
    assert pairs(["n=a=b", "m="], "--param") == {"n": "a=b", "m": ""}


def test_files_come_before_statements(tmp_path):
    file = tmp_path / "a.sql"
    file.write_text("SELECT 1")
    assert read_scripts([str(file)], ["SELECT 2"]) == [Script(str(file), "SELECT 1"), Script("-e", "SELECT 2")]


def test_byte_order_mark_is_not_part_of_the_script(tmp_path):
    file = tmp_path / "a.sql"
    file.write_text("SELECT 1", encoding="utf-8-sig")
    assert read_scripts([str(file)], [])[0].text == "SELECT 1"


def test_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(click.UsageError, match="No such file"):
        read_scripts([str(tmp_path / "none.sql")], [])


def test_nothing_to_run_is_a_usage_error():
    with pytest.raises(click.UsageError, match="no SQL given"):
        read_scripts([], [])


def test_a_variable_of_the_environment_stays_in_options(monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")
    create = "CREATE TABLE t (a INT) WITH ('connector' = 'redis', 'password' = '${SHOP_PASSWORD}')"
    (only,) = substitute([Script("-e", create)], {})
    assert only.text == create
    assert substitute([Script("-e", create)], {"SHOP_PASSWORD": "x"})[0].text == create.replace("${SHOP_PASSWORD}", "x")
    with pytest.raises(ParseError, match="SS190"):
        substitute([Script("-e", "SELECT ${SHOP_PASSWORD} FROM t")], {})
