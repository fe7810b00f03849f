"""Options as data: the ``'key' = 'value'`` pairs of tables and settings, their types, checks and documentation.

An ``OptionKind`` turns the text of a value into a Python object. An ``Option`` is one key; a key may hold one ``#``,
which stands for any word (``fields.#.kind``). Nothing unknown or unreadable gets past ``check``.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlstream.errors import Diagnostic, Span
from sqlstream.planner.suggestions import with_list
from sqlstream.secrets import shown_value
from sqlstream.udfs.event_times import LONGEST
from sqlstream.udfs.texts import is_text

UNKNOWN_OPTION = "SS502"
MISSING_OPTION = "SS503"
WRONG_VALUE = "SS504"
NOT_EXECUTED = "SS350"

_LONGEST_SHOWN = 100


@dataclass(frozen=True)
class OptionKind:
    """The type of an option's values. ``parse`` converts a text or raises ValueError; ``accepted`` describes valid
    values.

    ``planned``: values of the dialect or of Flink that are not supported yet. ``words``: all valid values, if these
    are a few words.
    """

    name: str
    accepted: str
    parse: Callable[[str], Any]
    planned: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """One key of WITH (table options) or of SET (settings).

    * ``key``: may contain one ``#``, which matches any word.
    * ``kind``: the type of its values; ``doc``: one sentence for hints, completion and the documentation.
    * ``default``: as spelled in SQL; None: the option has no value unless it is given.
    * ``source``, ``sink``: whether it has an effect on tables that are read or looked up, and on tables that are
      written.
    * ``shown``: only for connectors of other packages: whether statements, plans and messages may show the value.
      Otherwise they show ``******``, except for keys that ``sqlstream.secrets`` knows to be harmless, such as
      ``path``.
    """

    key: str
    kind: OptionKind
    doc: str
    default: str | None = None
    required: bool = False
    source: bool = True
    sink: bool = False
    shown: bool = False

    @property
    def is_pattern(self) -> bool:
        return "#" in self.key

    def matches(self, key: str) -> bool:
        return self.key == key or self.word(key) is not None

    def word(self, key: str) -> str | None:
        """Returns the word that stands for ``#`` in ``key``; None where ``key`` is not one of this option."""
        if not self.is_pattern:
            return None
        head, tail = self.key.split("#")
        fits = key.startswith(head) and key.endswith(tail) and len(key) > len(head) + len(tail)
        return key[len(head) : len(key) - len(tail)] if fits else None


# --- kinds ----------------------------------------------------------------------------------------------------


def _number(text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[+-]?\d+", text.strip()) or not low <= int(text) <= high:
        raise ValueError(text)
    return int(text)


def integer(low: int = 0, high: int = 2**63 - 1) -> OptionKind:
    """Returns the type of options whose values are integers from ``low`` to ``high``, inclusive."""
    accepted = f"a whole number, {low} or more" if high == 2**63 - 1 else f"a whole number from {low} to {high}"
    return OptionKind("integer", accepted, lambda text: _number(text, low, high))


_WRONG_EVERYWHERE = (
    "missing ), unterminated subpattern", "unbalanced parenthesis", "unterminated character set", "nothing to repeat",
    "bad escape (end of pattern)",
)  # fmt: skip


def wrong_pattern(text: str) -> str | None:
    """Returns why Python takes a text for no regular expression; None where it is one."""
    try:
        re.compile(text)
    except re.error as error:
        return error.msg
    except (OverflowError, RecursionError) as error:
        return str(error)
    return None


def _pattern(text: str) -> str:
    """A regular expression of Java or Python: ValueError where it is one of neither."""
    if wrong_pattern(text) in _WRONG_EVERYWHERE and r"\Q" not in text:  # behind which Java takes all literally
        raise ValueError(text)
    return _nonempty(text)


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError(text)
    return value


def _factor(text: str) -> float:
    value = float(text)
    if not 1 <= value < float("inf"):
        raise ValueError(text)
    return value


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


_LONGEST_NAME, _LONGEST_PATH = 255, 4_095
"""Bytes of a file's name and of a path, which file systems of Linux and macOS take."""


def _path(text: str) -> str:
    """Of paths elsewhere only their own file system knows how long they may be."""
    names = [] if "://" in text else text.encode().split(b"/")
    if "\0" in text or any(len(name) > _LONGEST_NAME for name in names) or sum(map(len, names)) > _LONGEST_PATH:
        raise ValueError(text)
    return _nonempty(text)


def from_here(path: str) -> str:
    """The path, which begins at this process's directory if it is relative; URIs, environment variables, and paths in a
    directory whose name would be a pattern, are left alone.
    """
    if path.startswith(("/", "${")) or urlsplit(path).scheme:
        return path
    here = str(Path.cwd())
    return path if glob.has_magic(here) else f"{here}/{path}"


def _nonempty(text: str) -> str:
    if not text.strip():
        raise ValueError(text)
    return text


def _character(text: str) -> str:
    character = {"\\t": "\t", "\\\\": "\\"}.get(text, text)
    if len(character) != 1:
        raise ValueError(text)
    return character


_MILLISECONDS = {
    "ms milli millis millisecond milliseconds": 1,
    "s sec secs second seconds": 1_000,
    "min m minute minutes": 60_000,
    "h hour hours": 3_600_000,
    "d day days": 86_400_000,
}
_UNITS = {unit: scale for units, scale in _MILLISECONDS.items() for unit in units.split()} | {"": 1}


_LONGEST_MS = 2**63 - 1


def duration_ms(text: str) -> int:
    """Parses a duration in Flink's syntax (``10 s``, ``1min``, ``500 ms``; without unit: milliseconds) and returns
    milliseconds.

    Raises ValueError for other texts, and for durations longer than SQL intervals can be.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _UNITS or int(match[1]) * _UNITS[match[2]] > LONGEST // 1000:
        raise ValueError(text)
    found_ms = int(match[1]) * _UNITS[match[2]] if len(match[1]) <= len(str(_LONGEST_MS)) else _LONGEST_MS + 1
    if found_ms > _LONGEST_MS:
        raise ValueError(text)
    return found_ms


_BYTES = {"b bytes": 0, "k kb kibibytes": 10, "m mb mebibytes": 20, "g gb gibibytes": 30, "t tb tebibytes": 40}
_SIZES = {unit: scale for units, scale in _BYTES.items() for unit in units.split()} | {"": 0}
_LARGEST = 2**63 - 1


def size_bytes(text: str) -> int:
    """Parses a size in the syntax of Flink's ``MemorySize`` (``64 mb``, ``1gb``; 1 kb is 1024 bytes; without unit:
    bytes) and returns bytes. Raises ValueError for other texts, and for 0.
    """
    match = re.fullmatch(r"\s*(\d{1,19})\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _SIZES:
        raise ValueError(text)
    size = int(match[1]) << _SIZES[match[2]]
    if not 0 < size <= _LARGEST:
        raise ValueError(text)
    return size


def one_of(*values: str, planned: Iterable[str] = ()) -> OptionKind:
    """Returns the type of options with a few possible words, compared case-insensitively. The parsed value is the word
    as listed.

    ``planned``: words that are known but not supported yet.
    """
    by_name = {v.lower(): v for v in values}
    listed = ", ".join(f"'{v}'" for v in values)
    return OptionKind(
        "enumeration", f"one of {listed}", lambda text: by_name[text.strip().lower()], tuple(planned), values
    )


STRING = OptionKind("string", "any text", str)
NAME = OptionKind("string", "a text that is not empty", _nonempty)
PATH = OptionKind("path", f"a path or a URI that is not empty, with names of at most {_LONGEST_NAME} bytes", _path)
CHARACTER = OptionKind("character", r"one character, or '\t' for a tab", _character)
PATTERN = OptionKind("pattern", "a regular expression, with its parentheses and brackets closed", _pattern)
BOOLEAN = OptionKind("boolean", "'true' or 'false'", _boolean, words=("true", "false"))
RATIO = OptionKind("number", "a number from 0 to 1", _ratio)
FACTOR = OptionKind("number", "a number, 1 or more", _factor)
DURATION = OptionKind("duration", "a duration such as '500 ms', '10 s', '1 min', '2 h' or '1 d'", duration_ms)
SIZE = OptionKind("size", "a size such as '64 mb' or '1 gb'", size_bytes)


# --- checks ---------------------------------------------------------------------------------------------------


def find(options: Iterable[Option], key: str) -> Option | None:
    """Returns the option for a key, or None. An option with exactly this key has precedence over one with ``#``."""
    fitting = [o for o in options if o.matches(key)]
    return min(fitting, key=lambda o: o.is_pattern, default=None)


def hint_of(word: str, valid: Iterable[str], what: str) -> str:
    """Returns a hint for an unknown word: the most similar valid one, or a list of all. ``what``: what they are, in
    plural.
    """
    return with_list(word, valid, what)


def check_value(option: Option, key: str, value: str, span: Span | None) -> Diagnostic | None:
    """Returns a diagnostic for an invalid value (SS504) or one that is not supported yet (SS350); None for a valid
    one.
    """
    shown = _shown(key, value)
    if not is_text(value):
        message = f'value "{ascii(shown)[1:-1]}" of option "{key}" is no Unicode text'
        return Diagnostic(WRONG_VALUE, message, span, hint="It holds half a pair of surrogates: write the character.")
    if value.strip().lower() in option.kind.planned:
        message = f'value "{shown}" of option "{key}" is not executed yet'
        return Diagnostic(NOT_EXECUTED, message, span, hint=f"Write {option.kind.accepted}.")
    try:
        option.kind.parse(value)
    except (ValueError, KeyError):
        message = f'value "{shown}" of option "{key}" is not {_indefinite(option.kind)}'
        return Diagnostic(WRONG_VALUE, message, span, hint=f"Accepted: {option.kind.accepted}.")
    return None


def _shown(key: str, value: str) -> str:
    """The beginning of a value, without secrets."""
    text = shown_value(key, value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _indefinite(kind: OptionKind) -> str:
    if kind.name == "enumeration":
        return "accepted"
    return f"{'an' if kind.name[0] in 'aeiou' else 'a'} {kind.name}"


def parsed(options: Iterable[Option], values: Mapping[str, str]) -> dict[str, Any]:
    """Returns a dictionary from the key of each option to its Python value: the given value, else the option's default.
    It is None if there is neither.

    ``values`` must have been checked with ``check_value``.
    """
    every = tuple(options)
    given = {key: _of(every, key).kind.parse(value) for key, value in values.items()}
    defaults = {o.key: o.default if o.default is None else o.kind.parse(o.default) for o in every if not o.is_pattern}
    return defaults | given


def _of(options: Iterable[Option], key: str) -> Option:
    option = find(options, key)
    assert option is not None, key
    return option
