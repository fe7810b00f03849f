"""librdkafka's C interface, as columns: messages are taken by the thousand, and no object of Python is made of them.

The package confluent-kafka brings the library, and itself makes an object of each message, which costs more than to
fetch it. Here ctypes calls functions of rdkafka.h, whose structures are public and have not changed since version 0.9.
NumPy reads the structures of messages where they are, and Arrow copies what they point to; then they are given back.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kafka.fetched import (
    AT_ONCE,
    FIELDS,
    Fetched,
    Notice,
    Slot,
    room_after,
    timestamp_types,
    timestamps,
)
from sqlstream.udfs.kafka.tokens import LOG

_OLDEST = 0x020100FF  # the first one with epochs of leaders
_POINTER, _TEXT, _INT, _LONG, _SIZE = (
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t,
)  # fmt: skip

_QUICK: Mapping[str, tuple[Any, ...]] = {
    "version": (ctypes.c_int,),
    "name": (_TEXT, _POINTER),
    "err2str": (_TEXT, ctypes.c_int),
    "last_error": (ctypes.c_int,),
    "error_code": (ctypes.c_int, _POINTER),
    "error_string": (_TEXT, _POINTER),
    "error_destroy": (None, _POINTER),
    "conf_new": (_POINTER,),
    "conf_set_log_cb": (None, _POINTER, _POINTER),
    "conf_set_error_cb": (None, _POINTER, _POINTER),
    "conf_destroy": (None, _POINTER),
    "topic_name": (_TEXT, _POINTER),
    "topic_partition_list_new": (_POINTER, ctypes.c_int),
    "topic_partition_list_add": (_POINTER, _POINTER, _TEXT, _INT),
    "topic_partition_list_set_offset": (ctypes.c_int, _POINTER, _TEXT, _INT, _LONG),
    "topic_partition_list_destroy": (None, _POINTER),
    "get_watermark_offsets": (ctypes.c_int, _POINTER, _TEXT, _INT, _POINTER, _POINTER),
    "message_errstr": (_TEXT, _POINTER),
    "message_timestamp": (_LONG, _POINTER, _POINTER),
    "message_leader_epoch": (_INT, _POINTER),
    "message_headers": (ctypes.c_int, _POINTER, _POINTER),
    "header_get_all": (ctypes.c_int, _POINTER, _SIZE, _POINTER, _POINTER, _POINTER),
    "message_destroy": (None, _POINTER),
}
"""Functions that wait for nothing, each with the types of its result and its arguments. They keep Python's lock."""

_SLOW: Mapping[str, tuple[Any, ...]] = {
    "conf_set": (ctypes.c_int, _POINTER, _TEXT, _TEXT, _POINTER, _SIZE),  # it may read files
    "new": (_POINTER, ctypes.c_int, _POINTER, _POINTER, _SIZE),
    "poll_set_consumer": (ctypes.c_int, _POINTER),
    "set_log_queue": (ctypes.c_int, _POINTER, _POINTER),
    "queue_get_consumer": (_POINTER, _POINTER),
    "queue_destroy": (None, _POINTER),
    "assign": (ctypes.c_int, _POINTER, _POINTER),
    "incremental_assign": (_POINTER, _POINTER, _POINTER),
    "incremental_unassign": (_POINTER, _POINTER, _POINTER),
    "query_watermark_offsets": (ctypes.c_int, _POINTER, _TEXT, _INT, _POINTER, _POINTER, ctypes.c_int),
    "consume_batch_queue": (ctypes.c_ssize_t, _POINTER, ctypes.c_int, _POINTER, _SIZE),
    "consumer_close": (ctypes.c_int, _POINTER),
    "destroy": (None, _POINTER),
}
"""Functions that wait for brokers or other threads, without Python's lock."""

_CONSUMER = 1  # RD_KAFKA_CONSUMER


class _Message(ctypes.Structure):
    """rd_kafka_message_t"""

    _fields_ = (
        ("err", ctypes.c_int), ("rkt", _POINTER), ("partition", _INT), ("payload", _POINTER), ("len", _SIZE),
        ("key", _POINTER), ("key_len", _SIZE), ("offset", _LONG), ("private", _POINTER),
    )  # fmt: skip


_MESSAGE = np.dtype(_Message)
_STEP = ctypes.alignment(_Message)


class Library:
    """Functions of librdkafka, without ``rd_kafka_`` before their names."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def __init__(self, path: str) -> None:
        """``path``: the library, or one that is linked to it. AttributeError where a function is missing."""
        for handle, functions in ((ctypes.PyDLL(path), _QUICK), (ctypes.CDLL(path), _SLOW)):
            for name, (result, *arguments) in functions.items():
                function = getattr(handle, f"rd_kafka_{name}")
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)


@cache
def library() -> Library | None:
    """The librdkafka that confluent-kafka uses; None where it cannot be called from here."""
    from confluent_kafka import cimpl  # an optional package

    try:
        found = Library(cimpl.__file__)
    except (OSError, AttributeError):
        return None
    return found if found.version() >= _OLDEST else None


class ColumnConsumer:
    """Gives messages as columns. ``settings``: those of librdkafka. ``fields``: which of FIELDS, without those of
    PLACES. KafkaException for wrong settings.
    """

    def __init__(self, library: Library, settings: Mapping[str, Any], fields: Sequence[str]) -> None:
        self._library = library
        self._fields = fields
        self._client = _client(library, settings)
        library.poll_set_consumer(self._client)
        library.set_log_queue(self._client, None)
        self._queue = library.queue_get_consumer(self._client)
        self._end = weakref.finalize(self, _end, library, self._client, self._queue)
        self._end.atexit = False  # threads of C end with the process
        self._pointers = np.zeros(AT_ONCE, np.uintp)
        self._room = AT_ONCE
        self.fetch({}, 0)  # gives librdkafka its first token, where it logs in by one

    def close(self) -> None:
        self._end()

    def assign(self, begins: Iterable[tuple[Slot, int]]) -> None:
        with self._listed(begins) as places:
            self._require(self._library.assign(self._client, places))

    def add(self, slot: Slot, begin: int) -> None:
        with self._listed([(slot, begin)]) as places:
            self._require_none(self._library.incremental_assign(self._client, places))

    def leave(self, slots: Iterable[Slot]) -> None:
        with self._listed((slot, 0) for slot in slots) as places:
            self._require_none(self._library.incremental_unassign(self._client, places))

    def bounds(self, slot: Slot, seconds: float) -> tuple[int, int] | None:
        self._require_open()
        low, high = ctypes.c_int64(), ctypes.c_int64()
        found = (ctypes.byref(low), ctypes.byref(high), int(seconds * 1000))
        self._require(self._library.query_watermark_offsets(self._client, slot[0].encode(), slot[1], *found))
        return low.value, high.value

    def known_end(self, slot: Slot) -> int:
        self._require_open()
        low, high = ctypes.c_int64(-1), ctypes.c_int64(-1)
        found = (ctypes.byref(low), ctypes.byref(high))
        self._library.get_watermark_offsets(self._client, slot[0].encode(), slot[1], *found)
        return high.value

    def fetch(self, slots: Mapping[Slot, int], seconds: float) -> Fetched:
        self._require_open()
        count = 0
        try:
            count = self._take(0, 1, seconds)
            count += self._take(1, self._room - 1, 0) if count and self._room > 1 else 0
            fetched = self._read(self._pointers[:count], slots)
            self._room = room_after(fetched, self._room)
            return fetched
        finally:
            deque(map(self._library.message_destroy, self._pointers[:count].tolist()), maxlen=0)

    def _take(self, at: int, most: int, seconds: float) -> int:
        """Takes messages, whose addresses follow those of ``at`` ones that were taken before."""
        place = self._pointers.ctypes.data + at * self._pointers.itemsize
        count = int(self._library.consume_batch_queue(self._queue, int(seconds * 1000), place, most))
        if count < 0:
            self._require(self._library.last_error())
        return max(count, 0)

    def _read(self, pointers: np.ndarray, slots: Mapping[Slot, int]) -> Fetched:
        messages, notices = _structures(pointers), []
        wrong = messages["err"] != 0
        if wrong.any():
            notices = [self._notice(*each) for each in zip(messages[wrong], pointers[wrong].tolist(), strict=True)]
            messages, pointers = messages[~wrong], pointers[~wrong]
        columns = {name: _COLUMNS[name](self._library, messages, pointers) for name in self._fields}
        return Fetched(columns, self._index(messages, slots), messages["offset"].copy(), notices)

    def _notice(self, message: Any, pointer: int) -> Notice:
        topic = self._topic(int(message["rkt"])) if message["rkt"] else ""
        reason = (self._library.message_errstr(pointer) or b"").decode(errors="replace")
        return Notice(int(message["err"]), (topic, int(message["partition"])), int(message["offset"]), reason)

    def _topic(self, pointer: int) -> str:
        return str(self._library.topic_name(pointer).decode())

    def _index(self, messages: np.ndarray, slots: Mapping[Slot, int]) -> np.ndarray:
        """The place of the partition of each message. Those of an answer of a broker follow each other."""
        if len(slots) == 1 or not len(messages):
            return np.zeros(len(messages), np.int64)
        topics, numbers = messages["rkt"], messages["partition"]
        begins = np.flatnonzero(np.append(True, (topics[1:] != topics[:-1]) | (numbers[1:] != numbers[:-1])))
        of_runs = topics[begins].tolist()
        names = {pointer: self._topic(pointer) for pointer in {*of_runs}}
        places = [slots[names[topic], n] for topic, n in zip(of_runs, numbers[begins].tolist(), strict=True)]
        return np.repeat(np.array(places, np.int64), np.diff(begins, append=len(messages)))

    @contextmanager
    def _listed(self, begins: Iterable[tuple[Slot, int]]) -> Iterator[int]:
        """Partitions and offsets, as librdkafka lists them."""
        self._require_open()
        listed = self._library.topic_partition_list_new(0)
        try:
            for (topic, number), begin in begins:
                self._library.topic_partition_list_add(listed, topic.encode(), number)
                self._library.topic_partition_list_set_offset(listed, topic.encode(), number, begin)
            yield listed
        finally:
            self._library.topic_partition_list_destroy(listed)

    def _require_open(self) -> None:
        if not self._end.alive:
            raise RuntimeError("the consumer is closed")

    def _require(self, code: int) -> None:
        if code:
            raise _exception(code, self._library.err2str(code))

    def _require_none(self, error: int | None) -> None:
        if error is not None:
            code, text = self._library.error_code(error), self._library.error_string(error)
            self._library.error_destroy(error)
            raise _exception(code, text)


def _exception(code: int, text: bytes) -> Exception:
    from confluent_kafka import KafkaError, KafkaException  # an optional package

    return KafkaException(KafkaError(code, text.decode(errors="replace")))


# --- a client, from its settings to its end ------------------------------------------------------------------------


def _client(library: Library, settings: Mapping[str, Any]) -> int:
    from confluent_kafka import KafkaError  # an optional package

    wrong = ctypes.create_string_buffer(512)
    given = library.conf_new()
    all_settings = {"debug": settings.get("debug"), **settings, "log.queue": True}  # debug: what is set is told, too
    for name, value in all_settings.items():
        text = str(value).lower() if isinstance(value, bool) else value
        if text is not None and library.conf_set(given, name.encode(), str(text).encode(), wrong, len(wrong)):
            library.conf_destroy(given)
            raise _exception(KafkaError._INVALID_ARG, wrong.value)
    library.conf_set_log_cb(given, _ON_LOG)
    library.conf_set_error_cb(given, _ON_ERROR)
    client = library.new(_CONSUMER, given, wrong, len(wrong))
    if client is None:
        library.conf_destroy(given)
        raise _exception(KafkaError._INVALID_ARG, b"Failed to create consumer: " + wrong.value)
    return int(client)


def _end(library: Library, client: int, queue: int) -> None:
    library.consumer_close(client)
    library.queue_destroy(queue)
    library.destroy(client)


_LEVELS = (
    logging.CRITICAL, logging.CRITICAL, logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.INFO,
    logging.DEBUG,
)  # fmt: skip
"""Levels of Python for those of syslog."""


def _log(client: int | None, level: int, facility: bytes, text: bytes) -> None:
    """Called by ``consume_batch_queue`` and when the client ends: the log has a queue, which the consumer's is."""
    found = library()
    name = found.name(client).decode(errors="replace") if client and found is not None else ""
    words = (facility.decode(errors="replace"), name, text.decode(errors="replace"))
    LOG.log(_LEVELS[level], "%s [%s] %s", *words)


def _ignore(client: int | None, code: int, reason: bytes, opaque: int | None) -> None:
    """Errors of connections, which librdkafka mends by itself and would write to the log without this."""


_ON_LOG = ctypes.CFUNCTYPE(None, _POINTER, ctypes.c_int, _TEXT, _TEXT)(_log)
_ON_ERROR = ctypes.CFUNCTYPE(None, _POINTER, ctypes.c_int, _TEXT, _POINTER)(_ignore)


# --- columns --------------------------------------------------------------------------------------------------------


class _Memory:
    """Structures of C that begin at each word from ``lowest`` on, or what would be one there, for NumPy."""

    def __init__(self, lowest: int, count: int) -> None:
        self.__array_interface__ = {
            "data": (lowest, True), "shape": (count,), "strides": (_STEP,), "typestr": f"|V{_MESSAGE.itemsize}",
            "version": 3,
        }  # fmt: skip


def _structures(pointers: np.ndarray) -> np.ndarray:
    """Copies of the messages at these addresses. No other memory is looked at."""
    if not len(pointers):
        return np.zeros(0, _MESSAGE)
    lowest = pointers.min()
    steps = ((pointers - lowest) // _STEP).astype(np.intp)
    found: np.ndarray = np.asarray(_Memory(int(lowest), int(steps.max()) + 1))[steps].view(_MESSAGE)
    return found


def _bytes(name: str, size: str) -> Callable[[Library, np.ndarray, np.ndarray], pa.Array]:
    """The column of what messages point to by ``name``."""

    def column(library: Library, messages: np.ndarray, pointers: np.ndarray) -> pa.Array:
        begins, sizes = messages[name].copy(), messages[size].astype(np.int64)
        missing = begins == 0
        if missing.all():
            return pa.nulls(len(messages), FIELDS["value"])
        if not missing.any() and sizes.min() > _MOST_IN_VIEW and _has_views():
            return _copied_by_views(begins, sizes)
        begins[missing] = begins.max()
        return _copied(begins, sizes, missing)

    return column


_MOST_IN_VIEW = 12
"""Bytes. Arrow's views hold shorter values themselves."""
_REGION = 30
"""Views point to places in regions of memory of so many bits."""


def _copied_by_views(begins: np.ndarray, sizes: np.ndarray) -> pa.Array:
    """The values at these addresses. A third of the time that ``_copied`` takes."""
    lowest = begins.min()
    regions, index = np.unique((begins - lowest) >> np.uint64(_REGION), return_inverse=True)
    views = np.zeros((len(begins), 4), np.int32)  # size, first bytes, region and place, of which casts need no bytes
    views[:, 0], views[:, 2] = sizes, index
    views[:, 3] = (begins - lowest) & np.uint64((1 << _REGION) - 1)
    memory = [pa.foreign_buffer(int(lowest) + (region << _REGION), 2 << _REGION) for region in regions.tolist()]
    views_of_memory = [None, pa.py_buffer(views), *memory]
    return pa.Array.from_buffers(pa.binary_view(), len(begins), views_of_memory).cast(FIELDS["value"])


@cache
def _has_views() -> bool:
    """Whether Arrow can make views of memory; it learned that after version 18."""
    value = np.frombuffer(b"a value that no view holds", np.uint8)
    place, size = np.array([value.ctypes.data], np.uint64), np.array([len(value)])
    try:
        return bool(_copied_by_views(place, size)[0].as_py() == value.tobytes())
    except (AttributeError, ValueError, pa.ArrowException):
        return False


_EVEN = np.arange(0, 2 * AT_ONCE, 2)


def _copied(begins: np.ndarray, sizes: np.ndarray, missing: np.ndarray) -> pa.Array:
    """The values at these addresses, of which some are ``missing``. They are elements of an array of the memory between
    them, in any order, whose other elements are not looked at.
    """
    lowest, count = begins.min(), len(begins)
    offsets = np.empty(2 * count + 1, np.int64)
    offsets[:-1:2] = begins - lowest
    offsets[1::2] = offsets[:-1:2] + sizes
    offsets[-1] = offsets[0] + 2 * sizes.sum()  # Arrow takes the half of this for the size of what is copied
    memory = pa.foreign_buffer(int(lowest), int(offsets.max()))
    elements = pa.Array.from_buffers(pa.large_binary(), 2 * count, [None, pa.py_buffer(offsets), memory])
    return elements.take(pa.array(_EVEN[:count], mask=missing)).cast(FIELDS["value"])


def _times(library: Library, pointers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Type and time of each message, in milliseconds since 1970."""
    types = np.zeros(len(pointers), np.int32)
    places = range(types.ctypes.data, types.ctypes.data + types.nbytes, types.itemsize)
    millis = np.fromiter(map(library.message_timestamp, pointers.tolist(), places), np.int64, len(pointers))
    return types, millis


def _timestamps(library: Library, messages: np.ndarray, pointers: np.ndarray) -> pa.Array:
    return timestamps(*_times(library, pointers))


def _timestamp_types(library: Library, messages: np.ndarray, pointers: np.ndarray) -> pa.Array:
    return timestamp_types(_times(library, pointers)[0])


def _leader_epochs(library: Library, messages: np.ndarray, pointers: np.ndarray) -> pa.Array:
    epochs = np.fromiter(map(library.message_leader_epoch, pointers.tolist()), np.int32, len(pointers))
    return pa.array(epochs, mask=epochs < 0)


def _headers(library: Library, messages: np.ndarray, pointers: np.ndarray) -> pa.Array:
    return pa.array([_headers_of(library, pointer) for pointer in pointers.tolist()], FIELDS["headers"])


def _headers_of(library: Library, pointer: int) -> list[dict[str, Any]] | None:
    headers = ctypes.c_void_p()
    if library.message_headers(pointer, ctypes.byref(headers)):
        return None  # it has none
    key, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
    given: list[dict[str, Any]] = []
    while not library.header_get_all(headers, len(given), *map(ctypes.byref, (key, value, size))):
        content = None if value.value is None else ctypes.string_at(value.value, size.value)
        given.append({"key": (key.value or b"").decode(), "value": content})
    return given


_COLUMNS: Mapping[str, Callable[[Library, np.ndarray, np.ndarray], pa.Array]] = {
    "key": _bytes("key", "key_len"),
    "value": _bytes("payload", "len"),
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
    "leaderEpoch": _leader_epochs,
}
