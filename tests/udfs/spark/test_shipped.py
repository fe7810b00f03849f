"""What travels to Spark's Python processes, and when Spark gets to know of a task's state."""

from __future__ import annotations

import io
import pickle
from typing import Any, cast

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState

from sqlstream.udfs.spark.shipped import ShippedProcessor
from sqlstream.udfs.spark.state_server import NAME


class FakeTask:
    """A handle that knows how far its task is, and what is declared at which point of it."""

    def __init__(self, state):
        self._statefulProcessorApiClient = self
        self.handle_state = state
        self.declared = []

    def set_handle_state(self, state):
        self.handle_state = state

    def getMapState(self, name, key, value):  # noqa: N802
        self.declared.append((name, self.handle_state))


class Begun:
    """In place of a ``KernelProcessor``."""

    def begin(self, entries):
        self.entries = entries

    def rows(self, rows, timers):
        return iter(())


def test_a_task_declares_its_state_with_its_first_rows():
    states = StatefulProcessorHandleState
    task = FakeTask(states.CREATED)
    processor = ShippedProcessor(cast(Any, Begun()))
    processor.init(cast(Any, task))
    assert task.declared == []
    task.set_handle_state(states.INITIALIZED)
    for _ in range(2):
        processor.handleInputRows(("k",), iter(()), cast(Any, None))
    assert task.declared == [(NAME, states.CREATED)], "Spark takes it in no other state"
    assert task.handle_state is states.INITIALIZED


@pytest.mark.parametrize("state", [StatefulProcessorHandleState.PRE_INIT, None])
def test_state_is_declared_at_once_where_spark_asks_for_it_or_does_not_say_how_far_it_is(state):
    task = FakeTask(state)
    ShippedProcessor(cast(Any, Begun())).init(cast(Any, task))
    assert task.declared == [(NAME, state)]


class WithoutThePackage(pickle.Unpickler):
    """As the process that Spark asks for the names of state on a server that has no sqlstream."""

    def find_class(self, module, name):
        assert not module.startswith("sqlstream"), f"{module}.{name}"
        return super().find_class(module, name)


def test_state_is_declared_where_the_package_is_not_installed():
    sent = cloudpickle.dumps(ShippedProcessor(cast(Any, Begun())))
    arrived = WithoutThePackage(io.BytesIO(sent)).load()
    task = FakeTask(StatefulProcessorHandleState.PRE_INIT)
    arrived.init(task)
    assert task.declared == [(NAME, StatefulProcessorHandleState.PRE_INIT)]
