"""The settings ``sqlstream.spark.*``, which choose the tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from sqlstream.options import BOOLEAN, Option

_PREFIX = "sqlstream.spark."


@dataclass(frozen=True)
class Tuning:
    """Which optimizations of a local Spark are on, such as reusing memory or starting Python workers faster.
    ``OPTIONS`` describes each.
    """

    class_archive: bool = True
    kept_memory: bool = True
    late_compilation: bool = True
    lean_workers: bool = True
    local_sockets: bool = True
    log_file: bool = True
    quick_files: bool = True
    quiet_errors: bool = True
    small_heap: bool = True


FIELDS: Mapping[str, str] = {_PREFIX + field.name.replace("_", "-"): field.name for field in fields(Tuning)}
"""The fields of a Tuning by the keys of their settings."""

ALL = Tuning()
NONE = Tuning(**dict.fromkeys(FIELDS.values(), False))


def _option(name: str, doc: str) -> Option:
    return Option(f"{_PREFIX}{name}", BOOLEAN, doc, "true")


OPTIONS = (
    _option(
        "class-archive",
        "Spark's Java starts with the archive of its classes, where `python -m sqlstream.class_archive` has made one.",
    ),
    _option(
        "kept-memory",
        "Java and the Python of tasks keep memory that they have got: settings of the C library's malloc in their "
        "environment, and pages of 2 MB for Java's heap. Each buffer of a task comes from the system anew without.",
    ),
    _option(
        "late-compilation",
        "Java optimizes what it has run often later than by default, which leaves the processors to short jobs.",
    ),
    _option(
        "lean-workers",
        "The Python of tasks on this machine starts through a script in the folder for temporary files, which leaves "
        "out Spark's zip of PySpark, whose modules each worker would compile anew, and forks workers from a process "
        "that has imported what they need.",
    ),
    _option(
        "local-sockets",
        "Spark and the Python of its tasks talk through sockets in the folder for temporary files, where they can, "
        "and not through TCP.",
    ),
    _option(
        "log-file",
        "What Java writes to standard error goes to a file below the user's folder for state, and while Java starts "
        "all that this process writes there, too.",
    ),
    _option(
        "quick-files",
        "Files of this machine get their permissions by a class that is compiled in Spark's Java and takes the place "
        "of Hadoop's, which starts a process for each file.",
    ),
    _option(
        "quiet-errors",
        "PySpark does not write errors to standard error that sqlstream reports. This one holds for sessions of yours, "
        "too.",
    ),
    _option(
        "small-heap",
        "Java collects garbage for up to a fifth of the time before it takes more heap, in place of a thirteenth: it "
        "keeps what it has taken.",
    ),
)


class Values(Protocol):
    """Anything from which settings can be read by key, such as ``Settings`` or a dictionary."""

    def __getitem__(self, key: str) -> Any: ...


def tuning_of(settings: Values) -> Tuning:
    """Returns which optimizations of Spark are on according to the settings ``sqlstream.spark.…``."""
    return Tuning(**{name: settings[key] for key, name in FIELDS.items()})
