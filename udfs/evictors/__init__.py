"""Evictors: the rows that are removed from a window at a firing."""

from sqlstream.udfs.evictors.evictor import EvictDelta, Evictor, KeepInterval, KeepRows, Panes
from sqlstream.udfs.evictors.user import EvictorContext, User, Window

__all__ = ["EvictDelta", "Evictor", "EvictorContext", "KeepInterval", "KeepRows", "Panes", "User", "Window"]
