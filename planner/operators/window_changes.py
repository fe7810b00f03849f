"""Windows over rows that come and go: which take them, and why others do not."""

from __future__ import annotations

from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind, TimeDomain
from sqlstream.planner.changes import prefers_inserts, takes_changes, why_inserts_only
from sqlstream.planner.firing import LateAction
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.operators.window_kernels import is_cut
from sqlstream.planner.operators.windows import AssignWindows
from sqlstream.planner.properties import changelog_mode, keeps_state
from sqlstream.planner.windows import CountWindow, RowMeasured, Session, UserWindow
