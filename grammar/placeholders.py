"""``${name}`` in scripts that are formatted and not run: words of the same length stand in for them.

A name stands in first. Where the language wants a number or a string instead, the statement does not parse, and those
are tried for the placeholders up to the mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from sqlstream.errors import Diagnostic, SqlStreamError

_PLACEHOLDER = re.compile(r"(?<!\$)\$\{(\w+)\}")  # what follows another $ is a text between $$
_KINDS = ("name", "number", "string")

StandIns = Mapping[str, str]
"""By the name of a placeholder the word for it."""


def with_stand_ins(text: str, mistakes: Callable[[str], list[Diagnostic]], run: Callable[[str], str]) -> str:
    """What ``run`` makes of the text, with its placeholders as they were."""
    names = list(dict.fromkeys(match[1] for match in _PLACEHOLDER.finditer(text)))
    if not names:
        return run(text)
    words = _chosen(text, names, mistakes)
    try:
        result = run(_replaced(text, words))
    except SqlStreamError as error:
        raise _as_written(error, text, words) from None
    return _put_back(result, words)


def _chosen(text: str, names: list[str], mistakes: Callable[[str], list[Diagnostic]]) -> StandIns:
    """Kinds of words with which the text parses, or parses furthest."""
    words: dict[str, str] = {}
    for name in names:
        words[name] = _stand_in("name", name, text, words)

    def reached(tried: StandIns) -> int:
        starts = [d.span.start if d.span else 0 for d in mistakes(_replaced(text, tried))]
        return min(starts, default=len(text) + 1)

    best = reached(words)
    while best <= len(text):
        others = ({**words, name: _stand_in(kind, name, text, words)} for name, kind in _before(best, text))
        better = next(((tried, r) for tried in others if (r := reached(tried)) > best), None)
        if better is None:
            break
        words, best = better
    return words


def _before(position: int, text: str) -> Iterator[tuple[str, str]]:
    """The placeholders up to the position, the nearest first, with each kind."""
    near = [match[1] for match in _PLACEHOLDER.finditer(text) if match.start() <= position]
    return ((name, kind) for name in dict.fromkeys(reversed(near)) for kind in _KINDS)


def _stand_in(kind: str, name: str, text: str, stand_ins: StandIns) -> str:
    """A word as long as ``${name}`` that neither the text nor another word contains."""
    first, letters = ("9", "0123456789") if kind == "number" else ("_", "abcdefghijklmnopqrstuvwxyz")
    quote = "'" if kind == "string" else ""
    room = len(name) + len("${}") - 2 * len(quote)
    varied = min(room - 1, 4)
    words = (first * (room - varied) + "".join(end) for end in product(letters, repeat=varied))
    present, others = " ".join([text, *stand_ins.values()]).lower(), [other.strip("'") for other in stand_ins.values()]
    free = (word for word in words if word not in present and not any(other in word for other in others))
    return quote + next(free) + quote


def _replaced(text: str, words: StandIns) -> str:
    return _PLACEHOLDER.sub(lambda match: words[match[1]], text)


def _put_back(text: str, words: StandIns) -> str:
    for name, word in words.items():
        text = text.replace(word, f"${{{name}}}")
    return text


def _as_written(error: SqlStreamError, text: str, words: StandIns) -> SqlStreamError:
    return SqlStreamError.of(replace(d, message=_put_back(d.message, words), source=text) for d in error.diagnostics)
