"""Paths of the JSON functions, as Flink reads them, in the words of Spark's functions of JSON and of VARIANT."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MODE = re.compile(r"\s*(?:(strict|lax)\s+)?(.*?)\s*", re.IGNORECASE | re.DOTALL)
_STEP = re.compile(
    r"\.?\[\s*'(?P<single>(?:[^'\\]|\\.)+)'\s*\]"
    r'|\.?\[\s*"(?P<double>(?:[^"\\]|\\.)+)"\s*\]'
    r"|\[\s*(?P<index>\d+)\s*\]"
    r"|(?P<all>\[\s*\*\s*\]|\.\*)"
    r"|\.(?P<name>[^\s.\[\]()*?@,'\"]+)"
)
_PLAIN = re.compile(r"\w+", re.ASCII)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Step = str | int | None
"""The name of a member, the number of an element, or None for all of them."""


@dataclass(frozen=True)
class JsonPath:
    """``strict``: what is not there is an error."""

    strict: bool
    steps: tuple[Step, ...]

    @property
    def many(self) -> bool:
        return None in self.steps


def parsed(text: str) -> JsonPath | None:
    """None for what is no path, or one with steps that are not executed: filters, slices, ``..``."""
    match = _MODE.fullmatch(text)
    assert match is not None, "the pattern takes every text"
    mode, path = match[1] or "strict", match[2]
    if not path.startswith("$"):
        return None
    steps: list[Step] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        steps.append(_step(step))
        position = step.end()
    return None if any(_unspeakable(step) for step in steps) else JsonPath(mode.lower() == "strict", tuple(steps))


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return int(match["index"])
    if match["all"] is not None:
        return None
    quoted = match["single"] or match["double"]
    return _ESCAPED.sub(r"\1", quoted) if quoted is not None else match["name"]


def _unspeakable(step: Step) -> bool:
    """A name with both kinds of quotes has no spelling in Spark's paths."""
    return isinstance(step, str) and "'" in step and '"' in step


def text_of(steps: tuple[Step, ...]) -> str:
    """The path to one value, for VARIANT_GET."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else _member(str(step)) for step in steps)


def _member(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return f".{name}"
    return f'["{name}"]' if "'" in name else f"['{name}']"


def text_for_strings(steps: tuple[Step, ...]) -> str | None:
    """The path to one value for GET_JSON_OBJECT; None where that has no spelling for it."""
    if any(isinstance(step, str) and ("'" in step or "?" in step) for step in steps):
        return None
    return text_of(steps)
