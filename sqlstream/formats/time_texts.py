"""Dates, times and intervals in texts.

Dates and times are ISO 8601 in the proleptic Gregorian calendar, as in Flink and Spark, with the years -30000 to 29999.
Numbers are no times: what they count is a matter of the format. Digits below a microsecond are cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.text_rule import TextRule, bytes_of, offsets_of, trimmed, where

_DATE = "(?P<sign>[+-]?)(?P<year>[0-9]{4,5})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_FRACTION = r"(?:\.(?P<fraction>[0-9]{1,9}))?"
_CLOCK = rf"(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-9]{{1,2}})(?::(?P<second>[0-9]{{1,2}}){_FRACTION})?"
_TWO = "(?P<{}>[0-9]{{2}})".format
_STRICT_DATE = f"(?P<sign>[+-]?)(?P<year>[0-9]{{4,5}})-{_TWO('month')}-{_TWO('day')}"
_SQL = f"{_STRICT_DATE} {_TWO('hour')}:{_TWO('minute')}:{_TWO('second')}{_FRACTION}"
_ISO = f"{_STRICT_DATE}T{_TWO('hour')}:{_TWO('minute')}(?::{_TWO('second')}{_FRACTION})?"
_ANY = _DATE + r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})" + _FRACTION + ")?)?)?"
_STANDARDS = {None: _ANY, "SQL": _SQL, "ISO-8601": _ISO}
_PLAIN_DATE = (
    "[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_PLAIN_TIME = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]" + r"(?:\.[0-9]{1,6})?"
_PLAIN_OFFSET = "(?:Z|[+-][01][0-9]:[0-5][0-9])"
_HAS_OFFSET = re.compile(r":.*(Z|[+-]\d\d(:?\d\d)?)$")
_ZONE = "(?: *(?P<zone>Z|[+-][0-9]{1,2}(?::?[0-9]{2})?|[A-Za-z][A-Za-z0-9_+/-]{1,40}))?"
_OFFSET = "^(?P<sign>[+-])(?P<hour>[0-9]{1,2}):?(?P<minute>[0-9]{2})?$"
_INTERVAL = (
    r"(?i)^(?:INTERVAL *')?(?P<sign>[+-]?)(?P<days>[0-9]{1,9}) (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):"
    r"(?P<second>[0-9]{1,2})" + _FRACTION + r"(?:' *DAY TO SECOND)?$"
)
_MILLISECONDS = "^[+-]?[0-9]{1,15}$"
_MARKS = {"SQL": {10: " ", 13: ":", 16: ":"}, "ISO-8601": {10: "T", 13: ":"}}
"""What stands where in a timestamp of a standard that Arrow reads."""
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z"})
_DAY = 86_400_000_000
_MOST_DAYS = (1 << 63) // _DAY - 1


class DateRule(TextRule):
    """Parses DATE: year, month and day, such as ``2024-01-31``."""

    def cast(self, texts: pa.Array) -> pa.Array:
        return texts.cast(pa.date32())

    def plain(self) -> Sequence[str]:
        return (f"^{_PLAIN_DATE}$",)

    def each(self, texts: pa.Array) -> pa.Array:
        days, fits = _days(pc.extract_regex(trimmed(texts), f"^{_DATE}$"))
        return _array(days.astype(np.int32), fits, pa.date32())


class TimeRule(TextRule):
    """Parses TIME: hour, minute and optional seconds, such as ``12:30:00.5``."""

    def whole(self, texts: pa.Array) -> pa.Array:
        lengths = pc.binary_length(texts)
        if (pc.min(lengths).as_py() or 0) < 5 and texts.null_count < len(texts):
            raise pa.ArrowInvalid("Arrow reads 12 as 12:00")
        return self.cast(texts)

    def cast(self, texts: pa.Array) -> pa.Array:
        moments = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us"))
        return moments.cast(pa.time64("us")).cast(pa.time64("ns"))

    def plain(self) -> Sequence[str]:
        return (f"^{_PLAIN_TIME}$",)

    def each(self, texts: pa.Array) -> pa.Array:
        micros, fits = _clock(pc.extract_regex(trimmed(texts), f"^{_CLOCK}$"))
        return _array(micros * 1000, fits, pa.time64("ns"))


class TimestampRule(TextRule):
    """Parses TIMESTAMP_NTZ: a date and an optional time of day, midnight if absent. A text with a UTC offset is not
    valid.
    """

    _places = ""
    _plain_places: ClassVar[tuple[str, ...]] = ("",)

    def whole(self, texts: pa.Array) -> pa.Array:
        if self.standard is not None:
            _require(texts, _MARKS[self.standard])
        try:
            return self.cast(texts)
        except pa.ArrowInvalid:
            if (pc.min(pc.binary_length(texts)).as_py() or 0) < len("2024-01-31 12:30:00.1234567"):
                raise
            return self.cast(pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]{1,3}\b", r"\1"))

    def plain(self) -> Sequence[str]:
        separator = {"SQL": " ", "ISO-8601": "T"}.get(self.standard or "", "[ T]")
        local = f"^{_PLAIN_DATE}{separator}{_PLAIN_TIME}"
        return tuple(f"{local}{place}$" for place in self._plain_places)

    def cast(self, texts: pa.Array) -> pa.Array:
        return texts.cast(pa.timestamp("us"))

    def each(self, texts: pa.Array) -> pa.Array:
        spelled = pc.extract_regex(trimmed(texts), f"^{_STANDARDS[self.standard]}{self._places}$")
        days, is_date = _days(spelled)
        micros, is_time = _clock(spelled)
        local = _array(days * _DAY + micros, is_date & is_time, pa.timestamp("us"))
        return self._placed(local, spelled)

    def _placed(self, local: pa.Array, spelled: pa.StructArray) -> pa.Array:
        return local


class InstantRule(TimestampRule):
    """Parses TIMESTAMP: as TIMESTAMP_NTZ, with an optional UTC offset or zone name; otherwise in the session's time
    zone.

    When clocks are set back, an ambiguous time is the earlier instant. A time that is skipped when clocks are set
    forward is moved forward by the size of the gap (``LocalDateTime.atZone``, as Spark casts).
    """

    _places = _ZONE
    _plain_places: ClassVar[tuple[str, ...]] = ("", _PLAIN_OFFSET)

    def cast(self, texts: pa.Array) -> pa.Array:
        """Casts all texts with Arrow's cast, which needs either all with a UTC offset or all without one. The first
        text decides which of both is tried; raises ArrowInvalid if another text differs.
        """
        first = pc.index(pc.is_valid(texts), True).as_py()
        if first >= 0 and _HAS_OFFSET.search(texts[first].as_py()):
            return texts.cast(self.kind.to_arrow())
        return instants(super().cast(texts), self.zone)

    def _placed(self, local: pa.Array, spelled: pa.StructArray) -> pa.Array:
        encoded = pc.struct_field(spelled, "zone").dictionary_encode()
        place = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        moments = pa.nulls(len(local), self.kind.to_arrow())
        for number, zone in enumerate(encoded.dictionary.to_pylist()):
            here = pa.array(place == number)
            moments = pc.replace_with_mask(moments, here, self._at(local.filter(here), zone))
        return moments

    def _at(self, local: pa.Array, place: str) -> pa.Array:
        """Local times at an offset or in a zone, NULL where there is none of the name; no name is the session's."""
        offset = pc.extract_regex(pa.array([place]), _OFFSET)
        if offset.null_count == 0:
            micros, fits = _clock(offset)
            shift = int(micros[0]) * (-1 if place.startswith("-") else 1)
            moved = pc.subtract(local.cast(pa.int64()), shift)
            return where(np.full(len(local), bool(fits[0])), moved).cast(self.kind.to_arrow())
        if place and place not in available_timezones():
            return _in_utc(local) if place in _UTC else pa.nulls(len(local), self.kind.to_arrow())
        return instants(local, place or self.zone)


class IntervalRule(TextRule):
    """Parses INTERVAL DAY TO SECOND: Spark's spelling, with or without ``INTERVAL '…' DAY TO SECOND`` around it, or
    Flink's number of milliseconds.
    """

    def cast(self, texts: pa.Array) -> pa.Array:
        return self.each(texts)

    def each(self, texts: pa.Array) -> pa.Array:
        spelled = trimmed(texts)
        parts = pc.extract_regex(spelled, _INTERVAL)
        days, (micros, fits) = _whole(parts, "days"), _clock(parts)
        fits &= days < _MOST_DAYS
        amounts = np.where(fits, days, 0) * _DAY + micros
        negative = pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
        counted = where(pc.match_substring_regex(spelled, _MILLISECONDS), pc.utf8_ltrim(spelled, "+"))
        in_millis = pc.multiply(counted.cast(pa.int64()), 1000).cast(pa.duration("us"))
        return pc.coalesce(_array(np.where(negative, -amounts, amounts), fits, pa.duration("us")), in_millis)


def in_micros(values: pa.Array) -> pa.Array:
    """Timestamps as BIGINT microseconds."""
    return values.cast(pa.timestamp("us")).view(pa.int64())


def instants(local: pa.Array, zone: str) -> pa.Array:
    """Converts local times of the zone into TIMESTAMP values, which are in UTC. Raises ArrowInvalid for an unknown
    zone.
    """
    return _in_utc(local) if zone in _UTC else in_known_years(local, lambda times: _in_zone(times, zone))


def clock_times(times: pa.Array, zone: str) -> pa.Array:
    """Converts TIMESTAMP values into the local times that a clock of the zone shows, which have no zone. Raises
    ArrowInvalid for an unknown zone.
    """
    local = times.cast(pa.timestamp("us"))
    if zone in _UTC:
        return local
    return in_known_years(local, lambda known: pc.local_timestamp(_in_utc(known).cast(pa.timestamp("us", zone))))


def in_known_years(times: pa.Array, converted: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Arrow knows the clock changes only up to 2037, so a later year is converted like an earlier year with the same
    calendar.
    """
    latest = pc.max(times).cast(pa.int64()).as_py() if len(times) else None
    if latest is None or latest < _AFTER_2037:
        return converted(times)
    back = np.where(_micros(times) >= _AFTER_2037, _days_back(times) * _DAY, 0)
    moved = converted(pc.subtract(times.cast(pa.int64()), back).cast(pa.timestamp("us")))
    return pc.add(moved.cast(pa.int64()), back).cast(moved.type)


def _days_back(local: pa.Array) -> np.ndarray:
    """Days between each time and the same time of a year from 2010 to 2037 that has the same calendar."""
    years = (_micros(local) // _DAY).astype("M8[D]").astype("M8[Y]")
    starts, ends = years.astype("M8[D]").astype(np.int64), (years + 1).astype("M8[D]").astype(np.int64)
    days: np.ndarray = starts - _YEARS_LIKE[ends - starts - 365, starts % 7]
    return days


def _years_like() -> np.ndarray:
    """The first day of a year from 2010 to 2037, by whether it is a leap year and by the weekday of that day."""
    starts = np.arange("2010", "2039", dtype="M8[Y]").astype("M8[D]").astype(np.int64)
    table = np.zeros((2, 7), np.int64)
    table[np.diff(starts) - 365, starts[:-1] % 7] = starts[:-1]
    return table


def _micros(local: pa.Array) -> np.ndarray:
    numbers: np.ndarray = local.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _in_zone(local: pa.Array, zone: str) -> pa.Array:
    try:
        return _in_utc(pc.assume_timezone(local, zone, ambiguous="earliest"))
    except pa.ArrowInvalid:
        after = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    before = pc.add(after, pa.scalar(-1, pa.duration("us")))
    is_left_out = pc.not_equal(pc.local_timestamp(after), local)
    offset = pc.subtract(pc.local_timestamp(before).cast(pa.int64()), before.cast(pa.int64()))
    moved = pc.subtract(local.cast(pa.int64()), offset).cast(pa.timestamp("us", "UTC"))
    return pc.if_else(is_left_out, moved, _in_utc(after))


def _in_utc(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("us", "UTC"))


def _require(texts: pa.Array, marks: Mapping[int, str]) -> None:
    """ArrowInvalid where one of the texts has another character at one of the places."""
    starts = offsets_of(texts)[:-1][pc.is_valid(texts).to_numpy(zero_copy_only=False)]
    data = np.append(bytes_of(texts), np.zeros(max(marks) + 1, np.uint8))
    if any((data[starts + place] != ord(mark)).any() for place, mark in marks.items()):
        raise pa.ArrowInvalid("another spelling of a timestamp")


def _whole(parts: pa.StructArray, name: str) -> np.ndarray:
    """Digits of a group as int64; 0 where there are none."""
    texts = pc.struct_field(parts, name)
    numbers: np.ndarray = (
        pc.if_else(pc.equal(texts, ""), "0", texts).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    )
    return numbers


def _days(parts: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970-01-01, and which are days of the calendar."""
    negative = pc.equal(pc.struct_field(parts, "sign"), "-").fill_null(False).to_numpy(zero_copy_only=False)
    years, month, day = _whole(parts, "year"), _whole(parts, "month"), _whole(parts, "day")
    years = np.where(negative, -years, years)
    fits = pc.is_valid(parts).to_numpy(zero_copy_only=False) & (years >= -30_000) & (years < 30_000)
    months = ((np.where(fits, years, 1970) - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    fits &= (month >= 1) & (month <= 12) & (day >= 1) & (days.astype("M8[M]") == months)
    return days.astype(np.int64), fits


def _clock(parts: pa.StructArray) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds since midnight, and which are times of a day."""
    names = [parts.type.field(i).name for i in range(parts.type.num_fields)]
    hour, minute = _whole(parts, "hour"), _whole(parts, "minute")
    second = _whole(parts, "second") if "second" in names else np.zeros(len(parts), np.int64)
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000
    if "fraction" in names:
        digits = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(parts, "fraction"), 6, "0"), 0, 6)
        micros += digits.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    fits = pc.is_valid(parts).to_numpy(zero_copy_only=False) & (hour < 24) & (minute < 60) & (second < 60)
    return micros, fits


def _array(numbers: np.ndarray, fits: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.array(numbers, mask=~fits).view(kind)


_AFTER_2037 = int(np.datetime64("2038-01-01", "us").astype(np.int64))
_YEARS_LIKE = _years_like()
