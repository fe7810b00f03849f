"""SQL text as messages may show it."""

from __future__ import annotations

import re
from functools import lru_cache

from sqlstream.secrets.known import SHORTEST
from sqlstream.secrets.options import pieces_of

_STRING = r"(?:'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
_OPTION = re.compile(rf"({_STRING})(\s*=\s*)({_STRING})", re.DOTALL)
_LOOKUP_HINT = re.compile(r"(/\*\+\s*LOOKUP\s*\([^()]*\)\s*\*/)", re.IGNORECASE)
_VISIBLE = re.compile(r"[^\n]")


@lru_cache(maxsize=4)  # each of many mistakes shows a line of the same text
def shown_script(text: str) -> str:
    """The text with stars in place of secrets in ``'key' = 'value'``; each character keeps its place.

    The options of a LOOKUP hint say how rows are asked for, and are none.
    """
    pieces = _LOOKUP_HINT.split(text)
    return "".join(piece if place % 2 else _without_secrets(piece) for place, piece in enumerate(pieces))


def _without_secrets(text: str) -> str:
    return _OPTION.sub(lambda option: f"{option[1]}{option[2]}{_shown(option[1][1:-1], option[3])}", text)


def in_option(text: str, place: int) -> bool:
    """True where a place of a script is in the value of an option."""
    return any(option.start(3) <= place < option.end(3) for option in _OPTION.finditer(text))


def _shown(key: str, value: str) -> str:
    pieces = pieces_of(key, value[1:-1])
    texts = (_VISIBLE.sub("*", p.text) if p.secret and len(p.text) >= SHORTEST else p.text for p in pieces)
    return value[0] + "".join(texts) + value[-1]
