"""``--env-file`` and environment variables: how a password reaches a job without standing on a command line."""

from __future__ import annotations

import os

import click
import pytest

from sqlstream.cli import run
from sqlstream.cli.options import read_variables, variables

TABLE = "CREATE TABLE t (k STRING) WITH ('connector' = 'redis', 'key' = '{k}', 'url' = 'redis://h', "
PASSWORD = f"{TABLE}'password' = '${{SHOP_PASSWORD}}')"


@pytest.fixture
def file(tmp_path):
    def written(text: str | bytes) -> str:
        path = tmp_path / "shop.env"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return written


def test_values_are_taken_as_they_stand(file):
    text = '\ufeff# of the shop\n\nA=x=y\r\n  # more\nB= "quoted" $HOME # \nC=\n'
    assert read_variables(file(text)) == {"A": "x=y", "B": ' "quoted" $HOME # ', "C": ""}


@pytest.mark.parametrize("line", ["hunter2", "=hunter2", "my-key=hunter2", " A=hunter2", "export A=hunter2", "A=\0"])
def test_a_wrong_line_is_named_and_not_shown(file, line):
    with pytest.raises(click.UsageError, match=r'line 2 of ".*shop.env" is not NAME=VALUE') as error:
        read_variables(file(f"B=1\n{line}"))
    assert "hunter2" not in str(error.value)


def test_a_name_is_given_once(file):
    with pytest.raises(click.UsageError, match=r'line 2 of ".*" gives "A" a second value'):
        read_variables(file("A=1\nA=2"))


@pytest.mark.parametrize("text", [None, b"A=\xff"])
def test_a_file_that_cannot_be_read_is_a_usage_error(file, text, capsys):
    name = "none.env" if text is None else file(text)
    assert run(["check", "-e", "SHOW TABLES", "--env-file", name]) == 2
    assert f'cannot read "{name}": ' in capsys.readouterr().err


def test_variables_are_those_of_the_process_while_the_block_runs(monkeypatch):
    monkeypatch.setenv("SHOP_A", "before")
    monkeypatch.delenv("SHOP_B", raising=False)
    with variables({"SHOP_A": "1", "SHOP_B": "2"}):
        assert (os.environ["SHOP_A"], os.environ["SHOP_B"]) == ("1", "2")
    assert os.environ["SHOP_A"] == "before" and "SHOP_B" not in os.environ


@pytest.mark.parametrize("command", ["check", "run", "explain"])
def test_a_missing_password_is_asked_for_where_no_command_line_shows_it(command, monkeypatch, capsys):
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    assert run([command, "-e", PASSWORD]) == 1
    hint = capsys.readouterr().err.partition("HINT: ")[2]
    assert hint.startswith("Set the environment variable SHOP_PASSWORD, or write it into a file for --env-file.")


def test_the_hint_for_other_values_is_a_parameter(capsys):
    assert run(["check", "-e", "CREATE TABLE t (k INT) WITH ('connector' = 'datagen', 'seed' = '${N}')"]) == 1
    assert "HINT: Give it one: --param N=VALUE." in capsys.readouterr().err


def test_the_variables_of_a_file_are_known_to_scripts(file, monkeypatch, capsys):
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    given = ["--env-file", file("SHOP_PASSWORD=hunter2\nSHOP_SECRET=hunter3")]
    script = f"{PASSWORD}; SET 'spark.hadoop.fs.s3a.secret.key' = '${{SHOP_SECRET}}'"
    assert run(["check", "-e", script, *given]) == 0
    assert run(["run", "-e", f"{script}; SHOW CREATE TABLE t; SET", *given]) == 0
    shown = capsys.readouterr()
    assert "${SHOP_PASSWORD}" in shown.out and "${SHOP_SECRET}" in shown.out
    assert "hunter" not in shown.out + shown.err
    assert "SHOP_PASSWORD" not in os.environ


@pytest.mark.parametrize(
    ("create", "taking"),
    [
        (
            "CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = '${SHOP}')",
            " Options that take one: s3.endpoint, s3.region, s3.access-key-id, s3.secret-access-key, ",
        ),
        ("CREATE TABLE t (k STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '${SHOP}')", "\n"),
        (f"{TABLE}'timeout' = '${{SHOP}}')", " Options that take one: host, password, url, username.\n"),
    ],
)
def test_a_reference_that_nobody_would_look_up_is_refused(create, taking, monkeypatch, capsys):
    monkeypatch.setenv("SHOP", "/data")
    assert run(["check", "-e", create]) == 1
    shown = capsys.readouterr().err
    assert "SS587: option " in shown and "takes no environment variable" in shown
    assert f"HINT: Write the value, or on the command line --param SHOP=VALUE.{taking}" in shown
    assert run(["check", "-e", create, "--param", "SHOP=1"]) == 0


@pytest.mark.parametrize(
    "option", [["--master", "sc://host/;token=${NOT_SET}"], ["--set", "spark.hadoop.a.password=${NOT_SET}"]]
)
def test_options_of_sessions_take_variables_too(option, monkeypatch, capsys):
    monkeypatch.delenv("NOT_SET", raising=False)
    assert run(["run", "-e", "SHOW TABLES", *option]) == 2
    assert 'SS560: environment variable "NOT_SET"' in capsys.readouterr().err
    monkeypatch.setenv("NOT_SET", "hunter2")
    assert run(["run", "-e", "SHOW TABLES", *option]) in (0, 2)  # another Spark may run in this process
    shown = capsys.readouterr().err
    assert shown == "" or ("SS413" in shown and "hunter2" not in shown)
