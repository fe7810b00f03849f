"""JSON on several lines: what ``json.dumps`` prints with an indent of two, whose generators resume at each depth."""

from __future__ import annotations

import json
from typing import Any

_STEP = "  "


def json_text(document: Any) -> str:
    """The text of a document of dictionaries with texts as keys, lists, and values that JSON has."""
    parts: list[str] = []
    _write(document, "\n", parts)
    return "".join(parts)


def _write(value: Any, line: str, parts: list[str]) -> None:
    """``line``: a line break and the indent that the value stands at."""
    inner = line + _STEP
    match value:
        case {}:
            before = "{"
            for key, member in value.items():
                parts += (before, inner, json.dumps(key, ensure_ascii=False), ": ")
                _write(member, inner, parts)
                before = ","
            parts += (line, "}") if value else ("{}",)
        case list() | tuple():
            before = "["
            for member in value:
                parts += (before, inner)
                _write(member, inner, parts)
                before = ","
            parts += (line, "]") if value else ("[]",)
        case _:
            parts.append(json.dumps(value, ensure_ascii=False))
