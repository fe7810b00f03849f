"""Versioned tables: relations of which each row says what holds for its key from an event time on."""

from __future__ import annotations

from sqlglot import exp

from sqlstream.planner.catalog import APPEND_ONLY, TimeDomain
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import AssignTime, Filter, Project, Scan
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.normalize import Normalize
from sqlstream.planner.rewriting import columns_of


def versions(node: Node, time: str) -> Node | None:
    """The rows of a relation that are versions from their ``time`` on; None where its rows are something else.

    Views of the last row of each key hold all rows as versions, those that came late or in one micro-batch, too; so the
    rows below the view are taken. The first row of a key is its only version, and comes once it is final.
    """
    match node:
        case Scan():
            return node
        case AssignTime() | Normalize():
            return _over(node, versions(node.input, time))
        case Filter() if _keeps_keys(node):
            return _over(node, versions(node.input, time))
        case Project():
            below = next(item.expression for item in node.items if item.name == time)
            return _over(node, versions(node.input, below.name)) if isinstance(below, exp.Column) else None
        case Deduplicate(domain=TimeDomain.EVENT) if node.time == time and node.input.changelog_mode == APPEND_ONLY:
            return node.input if node.last else node.append_only_variant()
    return None


def _over(node: Node, below: Node | None) -> Node | None:
    return None if below is None else node.with_inputs((below,))


def _keeps_keys(node: Filter) -> bool:
    """Do all versions of a key pass, or none? Of rows that are only added those that pass are the versions."""
    read = columns_of(node.condition)
    return node.input.changelog_mode == APPEND_ONLY or any(read <= key for key in node.input.upsert_keys)
