"""Triggers: when a window fires. Those of the dialect, and the interface for triggers of users."""

from sqlstream.udfs.triggers.clocks import (
    AfterDelay,
    AfterProcessingTime,
    AtOnce,
    AtWatermark,
    EachBatch,
    EveryInterval,
    Never,
    OnBarrier,
)
from sqlstream.udfs.triggers.combined import AfterWatermark, And, Or, Purging, Then
from sqlstream.udfs.triggers.counting import Delta, EveryRows, When
from sqlstream.udfs.triggers.trigger import Trigger
from sqlstream.udfs.triggers.user import MergeContext, TriggerContext, TriggerResult, User, Window

__all__ = [
    "AfterDelay",
    "AfterProcessingTime",
    "AfterWatermark",
    "And",
    "AtOnce",
    "AtWatermark",
    "Delta",
    "EachBatch",
    "EveryInterval",
    "EveryRows",
    "MergeContext",
    "Never",
    "OnBarrier",
    "Or",
    "Purging",
    "Then",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "User",
    "When",
    "Window",
]
