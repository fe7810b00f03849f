"""The departures of a quarter, of the whole year where tests go deep, prepared once for all examples."""

from __future__ import annotations

import pytest

from examples.flights.prepare import departures, read_flights, write_stream
from tests.examples.replay import REPLAYED_WEEKS


@pytest.fixture(scope="session")
def flights():
    return read_flights()


@pytest.fixture(scope="session")
def left(flights):
    return departures(flights, REPLAYED_WEEKS)


@pytest.fixture(scope="session")
def folder(left, tmp_path_factory):
    """With the weekly files in ``departures``."""
    folder = tmp_path_factory.mktemp("flights")
    write_stream(left, folder / "departures")
    return folder
