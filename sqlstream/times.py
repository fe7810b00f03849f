"""Times as people read them, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(time: datetime) -> str:
    """A time to the second, as ``2026-11-25 12:00:00``."""
    return f"{time:%Y-%m-%d %H:%M:%S}"


def exact_text(ms: int) -> str:
    """Milliseconds since 1970, with those of the second where there are some."""
    return watermark_text(ms) + (f".{ms % 1000:03}" if ms % 1000 else "")


def watermark_text(watermark_ms: int | None) -> str:
    """A watermark, or words where it is no time."""
    if watermark_ms is None:
        return "none yet"
    try:
        return time_text(_EPOCH + timedelta(milliseconds=watermark_ms))
    except OverflowError:
        return "beyond year 9999"


def moment(seconds: float) -> datetime:
    """A time in seconds since 1970 as a ``datetime`` in UTC."""
    return datetime.fromtimestamp(seconds, UTC)
