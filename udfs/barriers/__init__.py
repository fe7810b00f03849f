"""Barriers in the data: markers that arrive on several channels are aligned to consistent cuts through all of them."""

from __future__ import annotations

# --- limits that the planner and the settings check; importing them loads no kernel ---------------------------


MOST_HELD = 5_000_000
"""How many rows and marks may be held, unless said."""
