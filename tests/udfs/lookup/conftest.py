from __future__ import annotations

import pytest

from sqlstream.udfs.lookup import deferred, operator
from sqlstream.udfs.lookup.asking import Worker
from tests.udfs.lookup.scripted import VirtualLoop


@pytest.fixture
def virtual_worker(monkeypatch):
    """The worker of the process, with a loop whose time passes at once."""
    yield from _worker(monkeypatch, Worker(VirtualLoop))


@pytest.fixture
def still_worker(monkeypatch):
    """The worker of the process, with a loop whose clock stands still."""
    yield from _worker(monkeypatch, Worker(lambda: VirtualLoop(jumps=False)))


def _worker(monkeypatch, actual):
    for module in (operator, deferred):
        monkeypatch.setattr(module, "worker", lambda: actual)
    yield actual
    actual.close()
