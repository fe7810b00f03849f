"""Evictors: what is dropped from a window at a firing."""

from sqlstream.udfs.evictors.evictor import EvictDelta, Evictor, KeepInterval, KeepRows, Panes

__all__ = ["EvictDelta", "Evictor", "KeepInterval", "KeepRows", "Panes"]
