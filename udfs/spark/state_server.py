"""Entries of a map state, exchanged with Spark's state server in batches.

The server answers the requests of a socket one by one and in order, so many can be sent before the first answer is
read. PySpark's public API waits for each answer, which takes five times as long; it is the fallback for versions of
PySpark without the methods that pipelining needs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sqlstream.udfs.kernel import StateKey
from sqlstream.udfs.spark.internals import defer_answers, state_client, state_messages

KEY = StructType([StructField("name", StringType(), False), StructField("number", LongType(), False)])
VALUE = StructType([StructField("text", StringType(), False)])
NAME = "kernel"

_IN_FLIGHT = 128
"""The number of requests to send before reading answers. The answers must fit into the buffer of the socket, or both
sides would block: an answer takes at least 768 bytes of the 208 KiB that a local socket has on Linux."""

_PROTOCOL = 0
_HEADER = struct.Struct("!ii")
"""The version of the protocol and the length of the message."""


class Entries(Protocol):
    """Access to the state entries and timers of one key group, the one that Spark has set as the current key. Timers
    are in Spark's milliseconds.
    """

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        """The values of these keys, None for those that do not exist."""
        ...

    def write(
        self,
        entries: Sequence[tuple[StateKey, bytes]],
        removed: Sequence[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None: ...


def entries_of(handle: StatefulProcessorHandle, state: Any) -> Entries:
    """The fastest available access to the map state ``state``, which maps ``KEY`` to ``VALUE``."""
    client = state_client(handle)
    return _OneByOne(handle, state) if client is None else _Pipelined(client)


class _OneByOne:
    """Through PySpark's public API."""

    def __init__(self, handle: StatefulProcessorHandle, state: Any) -> None:
        self._handle = handle
        self._state = state

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        rows = (self._state.getValue(key) for key in keys)
        return _values([None if row is None else row[0] for row in rows])

    def write(
        self,
        entries: Sequence[tuple[StateKey, bytes]],
        removed: Sequence[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None:
        for key, text in _texts(entries):
            self._state.updateValue(key, (text,))
        for key in removed:
            self._state.removeKey(key)
        if deleted_timer is not None:
            self._handle.deleteTimer(deleted_timer)
        if timer is not None:
            self._handle.registerTimer(timer)


class _Pipelined:
    """Through the connection of PySpark's client, which waits for an answer only where its content is needed: at reads.

    Writes, and the key group that PySpark sets as the current one, are answered meanwhile. Their answers are read
    before the next other request of PySpark, at the latest at the end of the task, which an error among them fails.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._messages = state_messages()
        self._unanswered = 0
        defer_answers(client, self._set_key_group, self._settle)

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        values: list[bytes | None] = []
        for start in range(0, len(keys), _IN_FLIGHT):  # each copy of all that a call reads would be large
            rows = self._ask([self._get_of(key) for key in keys[start : start + _IN_FLIGHT]])
            values += _values([self._client._deserialize_from_bytes(row)[0] if row else None for row in rows])
        return values

    def write(
        self,
        entries: Sequence[tuple[StateKey, bytes]],
        removed: Sequence[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None:
        m = self._messages
        for key, text in _texts(entries):
            self._post(self._put_of(key, text))
        for key in removed:
            self._post(self._map_call(removeKey=m.RemoveKey(userKey=self._key(key))))
        if deleted_timer is not None:
            self._post(self._timer_call(delete=m.DeleteTimer(expiryTimestampMs=deleted_timer)))
        if timer is not None:
            self._post(self._timer_call(register=m.RegisterTimer(expiryTimestampMs=timer)))

    def _set_key_group(self, key: Any) -> None:
        m = self._messages
        encoded = self._client._serialize_to_bytes(self._client.key_schema, key)
        change = m.ImplicitGroupingKeyRequest(setImplicitKey=m.SetImplicitKey(key=encoded))
        self._post(m.StateRequest(implicitGroupingKeyRequest=change))

    def _ask(self, requests: Sequence[Any]) -> list[bytes]:
        """The answers to at most ``_IN_FLIGHT`` requests."""
        if self._unanswered + len(requests) > _IN_FLIGHT:
            self._settle()
        for request in requests:
            self._send(request)
        self._settle()
        return [self._receive() for _ in requests]

    def _post(self, request: Any) -> None:
        """Sends a request whose answer says nothing but that it was done."""
        if self._unanswered == _IN_FLIGHT:
            self._settle()
        self._send(request)
        self._unanswered += 1

    def _settle(self) -> None:
        """Sends all requests, and reads the answers to those that were posted."""
        self._client.sockfile.flush()
        while self._unanswered:
            self._unanswered -= 1
            self._receive()

    def _send(self, request: Any) -> None:
        message = request.SerializeToString()
        file = self._client.sockfile
        file.write(_HEADER.pack(_PROTOCOL, len(message)))
        file.write(message)

    def _receive(self) -> bytes:
        status, error, value = self._client._receive_proto_message()
        if status != 0:
            raise RuntimeError(f"Spark's state server: {error}")
        received: bytes = value
        return received

    # --- requests ---------------------------------------------------------------------------------------------

    def _get_of(self, key: StateKey) -> Any:
        return self._map_call(getValue=self._messages.GetValue(userKey=self._key(key)))

    def _put_of(self, key: StateKey, text: str) -> Any:
        encoded = self._client._serialize_to_bytes(VALUE, (text,))
        return self._map_call(updateValue=self._messages.UpdateValue(userKey=self._key(key), value=encoded))

    def _map_call(self, **call: Any) -> Any:
        m = self._messages
        variable = m.StateVariableRequest(mapStateCall=m.MapStateCall(stateName=NAME, **call))
        return m.StateRequest(stateVariableRequest=variable)

    def _timer_call(self, **call: Any) -> Any:
        m = self._messages
        return m.StateRequest(
            statefulProcessorCall=m.StatefulProcessorCall(timerStateCall=m.TimerStateCallCommand(**call))
        )

    def _key(self, key: StateKey) -> bytes:
        encoded: bytes = self._client._serialize_to_bytes(KEY, key)
        return encoded


def _texts(entries: Sequence[tuple[StateKey, bytes]]) -> Iterator[tuple[StateKey, str]]:
    return zip((key for key, _ in entries), to_texts([value for _, value in entries]), strict=True)


def _values(texts: Sequence[str | None]) -> list[bytes | None]:
    values = iter(from_texts([text for text in texts if text is not None]))
    return [None if text is None else next(values) for text in texts]


# --- encoding of values: seven-bit text, compressed -----------------------------------------------------------
# Spark hands a binary value to Python as a text that it builds character by character, at 20 ns per byte; a text of
# ASCII takes a tenth of that. Seven bytes become eight characters.


_VALUES_HEADER = struct.Struct("<ii")
"""The length of the value, and its stored length: the same if it is not compressed."""

_CODEC = "lz4_raw"
_LEAST = 128
"""Shorter values are not compressed."""

_TOGETHER = 1 << 16
"""The number of bytes or characters to process at a time, unless a single value is longer."""

_BYTES, _CHARACTERS = 7, 8

_SPREAD = (
    (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
    (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
    (0x007F007F007F007F, 0x3F803F803F803F80, 1),
)
"""56 bits become two times 28, four times 14, eight times 7: the bits that remain, the bits to shift, and the distance.
"""

_Item = TypeVar("_Item", bytes, str)


def to_texts(values: Sequence[bytes]) -> Iterator[str]:
    """Bytes as strings in which Spark can store them, a few at a time; ``from_texts`` is the inverse."""
    for group in _groups(values):
        yield from _values_texts([_packed(value) for value in group])


def from_texts(texts: Sequence[str]) -> list[bytes]:
    """The bytes from which ``to_texts`` made these strings."""
    return [_unpacked(packed) for group in _groups(texts) for packed in _bytes(group)]


def _groups(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """Small ones go together, as a call of numpy costs what hundred bytes do; all of a group fits into the cache."""
    group: list[_Item] = []
    size = 0
    for item in items:
        if group and size + len(item) > _TOGETHER:
            yield group
            group, size = [], 0
        group.append(item)
        size += len(item)
    if group:
        yield group


def _values_texts(packed: Sequence[bytes]) -> list[str]:
    joined = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, _BYTES)
    words = np.zeros((len(joined), _CHARACTERS), np.uint8)
    words[:, :_BYTES] = joined
    _spread(words.view("<u8"))
    text = words.tobytes().decode("ascii")
    return [text[span] for span in _parts([len(value) // _BYTES * _CHARACTERS for value in packed])]


def _bytes(texts: Sequence[str]) -> list[memoryview]:
    words = np.frombuffer(bytearray("".join(texts), "ascii"), np.uint8).reshape(-1, _CHARACTERS)
    _gather(words.view("<u8"))
    joined = memoryview(words[:, :_BYTES].tobytes())
    return [joined[span] for span in _parts([len(text) // _CHARACTERS * _BYTES for text in texts])]


def _parts(lengths: Sequence[int]) -> list[slice]:
    return [slice(end - length, end) for length, end in zip(lengths, accumulate(lengths), strict=True)]


def _packed(value: bytes) -> bytes:
    kept: bytes = pa.compress(value, _CODEC, asbytes=True) if len(value) >= _LEAST else value
    if len(kept) >= len(value):
        kept = value
    return b"".join(
        (_VALUES_HEADER.pack(len(value), len(kept)), kept, bytes(-(_VALUES_HEADER.size + len(kept)) % _BYTES))
    )


def _unpacked(packed: memoryview) -> bytes:
    size, length = _VALUES_HEADER.unpack_from(packed)
    kept = packed[_VALUES_HEADER.size : _VALUES_HEADER.size + length]
    return bytes(kept) if length == size else pa.decompress(kept, size, _CODEC, asbytes=True)


def _spread(words: np.ndarray) -> None:
    for stays, moves, bits in _SPREAD:
        moved = words & moves
        moved <<= bits
        words &= stays
        words |= moved


def _gather(words: np.ndarray) -> None:
    for stays, moves, bits in reversed(_SPREAD):
        moved = words >> bits
        moved &= moves
        words &= stays
        words |= moved
