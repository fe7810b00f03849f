"""A prompt before the rest is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pexpect
import pytest

from sqlstream.shell.early_prompt import Arriving, interact_at_once

ROOT = Path(__file__).parents[3]
HEAVY = ("sqlglot", "lark", "pandas", "pyarrow", "pyspark", "sqlstream.session", "sqlstream.planner")


def test_the_first_prompt_imports_none_of_what_takes_long():
    code = "import sys, sqlstream.cli, sqlstream.shell.early_prompt; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(HEAVY) & set(done.stdout.split()) == set()


def test_what_arrives_is_waited_for():
    may_come = Event()

    made: Any = ("shell", "completer")

    def make():
        may_come.wait()
        return made

    arriving = Arriving(make)
    arriving.start()
    assert not arriving.there
    may_come.set()
    assert (arriving.shell(), arriving.completer) == made


def test_what_kept_it_from_coming_is_raised_where_it_is_waited_for():
    def make():
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        Arriving(make).shell()


def test_what_is_typed_at_once_runs_and_its_result_is_shown(tmp_path):
    shell = shell_in(tmp_path)
    try:
        shell.expect("sqlstream>")
        shell.send("SHOW VIEWS;\r")
        shell.expect("view name")
        shell.send("SHOW NOTHING;\r")
        shell.expect("SS101")
        shell.send("quit\r")
        shell.expect(pexpect.EOF)
    finally:
        shell.close(force=True)


def shell_in(folder: Path, *options: str) -> pexpect.spawn:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), "TERM": "xterm",
                   "PYTHONPATH": str(ROOT), "PROMPT_TOOLKIT_NO_CPR": "1"}  # fmt: skip
    return pexpect.spawn(
        sys.executable, ["-m", "sqlstream", "shell", *options], env=environment, cwd=folder, timeout=200,
        encoding="utf-8",
    )  # fmt: skip


def test_a_wrong_option_ends_the_prompt_with_its_message(tmp_path):
    shell = shell_in(tmp_path, "--set", "no.such=1")
    try:
        shell.expect("sqlstream>")
        shell.expect("no.such")
        shell.expect(pexpect.EOF)
    finally:
        shell.close()
    assert shell.exitstatus == 2


def test_who_leaves_at_once_waits_for_nothing(monkeypatch):
    def left(*_: object) -> str:
        raise EOFError

    monkeypatch.setattr("sqlstream.shell.early_prompt._first", left)
    monkeypatch.setattr("sqlstream.shell.early_prompt.line_editor", lambda *_, **__: None)
    monkeypatch.setattr("sqlstream.shell.early_prompt.history_file", lambda: None)
    monkeypatch.setattr(Arriving, "shell", lambda self: pytest.fail("it waited"))
    assert interact_at_once(lambda: pytest.fail("nothing was opened"), "table") == 0
