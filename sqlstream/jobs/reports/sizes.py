"""Sizes as people read them."""

from __future__ import annotations


def size_text(size: int) -> str:
    """Bytes in their largest unit."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} B"
