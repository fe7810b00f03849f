"""Cases of peers in which the dialect decides otherwise, each with the reason.

They differ on purpose: ``python -m tests.peers`` prints DIFFERS with the reason in place of FAIL or REFUSED. Cases in
the folder ``_differs`` of the peers say their reasons themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FUNCTIONS = Path(__file__).parent / "functions"
"""Where the Python functions are that scripts of cases name."""

_ENDED_CHANNEL = "It aborts a barrier when a channel ends; in the dialect an ended channel counts as arrived."
_ORDER_OF_GROUPS = (
    "It shows in which order the groups of an aggregate below change, one row after the other. A micro-batch changes "
    "each group once, and changes are in order per key, not between keys."
)
_NO_NULL_KEYS = "A MAP of Spark has no key NULL: making one fails (NULL_MAP_KEY), before a row reaches the format."

ARGUED: Mapping[str, str] = {
    "flink-barrier-aligned/MultiChannelJumpingOverCheckpoint__kernel": _ENDED_CHANNEL,
    "flink-barrier-buffer/MultiChannelJumpingOverCheckpoint__kernel": _ENDED_CHANNEL,
    "flink-barrier-buffer/MultiChannelSkippingCheckpoints__kernel": _ENDED_CHANNEL,
    "flink-barrier-buffer/MultiChannelTrailingBlockedData__kernel": _ENDED_CHANNEL,
    "flink-cdc-json/json_write_null_key_drop": _NO_NULL_KEYS,
    "flink-cdc-json/json_write_null_key_error": _NO_NULL_KEYS,
    "flink-sql-ordinary/Agg_ListAggRetract": _ORDER_OF_GROUPS,
}
