"""The last hour of a job's metrics, in memory: every ten seconds a value of each series, and never more than an hour.

The values are those of the registry (``telemetry.instruments``), so a new metric has a chart without more.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

from sqlstream.telemetry.figures import JobFigures
from sqlstream.telemetry.instruments import JOB_INSTRUMENTS, Distribution, Instrument, Kind, Sample

STEP_S, SPAN_S = 10.0, 3600.0
MOST_POINTS = int(SPAN_S / STEP_S) + 1
MOST_SERIES = 200
"""A job of hundreds of operators must not fill the memory of its page; what comes later has no chart."""

GAP_S = 3 * STEP_S
"""Points farther apart than this are not connected: nobody looked in between."""


@dataclass(frozen=True)
class Line:
    """A line of a chart. ``segments``: points of time, in seconds since 1970, and value; between segments there is a
    gap.
    """

    name: str
    segments: tuple[tuple[tuple[float, float], ...], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.segments[-1][-1][1]

    @property
    def end(self) -> float:
        """The time of the newest value."""
        return self.segments[-1][-1][0]

    @property
    def greatest(self) -> float:
        """The greatest value."""
        return max(value for segment in self.segments for _, value in segment)

    @property
    def least(self) -> float:
        """The least value."""
        return min(value for segment in self.segments for _, value in segment)


@dataclass
class _Series:
    """The values of one series. Of a distribution ``weights`` are the counts, and ``values`` the totals."""

    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    weights: array[float] = field(default_factory=lambda: array("d"))

    def add(self, time: float, value: float, weight: float) -> None:
        for numbers, number in ((self.times, time), (self.values, value), (self.weights, weight)):
            numbers.append(number)
            del numbers[:-MOST_POINTS]

    def points(self, kind: Kind) -> Iterator[tuple[float, float]]:
        """What a chart shows: values of a gauge, a counter's rate per second, the mean of what a histogram counted."""
        if kind is Kind.GAUGE:
            yield from zip(self.times, self.values, strict=True)
            return
        for i in range(1, len(self.times)):
            seconds = self.times[i] - self.times[i - 1]
            value = _growth(self.values[i - 1], self.values[i])
            if kind is Kind.COUNTER and seconds > 0:
                yield self.times[i], value / seconds
            elif kind is Kind.HISTOGRAM and (weight := _growth(self.weights[i - 1], self.weights[i])):
                yield self.times[i], value / weight


def _growth(before: float, now: float) -> float:
    """By how much a total has grown; after a new start of the job it begins at 0."""
    return now - before if now >= before else now


class MetricsHistory:
    """The last hour of one job. One thread adds, others read."""

    def __init__(self) -> None:
        self._series: dict[str, dict[tuple[str, ...], _Series]] = {}
        self._count = 0
        self._last: float | None = None
        self._lock = Lock()

    def add(self, figures: JobFigures, now: float) -> None:
        """Add the values of all metrics of a running job, unless the last ones are less than ten seconds old. ``now``:
        in seconds since 1970.
        """
        if self._last is not None and 0 <= now - self._last < STEP_S:
            return
        self._last = now
        with self._lock:
            for instrument in JOB_INSTRUMENTS:
                for sample in instrument.read(figures, now):
                    self._add(instrument.name, sample, now)

    def _add(self, name: str, sample: Sample, now: float) -> None:
        value = sample.value
        if isinstance(value, Distribution) and value.total is None:
            return  # without a total there is no mean
        by_attributes = self._series.setdefault(name, {})
        series = by_attributes.get(sample.attributes)
        if series is None:
            if self._count >= MOST_SERIES:
                return
            series = by_attributes[sample.attributes] = _Series()
            self._count += 1
        if isinstance(value, Distribution):
            series.add(now, value.total or 0.0, float(sum(value.counts)))
        else:
            series.add(now, float(value), 0.0)

    def lines(self, instrument: Instrument[JobFigures], now: float) -> tuple[Line, ...]:
        """The lines of a metric's chart, one for each combination of its attributes; empty before there are two values
        to compare.
        """
        with self._lock:
            lines = [
                Line(", ".join(attributes), _segments(series.points(instrument.kind), now - SPAN_S))
                for attributes, series in self._series.get(instrument.name, {}).items()
            ]
        return tuple(line for line in lines if line.segments)


def _segments(points: Iterator[tuple[float, float]], since: float) -> tuple[tuple[tuple[float, float], ...], ...]:
    segments: list[list[tuple[float, float]]] = []
    for time, value in points:
        if time < since:
            continue
        if not segments or time - segments[-1][-1][0] > GAP_S:
            segments.append([])
        segments[-1].append((time, value))
    return tuple(map(tuple, segments))
