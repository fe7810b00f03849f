"""Completion and colours: suggestions of the planner, commands of the shell, paths; keywords of the dialect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name, _TokenType

from sqlstream.grammar.language import keywords
from sqlstream.planner.completion import Suggestion, Vocabulary, complete
from sqlstream.shell.commands import SHORT, TAKES_PATH

if TYPE_CHECKING:
    pass


_MOST = 200
_PATHS = ("path", "url")
"""Options whose values are paths; those of ``url`` may be."""


class SqlCompleter(Completer):
    """Suggestions for the statement or command at the cursor."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """The completions at the cursor: commands, paths, or what the planner suggests."""
        text, at = document.text, document.cursor_position
        line = document.current_line_before_cursor.lstrip()
        if line.startswith("\\") or line.lower().startswith("source "):
            yield from self._of_command(line, complete_event)
        elif (path := _path_in_string(text[:at])) is not None:
            yield from self._paths.get_completions(Document(path), complete_event)
        else:
            for suggestion in complete(text, at, self._vocabulary)[:_MOST]:
                yield _completion(suggestion, at)

    def _of_command(self, typed: str, event: CompleteEvent) -> Iterator[Completion]:
        name, blank, argument = typed.partition(" ")
        if not blank:
            yield from (
                Completion(short, -len(name), display_meta=meant.help)
                for short, meant in SHORT.items()
                if short.startswith(name)
            )
        elif name.lower() in TAKES_PATH:
            yield from self._paths.get_completions(Document(argument.lstrip()), event)
        elif name.startswith("\\d"):
            catalog, start = self._vocabulary.catalog, -len(argument)
            yield from (Completion(n, start) for n in catalog.relation_names() if n.startswith(argument))


def _completion(suggestion: Suggestion, at: int) -> Completion:
    return Completion(suggestion.text, suggestion.start - at, display_meta=suggestion.detail or suggestion.kind.value)


def _path_in_string(before: str) -> str | None:
    """The beginning of a path in ``'path' = '…``; None elsewhere."""
    head, quote, typed = before.rpartition("'")
    key = head.rstrip().removesuffix("=").rstrip()
    is_value = bool(quote) and head.rstrip().endswith("=")
    if is_value and any(key.endswith(f"'{name}'") for name in _PATHS):
        return typed
    return typed if is_value and Path(typed).is_absolute() else None


# --- Colours ---------------------------------------------------------------------------------------------------


class SqlStreamLexer(SqlLexer):  # type: ignore[misc]
    """SQL with the words of ``streaming.lark`` as keywords."""

    name = "sqlstream"
    aliases: ClassVar[list[str]] = ["sqlstream"]
    filenames: ClassVar[list[str]] = []

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """The tokens of pygments, in which words of the streaming clauses are keywords."""
        reserved = keywords()
        for offset, kind, value in super().get_tokens_unprocessed(text):
            yield offset, Keyword if kind is Name and value.upper() in reserved else kind, value
