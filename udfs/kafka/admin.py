"""Clients that ask brokers of topics and groups, which end where somebody closes them, and never within a callback;
and which offset of a partition is asked for.

An AdminClient calls Python in a thread of librdkafka, with the answer to a request. Python may collect garbage there,
and an AdminClient that is garbage itself would end in its own thread, which librdkafka answers by ending the process.
So the process holds each of them: until it is closed, or a while after its owner is gone, or until Python ends.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import finalize

from sqlstream.udfs.kafka.tokens import LOG, with_tokens

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, OffsetSpec

_numbers = count()
_open: dict[int, AdminClient] = {}
_abandoned: deque[int] = deque()
"""Those whose owner is gone. They are closed when the next client is made, in the thread that makes it."""


def admin_of(owner: object | None, settings: Mapping[str, Any]) -> AdminClient:
    """A client that lives until ``close``, or as long as ``owner``, to which its callbacks must not refer; None: it is
    closed in any case. Raises KafkaException for wrong settings, which are those of librdkafka.
    """
    from confluent_kafka.admin import AdminClient  # an optional package

    while _abandoned:
        _end(_abandoned.popleft())
    made = AdminClient(with_tokens(settings), logger=LOG)
    number = next(_numbers)
    _open[number] = made
    if owner is not None:  # its end may be noticed in any thread, also in one of the client's
        finalize(owner, _abandoned.append, number).atexit = False
    made.poll(0)  # gives librdkafka its first token, where it logs in by one
    return made


def close(admin: AdminClient) -> None:
    """Ends a client, whose methods raise RuntimeError from now on. It may be closed already."""
    for number in [number for number, known in [*_open.items()] if known is admin]:
        _end(number)


def _end(number: int) -> None:
    admin = _open.pop(number, None)
    if admin is not None and hasattr(admin, "__exit__"):  # older versions end with the last reference
        admin.__exit__(None, None, None)


@atexit.register
def _end_all() -> None:
    """While Python is whole: later a client that answers finds no interpreter."""
    for number in [*_open]:
        _end(number)


# --- which offset of a partition is asked for -------------------------------------------------------------------


def earliest() -> OffsetSpec:
    """Returns the spec of the first offset that a partition has."""
    from confluent_kafka.admin import OffsetSpec  # an optional package

    return OffsetSpec.earliest()  # type: ignore[no-untyped-call, no-any-return]


def latest() -> OffsetSpec:
    """Returns the spec of the offset at which a partition ends."""
    from confluent_kafka.admin import OffsetSpec  # an optional package

    return OffsetSpec.latest()  # type: ignore[no-untyped-call, no-any-return]


def at_time(millis: int) -> OffsetSpec:
    """Returns the spec of the first offset whose message has a time, in ms since 1970, or a later one."""
    from confluent_kafka.admin import OffsetSpec  # an optional package

    return OffsetSpec.for_timestamp(millis)  # type: ignore[no-any-return]
