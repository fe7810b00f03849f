"""The line that says what takes so long."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

from sqlstream.cli.output import StatusLine, working

ROOT = Path(__file__).parents[3]
_WORK = """
import sys, time
from sqlstream.cli.output import StatusLine, working
with working("fast"):
    pass
with working("starting [Spark]", since=0):
    time.sleep({seconds})
with StatusLine(lambda: "the job", since=0) as status:
    time.sleep({seconds})
    with status.hidden():
        print("a row", flush=True)
    time.sleep({seconds})
print("end", flush=True)
"""


def _printed(term: str) -> str:
    """What a terminal gets of ``_WORK``."""
    terminal = pexpect.spawn(
        sys.executable, ["-c", _WORK.format(seconds=0.4)], cwd=ROOT, env={**os.environ, "TERM": term}, timeout=30,
        encoding="utf-8", dimensions=(24, 80),
    )  # fmt: skip
    terminal.expect(pexpect.EOF)
    assert terminal.before is not None
    return str(terminal.before)


def test_a_terminal_shows_what_goes_on_and_clears_it():
    printed = _printed("xterm")
    assert "fast" not in printed
    assert "starting [Spark] … 0 s" in printed
    before, after = printed.split("a row")
    assert "the job" in before and "the job" in after  # it comes back behind the row
    assert before.endswith("\x1b[2K")  # the line is erased before the row and before the end
    assert after.split("end")[0].endswith("\x1b[2K")


def test_a_terminal_that_cannot_redraw_gets_each_line_once():
    lines = _printed("dumb").splitlines()
    assert lines == ["starting [Spark] … 0 s", "the job", "a row", "end"]


def test_nothing_is_written_where_standard_error_is_no_terminal(capfd):
    with working("starting Spark", since=0), StatusLine(lambda: "the job", since=0) as status, status.hidden():
        pass
    assert capfd.readouterr() == ("", "")


def test_an_error_passes_and_clears_the_line():
    with pytest.raises(ValueError, match="wrong"), working("starting Spark", since=0):
        raise ValueError("wrong")
