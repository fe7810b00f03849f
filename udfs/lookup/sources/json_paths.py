"""JSON paths such as ``$.a.b[0]``, ``$.items[*]`` and ``$['two words']``, in documents of either parser."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlstream.formats.json_records import Value

_STEP = re.compile(r"\.(?P<name>[^\s.\[\]'\"*$]+)|\['(?P<quoted>[^']+)'\]|\[(?P<index>-?\d+)\]|(?P<all>\[\*\]|\.\*)")
_ALL = None


@dataclass(frozen=True)
class JsonPath:
    """A JSON path. ``steps``: for each step the name of a field, the index of an array (negative ones count from the
    end), or None for all elements.
    """

    steps: tuple[str | int | None, ...] = ()

    @property
    def many(self) -> bool:
        """True if the path may select several values."""
        return _ALL in self.steps

    def found(self, document: object) -> list[object]:
        """The values that the path selects, in document order."""
        places = [document]
        for step in self.steps:
            places = [inner for value in places for inner in _inner(value, step)]
        return places

    def value(self, document: object) -> object:
        """The selected value, None where there is none; for paths with ``*`` a list of all selected values."""
        places = self.found(document)
        return places if self.many else next(iter(places), None)


def parse_path(text: str) -> JsonPath:
    """The path that a text spells. ValueError where it is not a path."""
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
    value = content_of(value)
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


def content_of(value: object) -> object:
    """An object as dict and an array as list, of either parser."""
    return value.content if isinstance(value, Value) else value
