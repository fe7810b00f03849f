"""The columns that the exchange of an operator with state reads."""

from __future__ import annotations

from functools import singledispatch

from sqlstream.planner.nodes import Node
