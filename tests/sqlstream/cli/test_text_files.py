"""Files that a command line names: read, written in place, or not."""

from __future__ import annotations

import os
import stat

import click
import pytest

from sqlstream.cli import run
from sqlstream.cli.options import read_text, rewrite


@pytest.fixture
def file(tmp_path):
    def written(text: bytes):
        path = tmp_path / "a.sql"
        path.write_bytes(text)
        return path

    return written


@pytest.mark.parametrize("text", [b"a\nb\n", b"\xef\xbb\xbfa\r\nb\r\n", b"a\rb\r"])
def test_line_ends_and_byte_order_marks_are_no_part_of_a_text(file, text):
    assert read_text(str(file(text))) == "a\nb\n"


@pytest.mark.parametrize(
    ("text", "line"), [(b"\xff\xfeS\0", 1), (b"SELECT 1;\n-- \xe9\n", 2), (b"\xef\xbb\xbf\n\n\xff", 3)]
)
def test_a_text_of_another_encoding_is_named_with_its_line(file, text, line):
    path = file(text)
    with pytest.raises(click.UsageError) as error:
        read_text(str(path))
    assert error.value.message == f'cannot read "{path}": line {line} is not UTF-8 text'


@pytest.mark.parametrize("name", ["", "none.sql", "x" * 300, "a\0b", os.devnull + "/x"])
@pytest.mark.parametrize("command", ["run", "check", "explain", "format"])
def test_paths_that_are_none_are_usage_errors(name, command, capsys):
    assert run([command, name]) == 2
    assert f'cannot read "{name}": ' in capsys.readouterr().err.replace("\\x00", "\0")


def test_a_file_keeps_its_mode_and_its_link(file, tmp_path):
    path = file(b"before")
    path.chmod(0o640)
    (tmp_path / "link.sql").symlink_to(path)
    rewrite(str(tmp_path / "link.sql"), "behind")
    assert path.read_text() == "behind" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (tmp_path / "link.sql").is_symlink()
    assert {p.name for p in tmp_path.iterdir()} == {"a.sql", "link.sql"}


def test_a_file_that_cannot_be_written_stays_as_it_is(file, monkeypatch, capsys):
    path = file(b"select  1")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    assert run(["format", "--write", str(path)]) == 2
    assert f'cannot write "{path}": No space left on device' in capsys.readouterr().err
    assert path.read_bytes() == b"select  1"


@pytest.mark.parametrize("name", [os.devnull, "/proc/self/environ"])
def test_only_files_are_written(name):
    with pytest.raises(click.UsageError, match="cannot write"):
        rewrite(name, "x")


@pytest.mark.parametrize("command", [["format"], ["explain"], ["check"], ["run"]])
def test_of_several_scripts_the_wrong_one_is_named(command, file, tmp_path, capsys):
    (tmp_path / "b.sql").write_text("SELECT FROM")
    first = file(b"CREATE TABLE t (a INT) WITH ('connector' = 'datagen');")
    assert run([*command, str(first), str(tmp_path / "b.sql")]) == 1
    assert capsys.readouterr().err.startswith(f'{tmp_path}/b.sql: SS101: unexpected "FROM"\nLINE 1: SELECT FROM\n')


def test_of_several_scripts_the_one_with_a_parameter_is_named(file, tmp_path, capsys):
    (tmp_path / "b.sql").write_text("SELECT ${x}")
    assert run(["check", str(file(b"SHOW TABLES")), str(tmp_path / "b.sql")]) == 1
    assert capsys.readouterr().err.startswith(f'{tmp_path}/b.sql: SS190: parameter "x" has no value\nLINE 1: ')


# --- directories ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", '"" is no directory'),
        ("none", 'directory "none" does not exist'),
        (os.devnull, f'"{os.devnull}" is no directory'),
        ("x" * 300, "is no directory: File name too long"),
        ("http://[x", '"http://[x" is no directory: Invalid IPv6 URL'),
        ("\udcff", "the value of --dir is not UTF-8 text"),
    ],
)
def test_what_is_no_directory_of_jobs_is_a_usage_error(name, message, capsys):
    assert run(["jobs", "list", "--dir", name]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", [b"\xff", b"no json", b"[1]", b'{"a":' * 100_000])
def test_a_record_that_is_damaged_is_named_beside_the_others(text, tmp_path, capsys):
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "job.json").write_bytes(text)
    assert run(["jobs", "list", "--dir", str(tmp_path)]) == 0
    assert "DAMAGED" in capsys.readouterr().out
    assert run(["jobs", "stop", "j", "--dir", str(tmp_path)]) == 3
    shown = capsys.readouterr().err
    assert "SS45" in shown and "j/job.json" in shown and "HINT: " in shown


def test_no_number_of_seconds_is_refused(tmp_path, capsys):
    assert run(["jobs", "stop", "j", "--dir", str(tmp_path), "--timeout", "nan"]) == 2
    assert "nan is no number of seconds" in capsys.readouterr().err


def test_a_run_of_no_case_is_no_success(tmp_path, capsys):
    assert run(["test", "--cases", str(tmp_path)]) == 2
    assert "there is no case file (*.json) at" in capsys.readouterr().err
    (tmp_path / "a.json").write_text("{}")
    assert run(["test", "--cases", str(tmp_path), "--select", "b.json"]) == 2
    assert 'there is no case file (*.json) whose path contains "b.json" at' in capsys.readouterr().err


def test_case_files_below_a_relative_path_are_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.json").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    assert run(["test", "--cases", "cases"]) == 1
    assert capsys.readouterr().out.startswith("FAIL a no case file: UnicodeDecodeError")
    assert run(["test", "--cases", "cases", "--json", "none/report.json"]) == 2
    assert 'cannot write "none/report.json": No such file or directory' in capsys.readouterr().err


def test_an_empty_master_is_a_usage_error(capsys):
    assert run(["run", "-e", "SHOW TABLES", "--master", ""]) == 2
    assert "--master is empty" in capsys.readouterr().err
