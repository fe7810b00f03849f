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
class Place:
    """Where the value of a column goes; ``quoted``: inside of a text of JSON."""

    name: str
    quoted: bool = False


@dataclass(frozen=True)
class Template:
    parts: tuple[str | Place, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, each once."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, Place)))

    @property
    def start(self) -> str:
        """The text before the first place."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    def resolved(self, secrets: Callable[[str], str]) -> Template:
        """With its fixed texts changed."""
        return replace(self, parts=tuple(secrets(part) if isinstance(part, str) else part for part in self.parts))

    def filled(self, texts: Mapping[str, str]) -> str:
        """``texts`` by name, encoded as the place wants them."""
        return "".join(part if isinstance(part, str) else texts[part.name] for part in self.parts)

    def filled_json(self, texts: Mapping[str, str]) -> str:
        """``texts`` are JSON by name; inside of quotes a place takes the text without its own."""
        return "".join(part if isinstance(part, str) else _json(part, texts[part.name]) for part in self.parts)


def _json(place: Place, text: str) -> str:
    if not place.quoted:
        return text
    return text[1:-1] if text.startswith('"') else json.dumps(text, ensure_ascii=False)[1:-1]


def parse_template(text: str) -> Template:
    """Never fails: what is no place is text. The caller checks the names."""
    parts: list[str | Place] = []
    end = 0
    for found in _IN_TEXT.finditer(text):
        parts.append(text[end : found.start()])
        parts.append(Place(found["name"]) if found["name"] else found["secret"] or found["brace"][0])
        end = found.end()
    return _joined([*parts, text[end:]])


def parse_json_template(text: str) -> Template:
    """As above for a JSON text, whose own braces stand for themselves."""
    parts: list[str | Place] = []
    end, quoted = 0, False
    for found in _IN_JSON.finditer(text):
        parts.append(text[end : found.start()])
        quoted ^= found["string"] == '"'
        parts.append(Place(found["name"], quoted) if found["name"] else found[0])
        end = found.end()
    return _joined([*parts, text[end:]])


def _joined(parts: list[str | Place]) -> Template:
    joined: list[str | Place] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        elif part:
            joined.append(part)
    return Template(tuple(joined))
