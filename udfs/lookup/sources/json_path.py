"""Paths into JSON: ``$.a.b[0]``, ``$.items[*]``, ``$['two words']``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = re.compile(r"\.(?P<name>[^\s.\[\]'\"*$]+)|\['(?P<quoted>[^']+)'\]|\[(?P<index>-?\d+)\]|(?P<all>\[\*\]|\.\*)")
_ALL = None


@dataclass(frozen=True)
class JsonPath:
    """``steps``: names of fields, indexes of arrays (negative ones count from the end), None for all parts."""

    steps: tuple[str | int | None, ...] = ()

    @property
    def many(self) -> bool:
        """True where the path may lead to several places."""
        return _ALL in self.steps

    def found(self, document: object) -> list[object]:
        """The values that the path selects, in document order; empty where it selects none."""
        places = [document]
        for step in self.steps:
            places = [inner for value in places for inner in _inner(value, step)]
        return places

    def value(self, document: object) -> object:
        """The part at the path, None where there is none; all of them as a list where the path has a ``*``."""
        places = self.found(document)
        return places if self.many else next(iter(places), None)


def parse_path(text: str) -> JsonPath:
    """ValueError where the text is no such path."""
    if not text.startswith("$"):
        raise ValueError(text)
    steps: list[str | int | None] = []
    position = 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise ValueError(text)
        steps.append(int(step["index"]) if step["index"] else _ALL if step["all"] else step["name"] or step["quoted"])
        position = step.end()
    return JsonPath(tuple(steps))


def _inner(value: object, step: str | int | None) -> list[object]:
    match step, value:
        case None, list():
            return value
        case None, dict():
            return list(value.values())
        case int(), list():
            return [value[step]] if -len(value) <= step < len(value) else []
        case str(), dict():
            return [value[step]] if step in value else []
    return []
