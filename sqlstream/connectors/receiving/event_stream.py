"""Server-sent events: what of the bytes of a response is an event, as the HTML standard says.

Lines end with CR LF, LF or CR alone, so U+2028, which some clients take for the end of a line, is a character of a
text. All of these are bytes below 128, so a character that is cut by a chunk is whole again when its line is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_RETRY_DIGITS, _LONGEST_RETRY_MS = 18, 86_400_000
"""A server that wants clients to wait for more than a day has lost them."""


class Event(NamedTuple):
    """An event. ``id``: the last one that the server has sent, with this event or before; empty without one."""

    data: bytes
    kind: str
    id: str


class EventTooLarge(Exception):
    """An event has more bytes than it may have."""


@dataclass
class EventStream:
    """Reads events from chunks of a response. ``id``: the last id that a server has sent, with which a connection is
    made again. ``retry_ms``: how long it wants clients to wait before that, if it says so.
    """

    most_bytes: int
    id: str = ""
    retry_ms: int | None = None
    _rest: bytes = b""
    _begun: bool = False
    _after_cr: bool = False
    _data: list[bytes] = field(default_factory=list)
    _size: int = 0
    _kind: bytes = b""
    _id: str | None = None

    def begin(self) -> None:
        """Says that the next chunk is the first of another response: an event that was not whole is gone."""
        self._rest, self._begun, self._after_cr = b"", False, False
        self._data, self._size, self._kind, self._id = [], 0, b"", None

    def events(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this chunk. EventTooLarge for one that is too large."""
        for line in self._lines(chunk):
            if line:
                self._heed(line)
            elif (event := self._ended()) is not None:
                yield event

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if not chunk:
            return
        if self._after_cr:  # which has ended its line already
            chunk, self._after_cr = chunk.removeprefix(b"\n"), False
        text = self._rest + chunk
        if not self._begun:
            if _BOM.startswith(text[:3]) and len(text) < len(_BOM):
                self._rest = text
                return
            self._begun, text = True, text.removeprefix(_BOM)
        start = 0
        for end in _LINE_END.finditer(text, max(0, len(self._rest) - len(_BOM))):
            yield text[start : end.start()]
            start = end.end()
        self._rest = text[start:]
        self._after_cr = start == len(text) and text.endswith(b"\r")
        if self._size + len(self._rest) > self.most_bytes:
            raise EventTooLarge

    def _heed(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
                if self._size > self.most_bytes:
                    raise EventTooLarge
            case b"event":
                self._kind = value
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit():
                self.retry_ms = min(int(value[:_RETRY_DIGITS]), _LONGEST_RETRY_MS)

    def _ended(self) -> Event | None:
        """The event that an empty line ends; None where there was no data. Its id counts nevertheless."""
        self.id = self.id if self._id is None else self._id
        data, kind = self._data, self._kind.decode(errors="replace") or "message"
        self._data, self._size, self._kind, self._id = [], 0, b"", None
        return Event(b"\n".join(data), kind, self.id) if data else None
