"""How much barriers may hold: numbers that the planner and the settings know, which load no kernel for them."""

from __future__ import annotations

MOST_HELD = 5_000_000
"""How many rows and marks may be held, unless said."""
