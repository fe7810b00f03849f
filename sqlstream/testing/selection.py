"""``-k``: which tests run, by words in their names: ``north and not (late or slow)``, in any case."""

from __future__ import annotations

import re
from collections.abc import Callable

Selects = Callable[[str], bool]

_TOKEN = re.compile(r'\s*(\(|\)|"[^"]*"|[^\s()]+)')


def selection(text: str) -> Selects:
    """What the words select; ValueError where they make no expression."""
    tokens = [match[1] for match in _TOKEN.finditer(text)]
    selects = _either(tokens)
    if tokens:
        raise ValueError(f'"{tokens[0]}" is not expected there')
    return selects


def _either(tokens: list[str]) -> Selects:
    choices = [_each(tokens)]
    while tokens[:1] == ["or"]:
        del tokens[0]
        choices.append(_each(tokens))
    return lambda name: any(selects(name) for selects in choices)


def _each(tokens: list[str]) -> Selects:
    conditions = [_single(tokens)]
    while tokens[:1] == ["and"]:
        del tokens[0]
        conditions.append(_single(tokens))
    return lambda name: all(selects(name) for selects in conditions)


def _single(tokens: list[str]) -> Selects:
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise ValueError("a word is missing")
    token = tokens.pop(0)
    if token == "not":
        negated = _single(tokens)
        return lambda name: not negated(name)
    if token == "(":
        inner = _either(tokens)
        if tokens[:1] != [")"]:
            raise ValueError("a closing parenthesis is missing")
        del tokens[0]
        return inner
    word = token.strip('"').casefold()
    return lambda name: word in name.casefold()
