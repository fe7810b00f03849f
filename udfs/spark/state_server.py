"""Entries of a map state, many in one exchange with Spark's state server.

The server answers requests of a socket one by one and in order, so many can be sent before the first answer is read.
PySpark's public API waits for each answer instead, which costs five times as much; it is what remains where a
version of PySpark does not have the methods that pipelining needs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sqlstream.udfs.spark.internals import state_client, state_messages
from sqlstream.udfs.spark.values import from_texts, to_texts

if TYPE_CHECKING:
    from sqlstream.udfs.kernel import StateKey

KEY = StructType([StructField("name", StringType(), False), StructField("number", LongType(), False)])
VALUE = StructType([StructField("text", StringType(), False)])
NAME = "kernel"

_IN_FLIGHT = 128
"""Requests sent before answers are read: their answers fit the buffer of a socket, so that neither side waits forever.
An answer takes 768 bytes of the 208 KiB that a local socket of Linux has, however short it is."""

_PROTOCOL = 0
_HEADER = struct.Struct("!ii")
"""The version of the protocol and the length of the message."""


class Entries(Protocol):
    """The entries of the key that Spark has set, and its timers, in Spark's milliseconds."""

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]: ...

    def write(
        self,
        entries: Sequence[tuple[StateKey, bytes]],
        removed: Sequence[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None: ...


def entries_of(handle: StatefulProcessorHandle, state: Any) -> Entries:
    """``state`` is the map state ``NAME`` of ``KEY`` and ``VALUE``."""
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
    def __init__(self, client: Any) -> None:
        self._client = client
        self._messages = state_messages()

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        rows = self._ask([self._get_of(key) for key in keys])
        return _values([self._client._deserialize_from_bytes(row)[0] if row else None for row in rows])

    def write(
        self,
        entries: Sequence[tuple[StateKey, bytes]],
        removed: Sequence[StateKey] = (),
        deleted_timer: int | None = None,
        timer: int | None = None,
    ) -> None:
        m = self._messages
        requests = [self._put_of(key, text) for key, text in _texts(entries)]
        requests += [self._map_call(removeKey=m.RemoveKey(userKey=self._key(key))) for key in removed]
        if deleted_timer is not None:
            requests.append(self._timer_call(delete=m.DeleteTimer(expiryTimestampMs=deleted_timer)))
        if timer is not None:
            requests.append(self._timer_call(register=m.RegisterTimer(expiryTimestampMs=timer)))
        self._ask(requests)

    def _ask(self, requests: Sequence[Any]) -> list[bytes]:
        answers: list[bytes] = []
        for start in range(0, len(requests), _IN_FLIGHT):
            window = requests[start : start + _IN_FLIGHT]
            self._send(window)
            answers += [self._receive() for _ in window]
        return answers

    def _send(self, requests: Sequence[Any]) -> None:
        file = self._client.sockfile
        for request in requests:
            message = request.SerializeToString()
            file.write(_HEADER.pack(_PROTOCOL, len(message)))
            file.write(message)
        file.flush()

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
