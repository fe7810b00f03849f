"""Window functions: what comes out of the rows of a window at a firing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AllRows:
    """The rows themselves, in order of arrival: a window table function that nobody aggregates."""

    columns: tuple[str, ...]
