"""What installed packages register for sqlstream: entry points by group and name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from sqlstream.udfs.texts import reason_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def registered(group: str) -> Mapping[str, EntryPoint]:
    """Returns the entry points that installed packages register in a group, by name. The result is cached."""
    from importlib.metadata import entry_points  # imports email and zipfile: start-up does without

    return {point.name: point for point in entry_points(group=group)}


class NotLoaded(Exception):
    """Raised where the class of an entry point cannot be loaded or instantiated. The message is the reason."""


def instance_of(point: EntryPoint) -> object:
    """Imports the class that the entry point names and returns an instance. Raises NotLoaded where that fails."""
    try:
        return point.load()()
    except Exception as error:
        raise NotLoaded(f"{type(error).__name__}: {reason_of(error)}") from error


def package_of(point: EntryPoint) -> str:
    """Returns the name of the package that registered the entry point."""
    return point.dist.name if point.dist is not None else point.module
