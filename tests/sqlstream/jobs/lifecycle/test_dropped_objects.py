"""Java objects that Python has dropped are given free while a job runs, not with a collection that seldom comes."""

from __future__ import annotations

import gc
import time
import weakref

import pytest
from py4j.java_gateway import GatewayClient, GatewayProperty, JavaObject

from sqlstream.jobs.lifecycle.running_query import DroppedObjects


def used_object() -> weakref.ref[JavaObject]:
    """To a Java object on which a method was looked up, and which nobody has any more."""
    client = GatewayClient(gateway_property=GatewayProperty(False, None))
    client.converters = []
    dropped = JavaObject("o1", client)
    _ = dropped.someMethod
    return weakref.ref(dropped)


@pytest.mark.parametrize(
    ("batches", "seconds", "enabled", "freed"),
    [(10, 20, True, True), (9, 20, True, False), (10, 19, True, False), (10, 20, False, False)],
)
def test_objects_are_freed_after_micro_batches(
    batches: int, seconds: int, enabled: bool, freed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    gc.collect()
    gc.disable()
    try:
        dropped, objects = DroppedObjects(), used_object()
        before = objects() is None
        monkeypatch.setattr("gc.isenabled", lambda: enabled)
        monkeypatch.setattr("sqlstream.jobs.lifecycle.running_query.time.monotonic", lambda: now + seconds + 1)
        monkeypatch.setattr(dropped, "_last", now + 1)
        dropped.free_after(batches - 1)
        dropped.free_after(1)
        after = objects() is None
    finally:
        monkeypatch.undo()
        gc.enable()
        gc.collect()
    assert not before, "py4j frees its objects itself: this is needed no more"
    assert after == freed
