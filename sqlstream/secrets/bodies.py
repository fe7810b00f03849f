"""Bodies of requests, JSON with places for columns: values are secret but for those known to be harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from sqlstream.secrets.pieces import TextPiece, aside, guarded
from sqlstream.secrets.urls import is_harmless

_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"(?P<name>\s*:)?|[{}\[\],:\s]+|[^{}\[\],:\s\"]+")


def body_pieces(text: str) -> list[TextPiece]:
    """The pieces of a body; a text that is no JSON is secret as a whole."""
    set_aside = aside(text)
    if set_aside is None or not _is_json(set_aside.text):
        return guarded(text)
    return set_aside.all_restored(_pieces(set_aside.text))


def _is_json(text: str) -> bool:
    try:
        json.loads(re.sub(r"(\"(?:[^\"\\]|\\.)*\")|[\ue000-\uf8ff]", lambda m: m[1] or "0", text))
    except (ValueError, RecursionError):
        return False
    return True


def _pieces(text: str) -> Iterator[TextPiece]:
    member = ""
    for token in _TOKEN.finditer(text):
        if token["name"] is not None:
            member = json.loads(token[0][: token.start("name") - token.start()])
        if token["name"] is not None or token[0].strip("{}[],: \t\r\n") in ("", "true", "false", "null"):
            yield TextPiece(token[0])
        elif token[0].startswith('"'):
            yield TextPiece('"')
            yield TextPiece(token[0][1:-1], secret=len(token[0]) > 2 and not is_harmless(member))
            yield TextPiece('"')
        else:
            yield TextPiece(token[0], secret=not is_harmless(member))
