"""Values of scalar types and their texts, as in keys, fields and responses of external systems. Templates of such
texts."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from sqlstream.types import DataType

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_DECIMAL = Context(prec=38, rounding=ROUND_HALF_UP)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UNLIKE_NUMBERS = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "-infinity": -math.inf, "-inf": -math.inf}


def from_text(text: str, kind: DataType, zone: tzinfo) -> object:
    """The value of a scalar type that the text spells, as Spark casts it; timestamps also in milliseconds since 1970.

    A TIMESTAMP without an offset is in ``zone``. BINARY is Base64. ValueError where the text is no such value.
    """
    if kind.name == "STRING":
        return text
    try:
        return _READ[kind.name](text.strip(), kind, zone)
    except (ValueError, OverflowError, InvalidOperation, binascii.Error):
        raise ValueError(f"{shown(text)} is no {kind}") from None


def to_text(value: object, kind: DataType) -> str:
    """The text of a scalar value that ``from_text`` reads again; TIMESTAMP with Z, in UTC."""
    if type(value) is int or type(value) is str:
        return str(value)
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return format(value, "f")
        case datetime() if kind.name == "TIMESTAMP":
            return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
    return str(value)


def shown(text: str, limit: int = 60) -> str:
    """A text from an external system for a message: on one line, quoted, truncated to ``limit``."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= limit else f'"{line[:limit]}…"'


# --- by type --------------------------------------------------------------------------------------------------


def _boolean(text: str, kind: DataType, zone: tzinfo) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return word in _TRUE


def _whole(text: str, kind: DataType, zone: tzinfo) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    number, bound = int(text), 1 << (_BITS[kind.name] - 1)
    if not -bound <= number < bound:
        raise ValueError(text)
    return number


def _float(text: str, kind: DataType, zone: tzinfo) -> float:
    special = _UNLIKE_NUMBERS.get(text.lower())
    if special is None and not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return _floating(float(text) if special is None else special, kind)


def _floating(number: float, kind: DataType) -> float:
    """FLOAT has 32 bits: rounded to them it equals what Arrow returns."""
    if kind.name == "DOUBLE" or not math.isfinite(number):
        return number
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    assert isinstance(rounded, float)
    return rounded


def _exact(text: str, kind: DataType, zone: tzinfo) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return _decimal(Decimal(text), kind)


def _decimal(number: Decimal, kind: DataType) -> Decimal:
    """InvalidOperation, or ValueError, where the digits before the point are too many."""
    precision, scale = kind.args
    assert isinstance(precision, int)
    assert isinstance(scale, int)
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=_DECIMAL)
    if abs(rounded) >= Decimal(10) ** (precision - scale):
        raise ValueError(number)
    return rounded


def _binary(text: str, kind: DataType, zone: tzinfo) -> bytes:
    return base64.b64decode(text, validate=True)


def _day(text: str, kind: DataType, zone: tzinfo) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _time(text: str, kind: DataType, zone: tzinfo) -> time:
    parsed = time.fromisoformat(text)
    if parsed.tzinfo is not None:
        raise ValueError(text)
    return parsed


def _timestamp(text: str, kind: DataType, zone: tzinfo) -> object:
    if _WHOLE.fullmatch(text):
        instant = _EPOCH + timedelta(milliseconds=int(text))
        return instant if kind.name == "TIMESTAMP" else instant.replace(tzinfo=None)
    if not _DATE.match(text):
        raise ValueError(text)
    parsed = datetime.fromisoformat(text)
    if kind.name == "TIMESTAMP":
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
    if parsed.tzinfo is not None:  # an offset is ambiguous for a type without time zone
        raise ValueError(text)
    return parsed


_READ: dict[str, Callable[[str, DataType, tzinfo], object]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(_BITS, _whole),
    "FLOAT": _float,
    "DOUBLE": _float,
    "DECIMAL": _exact,
    "BINARY": _binary,
    "DATE": _day,
    "TIME": _time,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_NTZ": _timestamp,
}
SCALARS = frozenset(_READ) | {"STRING"}
"""Names of the types that have texts."""


# --- templates: keys of Redis, URLs and bodies of HTTP --------------------------------------------------------
# ``{name}`` stands for the value of a column; ``{{`` and ``}}`` are braces where the text is no JSON. ``${NAME}`` is
# kept as it stands: it is a secret, put in after the template is cut.


_PLACE = r"\{(?P<name>[^\s{}\"$][^{}\"]*)\}"
_IN_TEXT = re.compile(r"(?P<secret>\$\{[^{}]*\})|(?P<brace>\{\{|\}\})|" + _PLACE)
_IN_JSON = re.compile(r"(?P<secret>\$\{[^{}]*\})|(?P<string>\\.|\")|" + _PLACE, re.DOTALL)


@dataclass(frozen=True)
class Placeholder:
    """A placeholder for a column's value in a template. ``quoted``: it is inside a JSON string."""

    name: str
    quoted: bool = False


@dataclass(frozen=True)
class Template:
    """A text with placeholders, stored as alternating texts and placeholders. ``{name}`` stands for the value of a
    column; ``{{`` and ``}}`` are braces, unless the text is JSON. ``${NAME}`` is not a placeholder but a secret, which
    is inserted later by ``resolved``.
    """

    parts: tuple[str | Placeholder, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the placeholders' columns, each once."""
        return tuple(dict.fromkeys(piece.name for piece in self.parts if isinstance(piece, Placeholder)))

    @property
    def start(self) -> str:
        """The text before the first placeholder."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    def resolved(self, secrets: Callable[[str], str]) -> Template:
        """The template with secrets inserted into its fixed texts."""
        return replace(self, parts=tuple(secrets(piece) if isinstance(piece, str) else piece for piece in self.parts))

    def filled(self, texts: Mapping[str, str]) -> str:
        """The text with the placeholders replaced by ``texts``, column values that are already encoded."""
        return "".join(piece if isinstance(piece, str) else texts[piece.name] for piece in self.parts)

    def filled_json(self, texts: Mapping[str, str]) -> str:
        """The JSON text with each placeholder replaced by a JSON value from ``texts``, by column. For a placeholder
        inside a JSON string, as in ``"id-{a}"``, the value's own quotes are removed.
        """
        return "".join(piece if isinstance(piece, str) else _json(piece, texts[piece.name]) for piece in self.parts)


def _json(placeholder: Placeholder, text: str) -> str:
    if not placeholder.quoted:
        return text
    return text[1:-1] if text.startswith('"') else json.dumps(text, ensure_ascii=False)[1:-1]


def parse_template(text: str) -> Template:
    """The template that a text spells. It never fails, because everything but placeholders is plain text. The caller
    checks the names of the columns.
    """
    parts: list[str | Placeholder] = []
    end = 0
    for match in _IN_TEXT.finditer(text):
        parts.append(text[end : match.start()])
        parts.append(Placeholder(match["name"]) if match["name"] else match["secret"] or match["brace"][0])
        end = match.end()
    return _joined([*parts, text[end:]])


def parse_json_template(text: str) -> Template:
    """The template of a JSON text, whose own braces are not placeholders."""
    parts: list[str | Placeholder] = []
    end, quoted = 0, False
    for match in _IN_JSON.finditer(text):
        parts.append(text[end : match.start()])
        quoted ^= match["string"] == '"'
        parts.append(Placeholder(match["name"], quoted) if match["name"] else match[0])
        end = match.end()
    return _joined([*parts, text[end:]])


def _joined(parts: list[str | Placeholder]) -> Template:
    joined: list[str | Placeholder] = []
    for piece in parts:
        last = joined[-1] if joined else None
        if isinstance(piece, str) and isinstance(last, str):
            joined[-1] = last + piece
        elif piece:
            joined.append(piece)
    return Template(tuple(joined))
