"""Texts made from other texts: words left out, doubled, exchanged and brought in from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

Words = list[str]

_WORD = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/|[rRnNxXbB]?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`|\$\{\w+\}"""
    r"""|[^\W\d]\w*|\d[\w.]*|<=>|=>|->|::|\|\||[<>!=]=|<>|.""",
    re.DOTALL,
)

# What people, tools and other systems write, and what is at the edge of a type.
_ODD_WORDS = (
    "0", "-1", "1.", ".5", "1e400", "0x1F", "2147483648", "9" * 42, "1D", "0.1BD", "5L", "1_000", "''", "'it''s'",
    "r'\\d'", "'\\\\'", "'\\n'", "x'1F'", "N'n'", "'ü€😀'", "``", "`a``b`", '"q"', "NULL", "*", "?", ":p", "$1", "@x",
    "${x}", "/* c */", "-- c\n", "/*+ STATE_TTL('t' = '1d') */", "/*+ broken", "/*", "*/", "'", '"', "`", "\\", "#",
    "..", ".", ",", ";", "(", ")", "[", "]", "{", "}", "=>", "->", "::", "||", "<=>", "!=", "<<", "%", "~", "\x00",
    "\u00a0", "SELECT", "FROM", "AS", "LATERAL", "DISTINCT", "PERCENT", "LEN", "WINDOW", "window_time",
    "INTERVAL '1' DAY", "INTERVAL 1 YEAR", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01 00:00:00'",
    "CAST(a AS DECIMAL(20, 0x1F))",
    "-- c */ x\n", "-- /* c\n", "/* -- */", "/* ' */", "'a\u2028b'", "'a\x85b'", "`a\u2029b`", "-- a\u2028b\n",
    "'a\x0b\x1cb'", "1e-99999999999999999999BD", "\u00b2",
    "9" * 5000, "'" + "9" * 5000 + "'", "INTERVAL '" + "9" * 5000 + "' SECOND", "0" * 5000 + "1", "1e" + "9" * 5000,
    " AND ".join(["a = 1"] * 40), " OR ".join(["a"] * 40), " + ".join(["a"] * 40), "ABS(" * 40 + "a" + ")" * 40,
    "(" * 80 + "a" + ")" * 80, "CASE WHEN a THEN 1 ELSE " * 20 + "1" + " END" * 20, "+", "- " * 50 + "1",
)  # fmt: skip


def words_of(text: str) -> Words:
    """The text cut into words, quoted parts, comments, white space and signs; joined it is the text again."""
    return _WORD.findall(text)


def mutated(text: str, others: Sequence[str], random: Random) -> str:
    """The text after one to four changes, some of which bring in words of other texts."""
    words = words_of(text)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        change = random.choice(_CHANGES)
        words = change(words, others, random) or words
    return "".join(words)


def _place(words: Words, random: Random) -> int:
    """The index of a word that is no white space, where there is one."""
    places = [i for i, word in enumerate(words) if not word.isspace()]
    return random.choice(places) if places else 0


def _delete(words: Words, others: Sequence[str], random: Random) -> Words:
    start = _place(words, random)
    return words[:start] + words[start + random.choice((1, 1, 1, 2, 4, 9)) :]


def _double(words: Words, others: Sequence[str], random: Random) -> Words:
    start = _place(words, random)
    run = words[start : start + random.choice((1, 1, 3, 7))]
    return [*words[:start], *run, " ", *words[start:]]


def _exchange(words: Words, others: Sequence[str], random: Random) -> Words:
    changed = list(words)
    one, two = _place(words, random), _place(words, random)
    if changed:
        changed[one], changed[two] = changed[two], changed[one]
    return changed


def _replace(words: Words, others: Sequence[str], random: Random) -> Words:
    start = _place(words, random)
    return [*words[:start], _another(others, random), *words[start + 1 :]]


def _insert(words: Words, others: Sequence[str], random: Random) -> Words:
    start = _place(words, random)
    return [*words[:start], _another(others, random), " ", *words[start:]]


def _another(others: Sequence[str], random: Random) -> str:
    if random.random() < 0.4:
        return random.choice(_ODD_WORDS)
    words = words_of(random.choice(others))
    return words[_place(words, random)] if words else " "


def _bring_in(words: Words, others: Sequence[str], random: Random) -> Words:
    """A run of words of another text."""
    actual = words_of(random.choice(others))
    first, start = _place(actual, random), _place(words, random)
    run = actual[first : first + random.randint(2, 25)]
    return [*words[:start], " ", *run, " ", *words[start + random.choice((0, 0, 1, 5)) :]]


def _cross(words: Words, others: Sequence[str], random: Random) -> Words:
    """The first part of this text and the last part of another."""
    actual = words_of(random.choice(others))
    return [*words[: _place(words, random)], " ", *actual[_place(actual, random) :]]


def _enclose(words: Words, others: Sequence[str], random: Random) -> Words:
    start = _place(words, random)
    end = start + random.choice((1, 1, 3, 5, 9))
    left, right = random.choice(
        (("(", ")"), ("((", "))"), ("[", "]"), ("`", "`"), ("'", "'"), ("/* ", " */"), ("f(", ")"))
    )
    return [*words[:start], left, *words[start:end], right, *words[end:]]


def _comment(words: Words, others: Sequence[str], random: Random) -> Words:
    start = _place(words, random)
    return [*words[:start], random.choice(("/* here */", "-- here\n", "/* a\n b */", "--\n")), *words[start:]]


def _character(words: Words, others: Sequence[str], random: Random) -> Words:
    text = "".join(words)
    start = random.randrange(len(text) + 1)
    return words_of(
        text[:start] + random.choice("'\"`()[]{}\\/*-+.,;:=<>|&%$#@!?0a \n") + text[start + random.randint(0, 1) :]
    )


def _case(words: Words, others: Sequence[str], random: Random) -> Words:
    return [word.swapcase() if random.random() < 0.3 else word for word in words]


Change = Callable[[Words, Sequence[str], Random], Words]
_CHANGES: tuple[Change, ...] = (
    _delete, _delete, _double, _exchange, _replace, _replace, _insert, _insert, _bring_in, _bring_in, _cross, _enclose,
    _comment, _character, _case,
)  # fmt: skip
