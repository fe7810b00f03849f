"""Memory that Spark and its Python processes keep once they have it.

A micro-batch asks for buffers of megabytes and frees them, thousands of times. As the C library gives such memory back
to the system at once, the system clears new pages for each of them, which took up to a third of the time of tasks. The
JVM gets its heap in pages of 2 MB for the same reason.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that glibc takes: larger ones go back when they are freed
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""What glibc reads as a process starts, in bytes; other libraries do not look at it."""

_HUGE_PAGES = "-XX:+UseTransparentHugePages"
_OFFERED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def malloc_settings() -> Mapping[str, str]:
    """Spark's settings for the processes of executors, and for the Python of tasks anywhere."""
    return {f"spark.executorEnv.{name}": value for name, value in _unset().items()}


@contextlib.contextmanager
def malloc_of_processes() -> Iterator[None]:
    """Processes that start meanwhile keep their memory; what the environment says of it already holds."""
    added = _unset()
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def huge_pages() -> str:
    """The JVM's option; empty where the system does not offer such pages, of which the JVM would warn."""
    try:
        offered = _OFFERED.read_text(encoding="ascii")
    except OSError:
        return ""
    return "" if "[never]" in offered else _HUGE_PAGES


def _unset() -> dict[str, str]:
    return {name: value for name, value in MALLOC.items() if name not in os.environ}
