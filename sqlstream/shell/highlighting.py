"""Colours of SQL: pygments' lexer, which learns the keywords of the streaming clauses from the grammar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name, _TokenType

from sqlstream.grammar.language import keywords


class SqlStreamLexer(SqlLexer):  # type: ignore[misc]
    """SQL with the words of ``streaming.lark`` as keywords."""

    name = "sqlstream"
    aliases: ClassVar[list[str]] = ["sqlstream"]
    filenames: ClassVar[list[str]] = []

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        reserved = keywords()
        for offset, kind, value in super().get_tokens_unprocessed(text):
            yield offset, Keyword if kind is Name and value.upper() in reserved else kind, value
