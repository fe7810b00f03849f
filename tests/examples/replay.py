"""How much of the year of departures tests replay: a quarter, or all of it where they go deep."""

from __future__ import annotations

from examples.flights.prepare import WEEKS
from tests.depth import depth

REPLAYED_WEEKS = depth(13, WEEKS)
FILES_AT_A_TIME = f"'{depth(5, 20)}'"
"""For ``source.max-files-per-trigger``: three micro-batches."""
