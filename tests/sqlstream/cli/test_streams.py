"""Standard streams that are closed, full or no text, as a shell gives them to the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.cli import run

ROOT = Path(__file__).parents[3]
NO_TEXT = "\udcff"


def command(redirected: str, *arguments: str, before: str = "", **environment: str) -> tuple[int, str]:
    """The exit code and what the command wrote to standard error, as far as that is not redirected."""
    words = [f"{before} {sys.executable} -m sqlstream", *(f"'{a}'" for a in arguments), redirected]
    done = subprocess.run(
        ["/bin/bash", "-c", " ".join(words)], cwd=ROOT, capture_output=True, text=True, env=environment or None
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("redirected", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
@pytest.mark.parametrize("unbuffered", ["0", ""])
def test_results_that_cannot_be_written_are_told(redirected, reason, unbuffered):
    if not Path("/dev/full").exists():
        pytest.skip("a system without /dev/full")
    before = f"PYTHONUNBUFFERED={unbuffered}"
    code, told = command(redirected, "version", before=before)
    assert code == 74
    assert told.startswith(f"SS591: standard output cannot be written: {reason}\nHINT: ")


def test_a_reader_that_has_gone_away_is_told_by_the_exit_code_alone():
    assert command("| true; exit ${PIPESTATUS[0]}", "version") == (141, "")


def test_messages_that_cannot_be_written_change_no_result():
    assert command("2>&-", "version") == (0, "")
    assert command("2>&-", "unknown") == (2, "")
    assert command("2>/dev/full", "unknown") == (2, "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "-"], 2, "cannot read standard input: it is closed"),
        (["shell"], 1, "SS544: cannot read standard input: it is closed"),
    ],
)
def test_input_that_is_closed_is_not_empty(arguments, code, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr("sqlstream.shell.loop.SparkStart", lambda session: None)
    assert run(arguments) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "-e", NO_TEXT],
        ["check", "-e", "SHOW TABLES", "--param", f"a={NO_TEXT}"],
        ["run", "-e", "SHOW TABLES", "--set", f"pipeline.name={NO_TEXT}"],
        ["run", "-e", "SHOW TABLES", "--master", NO_TEXT],
        ["check", NO_TEXT],
        [NO_TEXT],
        ["format", NO_TEXT],
    ],
)
def test_arguments_that_are_no_text_are_usage_errors(arguments, capsys):
    assert run(arguments) == 2
    assert capsys.readouterr().err.encode()


def test_a_line_that_is_no_text_is_told_with_its_number(tmp_path):
    (tmp_path / "a.sql").write_bytes(b"SHOW TABLES;\nSELECT \xff;\n")
    code, told = command(f"<{tmp_path}/a.sql", "check", "-")
    assert code == 2 and "cannot read standard input: line 2 is not UTF-8 text" in told
