"""Writes plain values as YAML: what the generated files of metrics and deployments consist of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}
"""Texts that YAML would read as something else."""


def yaml_text(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Returns a mapping or a list of mappings, lists, texts, numbers, booleans and None as a YAML document. Texts with
    several lines are written as blocks.
    """
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _entry(f"{_scalar(key)}:", entry)
    else:
        for entry in value:
            yield from _item(entry)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, str) and _is_block(value):
        yield f"{head} |"
        yield from (f"  {line}" if line else "" for line in value[:-1].split("\n"))
    elif isinstance(value, Mapping | list | tuple) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {_scalar(value)}"


def _item(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        first, *others = _lines(value)
        yield f"- {first}"
        yield from (f"  {line}" if line else "" for line in others)
    else:
        yield f"- {_scalar(value)}"


def _is_block(text: str) -> bool:
    """Where the text is lines that a block shows as they are: printable, without spaces at the begin or the end."""
    lines = text.split("\n")
    plain = all(line.isprintable() and line == line.rstrip() for line in lines)
    return len(lines) > 1 and lines[-1] == "" and lines[-2] != "" and plain and lines[0][:1] not in ("", " ")


def _scalar(value: Any) -> str:
    match value:
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
            return value
        case Mapping() | list() | tuple():
            return "{}" if isinstance(value, Mapping) else "[]"
        case str():
            return _UNSEEN.sub(_escaped, json.dumps(value, ensure_ascii=False))
        case _:
            return json.dumps(value)


_UNSEEN = re.compile(r"[^\x20-\x7e\xa1-\u1fff\u2030-\ud7ff]")
"""Characters that YAML wants escaped, and others that nobody can tell from a space."""


def _escaped(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
