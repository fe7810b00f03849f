"""Process functions: what users extend and declare. ``function.py`` documents how they are written."""

from sqlstream.udfs.kernel import Domain
from sqlstream.udfs.process.function import (
    Descriptor,
    ListState,
    MapState,
    ProcessContext,
    ProcessFunction,
    Row,
    Timer,
    ValueState,
)

__all__ = [
    "Descriptor",
    "Domain",
    "ListState",
    "MapState",
    "ProcessContext",
    "ProcessFunction",
    "Row",
    "Timer",
    "ValueState",
]
