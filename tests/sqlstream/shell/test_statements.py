"""Where statements end."""

from __future__ import annotations

import pytest

from sqlstream.errors import ParseError, Span
from sqlstream.shell.commands import is_blank, joined, split


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1;"], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT ';' ; SELECT", ["SELECT ';' ;"], " SELECT"),
        ("SELECT 'it''s; \\';' ;", ["SELECT 'it''s; \\';' ;"], ""),
        (r"SELECT r'\', R'a;\b'; c", [r"SELECT r'\', R'a;\b';"], " c"),
        (r"SELECT '\d;' ; c", [r"SELECT '\d;' ;"], " c"),
        ("SELECT `a;b` -- no; end\n;", ["SELECT `a;b` -- no; end\n;"], ""),
        ("/* a; b */ SELECT 1; ", ["SELECT 1;"], " "),
        ("SELECT 'open; string", [], "SELECT 'open; string"),
        ("SELECT 1 /* open; comment", [], "SELECT 1 /* open; comment"),
        ("a; b;c", ["a;", "b;"], "c"),
        ("execute statement set begin a; b; end; c", ["execute statement set begin a; b; end;"], " c"),
        ("EXECUTE STATEMENT SET BEGIN a;", [], "EXECUTE STATEMENT SET BEGIN a;"),
        ("CREATE FUNCTION f() AS $$\nx = ';';\n$$; c", ["CREATE FUNCTION f() AS $$\nx = ';';\n$$;"], " c"),
        ("AS $$ open; body", [], "AS $$ open; body"),
        ("a;\\d\nb; \\q", ["a;", "\\d\n", "b;", "\\q"], ""),
        ("-- first\nhelp\n\\? ; a;", ["help\n", "\\? ;", "a;"], ""),
        ("SELECT a,\n\\d\n;", ["SELECT a,\n\\d\n;"], ""),  # in the middle of a statement it is part of it
    ],
)
def test_statements_end_at_semicolons_and_commands_with_the_line(text, statements, rest):
    parts, behind = split(text)
    assert ([part.piece for part in parts], text[behind:]) == (statements, rest)


def test_statements_between_commands_belong_together():
    parts, _ = split("a; b;\n\\d\nc; -- behind\nd;")
    assert [(part.piece, part.command is not None) for part in joined(parts)] == [
        ("a; b;", False),
        ("\\d\n", True),
        ("c; -- behind\nd;", False),
    ]


def test_errors_get_their_place_in_the_whole_text():
    text = "a;\nSELECT m;"
    part = split(text)[0][1]
    error = part.located(ParseError("SS101", "unexpected", Span(7, 8)).with_source("SELECT m;"))
    assert str(error).splitlines()[1:] == ["LINE 2: SELECT m;", "               ^"]


@pytest.mark.parametrize("text", ["", "  \n", "-- only; this", "/* and */ -- this"])
def test_comments_are_blank(text):
    assert is_blank(text)


def test_a_semicolon_is_not_blank():
    assert not is_blank(" ; ")
