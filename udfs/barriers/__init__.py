"""ALIGN BARRIERS: markers that arrive on several channels are aligned to consistent cuts through all of them."""

from __future__ import annotations

# --- limits that the planner and the settings check; importing them loads no kernel ---------------------------


MOST_HELD = 5_000_000
"""The default limit of rows and marks that are held back."""
