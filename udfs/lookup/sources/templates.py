"""Texts with places for values: keys of Redis, URLs and bodies of HTTP.

``{name}`` stands for the value of a column; ``{{`` and ``}}`` are braces where the text is no JSON. ``${NAME}`` is
kept as it stands: it is a secret, put in after the template is cut.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

_PLACE = r"\{(?P<name>[^\s{}\"$][^{}\"]*)\}"
_IN_TEXT = re.compile(r"(?P<secret>\$\{[^{}]*\})|(?P<brace>\{\{|\}\})|" + _PLACE)
_IN_JSON = re.compile(r"(?P<secret>\$\{[^{}]*\})|(?P<string>\\.|\")|" + _PLACE, re.DOTALL)


@dataclass(frozen=True)
class Placeholder:
    """The place of a column's value in a template; ``quoted``: inside a JSON string."""

    name: str
    quoted: bool = False


@dataclass(frozen=True)
class Template:
    parts: tuple[str | Placeholder, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, each once."""
        return tuple(dict.fromkeys(piece.name for piece in self.parts if isinstance(piece, Placeholder)))

    @property
    def start(self) -> str:
        """The text before the first place."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    def resolved(self, secrets: Callable[[str], str]) -> Template:
        """The template with its fixed texts replaced."""
        return replace(self, parts=tuple(secrets(piece) if isinstance(piece, str) else piece for piece in self.parts))

    def filled(self, texts: Mapping[str, str]) -> str:
        """``texts`` by name, encoded as the place wants them."""
        return "".join(piece if isinstance(piece, str) else texts[piece.name] for piece in self.parts)

    def filled_json(self, texts: Mapping[str, str]) -> str:
        """``texts`` are JSON by name; inside of quotes a place takes the text without its own."""
        return "".join(piece if isinstance(piece, str) else _json(piece, texts[piece.name]) for piece in self.parts)


def _json(placeholder: Placeholder, text: str) -> str:
    if not placeholder.quoted:
        return text
    return text[1:-1] if text.startswith('"') else json.dumps(text, ensure_ascii=False)[1:-1]


def parse_template(text: str) -> Template:
    """Never fails: what is no place is text. The caller checks the names."""
    parts: list[str | Placeholder] = []
    end = 0
    for match in _IN_TEXT.finditer(text):
        parts.append(text[end : match.start()])
        parts.append(Placeholder(match["name"]) if match["name"] else match["secret"] or match["brace"][0])
        end = match.end()
    return _joined([*parts, text[end:]])


def parse_json_template(text: str) -> Template:
    """As ``parse_template``, for a JSON text, whose own braces are not placeholders."""
    parts: list[str | Placeholder] = []
    end, quoted = 0, False
    for match in _IN_JSON.finditer(text):
        parts.append(text[end : match.start()])
        quoted ^= match["string"] == '"'
        parts.append(Placeholder(match["name"], quoted) if match["name"] else match[0])
        end = match.end()
    return _joined([*parts, text[end:]])


def _joined(parts: list[str | Placeholder]) -> Template:
    joined: list[str | Placeholder] = []
    for piece in parts:
        last = joined[-1] if joined else None
        if isinstance(piece, str) and isinstance(last, str):
            joined[-1] = last + piece
        elif piece:
            joined.append(piece)
    return Template(tuple(joined))
