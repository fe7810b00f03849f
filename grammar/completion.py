"""What may come next, for the shell's completion."""

from __future__ import annotations

from sqlglot.errors import ParseError as SqlglotParseError

from sqlstream.errors import SqlStreamError
from sqlstream.grammar.depth import with_room
from sqlstream.grammar.failures import SyntaxFailure
from sqlstream.grammar.language import END, readable
from sqlstream.grammar.script import parser_at, split, tokenize


@with_room
def expected_after(text: str) -> list[str]:
    """Keywords and kinds of things that may follow an unfinished script, sorted.

    Keywords are upper-case (``GROUP BY``, ``EMIT``); kinds are in words (``a name``, ``an expression``). Empty inside
    a string or comment, and behind a mistake.
    """
    try:
        pieces = list(split(tokenize(text)))
    except SqlStreamError:
        return []
    tokens = pieces[-1] if pieces and not text.rstrip().endswith(";") else []
    parser = parser_at(text, tokens)
    wanted: tuple[str, ...] = ()
    try:
        parser.syntax("statement")
    except SqlglotParseError as error:
        wanted = error.terminals if isinstance(error, SyntaxFailure) else ()
    if parser._index < len(tokens):
        return []
    return sorted({readable(t).strip('"') for t in wanted if t != END} | parser.completions)
