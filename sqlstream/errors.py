"""Errors as data: a ``Diagnostic`` says what, where and what to do; an exception carries one or several.

Wording follows Materialize's guide: the message is lower-case, without a full stop and names objects in double
quotes; detail and hint are sentences. Everything here pickles, because errors cross Spark's workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from sqlstream.secrets import secrets_of_script, shown_script

_LONGEST_LINE, _BEFORE = 500, 200
"""Characters that an excerpt shows of a longer line, and how many of them stand before the mistake."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""But for line feeds and tabs, which texts of servers hold; with those that turn the direction of text around."""

_LONGEST = 60


def shortened(text: str) -> str:
    """Returns the text, with the middle left out if it is too long for a message."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-5:]}"


_repeating: set[str] = set()


def repeating(code: str) -> str:
    """Declares that errors with this code would occur again on a retry of the same job, and returns the code.

    Such jobs are not restarted. The code identifies errors, because many reach the driver from Spark's workers as
    plain text.
    """
    _repeating.add(code)
    return code


@dataclass(frozen=True)
class Span:
    """A range of characters in the text of a script: from ``start`` to before ``end``."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Returns the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning. ``code``: ``SS`` and three digits. ``source``: the SQL text in which ``span`` is.

    ``source`` may contain secrets, so only ``render`` shows it; the other texts must not repeat any. ``warning``: the
    text is allowed but probably a mistake.
    """

    code: str
    message: str
    span: Span | None = None
    detail: str | None = None
    hint: str | None = None
    source: str | None = field(default=None, repr=False)
    warning: bool = False

    def __post_init__(self) -> None:
        if self.source is not None:
            hidden = secrets_of_script(self.source).hidden
            object.__setattr__(self, "message", hidden(self.message))
            object.__setattr__(self, "detail", self.detail and hidden(self.detail))
            object.__setattr__(self, "hint", self.hint and hidden(self.hint))

    def render(self) -> str:
        """Returns the complete message as text: the message, the source line with carets below the span, detail and
        hint.
        """
        lines = [f"{'WARNING ' if self.warning else ''}{self.code}: {_visible(self.message)}"]
        if self.span is not None and self.source is not None:
            lines += _excerpt(shown_script(self.source), self.span)
        if self.detail:
            lines.append(f"DETAIL: {_visible(self.detail)}")
        if self.hint:
            lines.append(f"HINT: {_visible(self.hint)}")
        return "\n".join(lines)


def _excerpt(source: str, span: Span) -> list[str]:
    start = min(span.start, len(source))
    line_start = source.rfind("\n", 0, start) + 1
    line_end = source.find("\n", start)
    line_end = len(source) if line_end < 0 else line_end
    prefix = f"LINE {source.count(chr(10), 0, start) + 1}: "
    width = max(1, min(span.end, line_end) - start)
    begin = max(line_start, start - _BEFORE) if line_end - line_start > _LONGEST_LINE else line_start
    end = min(line_end, begin + _LONGEST_LINE)
    before, after = "…" if begin > line_start else "", "…" if end < line_end else ""
    # Each character takes one place, here and in the caret line, so that both stay aligned in any terminal.
    line = "".join(" " if c == "\t" else c if c.isprintable() else "�" for c in source[begin:end])
    carets = "^" * min(width, end - start or 1)
    return [f"{prefix}{before}{line}{after}", " " * (len(prefix) + len(before) + start - begin) + carets]


def _visible(text: str) -> str:
    """Control characters as escapes, because a name in a message must not steer the terminal."""
    return text if text.isprintable() else _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


class SqlStreamError(Exception):
    """Base class of all errors that sqlstream raises on purpose. ``diagnostics`` is never empty."""

    def __init__(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
        diagnostics: Iterable[Diagnostic] = (),
    ) -> None:
        self.diagnostics = tuple(diagnostics) or (Diagnostic(code, message, span, detail, hint),)
        super().__init__(code, message)

    @classmethod
    def of(cls, diagnostics: Iterable[Diagnostic]) -> SqlStreamError:
        """Creates an error with these diagnostics. The code of the first one determines the class."""
        given = tuple(diagnostics)
        first = given[0]
        kind = next((c for c in _CLASSES if first.code.startswith(c.prefix)), SqlStreamError)
        return kind(first.code, first.message, diagnostics=given)

    prefix: str | tuple[str, ...] = "SS"

    @property
    def diagnostic(self) -> Diagnostic:
        """The first of its diagnostics."""
        return self.diagnostics[0]

    @property
    def code(self) -> str:
        """The code of the first of its diagnostics, such as ``SS201``."""
        return self.diagnostic.code

    @property
    def repeats(self) -> bool:
        """True where a retry of the same job would fail again: errors of rows, of the checkpoint, and of the query and
        its options.

        False for errors of Spark, of lookups and of Python functions, which may have temporary causes.
        """
        return not self.code.startswith(ExecutionError.prefix) or self.code in _repeating

    def with_source(self, source: str) -> SqlStreamError:
        """Returns the same error with ``source`` as the SQL text of its spans, unless it already has one."""
        self.diagnostics = tuple(d if d.source is not None else replace(d, source=source) for d in self.diagnostics)
        return self

    def with_texts(self, change: Callable[[str], str]) -> SqlStreamError:
        """Returns an error of the same code in which ``change`` was applied to message, detail and hint, and which has
        no cause.
        """
        return SqlStreamError.of(
            replace(d, message=change(d.message), detail=d.detail and change(d.detail), hint=d.hint and change(d.hint))
            for d in self.diagnostics
        )

    def __str__(self) -> str:
        return "\n\n".join(d.render() for d in self.diagnostics)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.diagnostics))


def _rebuild(kind: type[SqlStreamError], diagnostics: tuple[Diagnostic, ...]) -> SqlStreamError:
    return kind(diagnostics[0].code, diagnostics[0].message, diagnostics=diagnostics)


class SqlStreamWarning(UserWarning):
    """The category of the Python warnings that sqlstream issues about SQL that is allowed but probably a mistake."""


class ParseError(SqlStreamError):
    """The text is not a statement of the dialect (SS1xx)."""

    prefix = "SS1"


class BindError(SqlStreamError):
    """Names, types or clauses are wrong (SS2xx and SS64x, in queries over finished data also SS60x)."""

    prefix = ("SS2", "SS60", "SS64")


class UnsupportedError(SqlStreamError):
    """Something that the dialect or Flink has is not supported (SS3xx). The hint says what to write instead."""

    prefix = "SS3"


class ExecutionError(SqlStreamError):
    """A job (SS4xx) or a query over finished data (SS61x) failed while it ran."""

    prefix = ("SS4", "SS61")


class ConnectorError(SqlStreamError):
    """Wrong options, or an error of an external system (SS5xx)."""

    prefix = "SS5"


_CLASSES = (ParseError, BindError, UnsupportedError, ExecutionError, ConnectorError)
