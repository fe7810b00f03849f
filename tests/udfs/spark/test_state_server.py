"""State through PySpark's public API, which remains where a version lacks what pipelining needs, and by its socket."""

from __future__ import annotations

from socket import socketpair
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.descriptor import FieldDescriptor
from pyspark.serializers import PickleSerializer
from pyspark.sql.streaming.proto.StateMessage_pb2 import StateRequest, StateResponse
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import IntegerType, StructField, StructType

from sqlstream.udfs.spark.state_server import entries_of, to_texts


class FakeState:
    def __init__(self):
        self.entries = {}
        self.asked = []

    def getValue(self, key):  # noqa: N802 - PySpark's name
        self.asked.append(key)
        return self.entries.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.entries[key] = value

    def removeKey(self, key):  # noqa: N802
        self.entries.pop(key, None)


class FakeHandle:
    def __init__(self):
        self.state = FakeState()
        self.timers = set()

    def registerTimer(self, time):  # noqa: N802
        self.timers.add(time)

    def deleteTimer(self, time):  # noqa: N802
        self.timers.remove(time)


def test_the_public_api_reads_and_writes_the_same_texts():
    handle = FakeHandle()
    entries = entries_of(cast(Any, handle), handle.state)
    entries.write([(("a", 1), b"x"), (("a", 2), b"y")], timer=70)
    assert handle.state.entries == dict(
        zip([("a", 1), ("a", 2)], [(text,) for text in to_texts([b"x", b"y"])], strict=True)
    )
    assert entries.get([("a", 2), ("b", 0)]) == [b"y", None]
    entries.write([], [("a", 1)], deleted_timer=70, timer=80)
    assert (set(handle.state.entries), handle.timers) == ({("a", 2)}, {80})


# --- answers that nobody waits for ------------------------------------------------------------------------------

KEY_GROUP = StructType([StructField("key_group", IntegerType())])


class StateServer(Thread):
    """Spark's state server at the other end of a local socket: the requests that it has answered so far, by name."""

    def __init__(self, refuses=None):
        super().__init__(daemon=True)
        ours, theirs = socketpair()
        self.port, self.answered, self.refuses = theirs, [], refuses
        self.client = object.__new__(StatefulProcessorApiClient)
        self.client.key_schema, self.client.pickleSer = KEY_GROUP, PickleSerializer()
        self.client.sockfile = ours.makefile("rwb")
        self.start()

    def run(self):
        file = self.port.makefile("rwb")
        while header := file.read(8):
            request = StateRequest.FromString(file.read(int.from_bytes(header[4:], "big")))
            name = self.kind_of(request)
            refused = name == self.refuses
            answer = StateResponse(statusCode=int(refused), errorMessage="no" if refused else "")
            content = answer.SerializeToString()
            self.answered.append(name)
            file.write(len(content).to_bytes(4, "big") + content)
            file.flush()

    @staticmethod
    def kind_of(message):
        while (inner := message.ListFields()) and inner[-1][0].type == FieldDescriptor.TYPE_MESSAGE:
            field, message = inner[-1]
        return field.name


def entries_over(server):
    handle: Any = SimpleNamespace(_statefulProcessorApiClient=server.client)
    return entries_of(handle, None)


def test_only_reads_wait_for_their_answers():
    server = StateServer()
    entries = entries_over(server)
    server.client.set_implicit_key((1,))
    entries.write([(("a", 1), b"x")], timer=70)
    server.client.set_implicit_key((2,))
    assert server.answered == [], "nothing has been sent"
    assert entries.get([("a", 1), ("a", 2)]) == [None, None]
    assert server.answered == ["setImplicitKey", "updateValue", "register", "setImplicitKey", "getValue", "getValue"]


def test_more_requests_than_a_socket_holds_answers_for_are_answered_in_between():
    server = StateServer()
    entries_over(server).write([(("a", number), b"x") for number in range(300)])
    assert len(server.answered) == 256


def test_an_error_among_answers_fails_the_next_request_of_pyspark():
    server = StateServer(refuses="updateValue")
    entries_over(server).write([(("a", 1), b"x")])
    with pytest.raises(RuntimeError, match="Spark's state server: no"):
        server.client.remove_implicit_key()
