"""Where statements end."""

from __future__ import annotations

import pytest

from sqlstream.shell.statements import is_blank, split


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1;", ["SELECT 1;"], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT ';' ; SELECT", ["SELECT ';' ;"], " SELECT"),
        ("SELECT 'it''s; \\';' ;", ["SELECT 'it''s; \\';' ;"], ""),
        ("SELECT `a;b` -- no; end\n;", ["SELECT `a;b` -- no; end\n;"], ""),
        ("/* a; b */ SELECT 1; ", ["/* a; b */ SELECT 1;"], " "),
        ("SELECT 'open; string", [], "SELECT 'open; string"),
        ("SELECT 1 /* open; comment", [], "SELECT 1 /* open; comment"),
        ("a; b;c", ["a;", "b;"], "c"),
        ("execute statement set begin a; b; end; c", ["execute statement set begin a; b; end;"], " c"),
        ("EXECUTE STATEMENT SET BEGIN a;", [], "EXECUTE STATEMENT SET BEGIN a;"),
    ],
)
def test_statements_end_at_semicolons(text, statements, rest):
    assert split(text) == (statements, rest)


@pytest.mark.parametrize("text", ["", "  \n", "-- only; this", "/* and */ -- this"])
def test_comments_are_blank(text):
    assert is_blank(text)


def test_a_semicolon_is_not_blank():
    assert not is_blank(" ; ")
