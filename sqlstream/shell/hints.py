"""What an error suggests, taken with one key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.errors import SqlStreamError

TAKE_IT = "Tab at the empty prompt types it again as suggested."

_SUGGESTED = re.compile(r'Did you mean "([^"]+)"\?')
_QUOTES = "'`"


def mended(error: SqlStreamError) -> str | None:
    """The text that the error is about, with what its first mistake suggests; None where it suggests nothing, or more
    than one thing."""
    first = error.diagnostic
    suggested = _SUGGESTED.fullmatch(first.hint or "")
    if suggested is None or first.span is None or first.source is None:
        return None
    from sqlstream.grammar.quoting import quote_name

    wrong = first.source[first.span.start : first.span.end]
    quote = wrong[:1] if wrong[:1] in _QUOTES else ""
    word = suggested[1]
    if quote:
        spelled = f"{quote}{word}{quote}"
    elif re.fullmatch(r"\w+", wrong):
        spelled = quote_name(word)
    else:
        return None  # a function with its arguments, a command: what of it is wrong the place does not tell
    return first.source[: first.span.start] + spelled + first.source[first.span.end :]
