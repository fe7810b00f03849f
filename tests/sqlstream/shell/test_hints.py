"""What an error suggests, taken with one key."""

from __future__ import annotations

import io

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import sqlstream
from sqlstream.errors import ParseError, Span
from sqlstream.shell.failures import mended
from sqlstream.shell.line_editor import line_editor
from sqlstream.shell.loop import Shell


class WithoutSpark(sqlstream.Session):
    @property
    def spark(self):
        raise AssertionError("nothing here needs Spark")


def error(text: str, wrong: str, hint: str | None) -> ParseError:
    start = text.index(wrong)
    located = ParseError("SS201", "wrong", Span(start, start + len(wrong)), hint=hint)
    return located.with_source(text)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("text", "wrong", "hint", "whole"),
    [
        ("SELECT auktion FROM bids;", "auktion", 'Did you mean "auction"?', "SELECT auction FROM bids;"),
        ("SELECT `auktion` FROM bids;", "`auktion`", 'Did you mean "auction"?', "SELECT `auction` FROM bids;"),
        ("SELECT x FROM bids;", "x", 'Did you mean "cross"?', "SELECT `cross` FROM bids;"),
        ("WITH ('pathh' = 'a')", "'pathh'", 'Did you mean "path"?', "WITH ('path' = 'a')"),
        ("SELECT x FROM bids;", "x", 'Did you mean "a" or "b"?', None),
        ("SELECT x FROM bids;", "x", 'Write "a" instead.', None),
        ("SELECT x FROM bids;", "x", None, None),
        ("SELECT lowr(x) FROM bids;", "lowr(x)", 'Did you mean "lower"?', None),
    ],
)
def test_one_suggestion_is_put_in_its_place(text, wrong, hint, whole):
    assert mended(error(text, wrong, hint)) == whole


def test_tab_at_the_empty_prompt_types_what_is_offered():
    with create_pipe_input() as keys:
        editor = line_editor(None, keys, DummyOutput())
        editor.offered = "SHOW VIEWS;"
        keys.send_text("\t\r")
        assert editor.prompt() == "SHOW VIEWS;"


def test_what_a_statement_suggests_is_offered_until_the_next_one(capsys):
    shell = Shell(WithoutSpark(), io.StringIO())
    shell.run("CREATE VIEW large AS SELECT 1 AS shop;")
    shell.run("SELECT shopp FROM large;")
    assert shell.mended == "SELECT shop FROM large;"
    shell.run("SHOW VIEWS;")
    assert shell.mended is None
