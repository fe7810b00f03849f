"""Instants and the clock on the wall of a time zone, for windows that begin at its midnights and full hours.

Flink's rule decides where clocks change. An hour that the clock shows twice is one window, which closes after the
second one; a bound that the clock skips is the instant of the skip.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.assigners.assigner import Times


def to_wall(instants: Times, zone: str | None) -> Times:
    """The time that a clock in ``zone`` shows, in microseconds since 1970 on that clock. A zone of None is UTC."""
    if zone is None:
        return instants
    shown = pc.local_timestamp(pa.array(instants).cast(pa.timestamp("us", zone)))
    return _micros(shown)


def start_of(wall: Times, zone: str | None) -> Times:
    """The first instant at which the clock shows ``wall`` or has skipped it."""
    # Of the two instants around a skip Arrow's "latest" is the one after it, Flink's choice.
    return wall if zone is None else _instants(wall, zone, "earliest", "latest")


def end_of(wall: Times, zone: str | None) -> Times:
    """The first instant after which the clock never shows less than ``wall`` again."""
    return wall if zone is None else _instants(wall - 1, zone, "latest", "earliest") + 1


def _instants(wall: Times, zone: str, ambiguous: str, nonexistent: str) -> Times:
    shown = pa.array(wall).cast(pa.timestamp("us"))
    return _micros(pc.assume_timezone(shown, zone, ambiguous=ambiguous, nonexistent=nonexistent))


def _micros(instants: pa.Array) -> Times:
    return np.asarray(instants.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
