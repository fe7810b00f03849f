"""The change kinds that a source's options declare, and the check that operators take those of their inputs."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream.errors import Diagnostic, Span
from sqlstream.grammar.nodes import Option
from sqlstream.grammar.spans import span_of
from sqlstream.planner import unsupported
from sqlstream.planner.binder.context import Context
from sqlstream.planner.catalog import ALL_KINDS, UPSERT, RowKind
from sqlstream.planner.changes import NodeT, maker_of, not_taken, with_final_rows
from sqlstream.planner.node import Node
from sqlstream.planner.properties import changelog_text

CHANGELOG_OPTION = "changelog-mode"

_KINDS = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}
_MODES = {frozenset(_KINDS[k] for k in mode.split(",")): mode for mode in ("I", "I,UA,D", "I,UB,UA,D", "I,D")}
_CONNECTORS = {"upsert-kafka": UPSERT}
_FORMATS = dict.fromkeys(("canal-json", "debezium-json", "maxwell-json", "ogg-json"), ALL_KINDS)


def changelog_of(
    option: Option | None, connector: str, format_name: str | None, context: Context
) -> frozenset[RowKind] | None:
    """The declared kinds, or those of the connector or the format; None where these are of no changes. SS218 for modes
    that do not exist."""
    if option is None:
        return _CONNECTORS.get(connector) or _FORMATS.get((format_name or "").strip().lower())
    kinds = [k.strip().upper() for k in option.value.split(",")]
    row_kinds = frozenset(_KINDS[k] for k in kinds if k in _KINDS)
    if len(row_kinds) != len(kinds) or row_kinds not in _MODES:
        modes = ", ".join(f"'{mode}'" for mode in _MODES.values())
        context.wrong("SS218", f"'{option.value}' is no changelog mode", option.span, f"The modes are {modes}.")
        return None
    return row_kinds


def check_changes(node: NodeT, context: Context, *at: exp.Expr | Span | None) -> NodeT:
    """The operator, which waits for final rows where it takes no others (``with_final_rows``); SS325 where it does not
    take the kinds of rows that its inputs have. ``at``: what asks for each of the inputs, or for all of them."""
    node = with_final_rows(node)
    for port, kinds in not_taken(node):
        written = at[port] if len(at) > 1 else at[0]
        span = span_of(written) if isinstance(written, exp.Expr) else written
        context.report(_not_taken(node, maker_of(node.inputs[port], kinds), kinds, span))
    return node


def _not_taken(node: Node, maker: Node, kinds: frozenset[RowKind], span: Span | None) -> Diagnostic:
    reason = node.why_inserts_only
    because = f": {reason}" if reason is not None else ""
    come = f"Rows of the kinds {changelog_text(kinds)} come from {maker.producer_name}"
    detail = f"{come}, and {node.consumer_name} does not take them{because}."
    diagnostic = unsupported.diagnostic("changelog input", span, detail)
    instead = maker.append_only_hint
    return diagnostic if instead is None else replace(diagnostic, hint=f"{instead[0].upper()}{instead[1:]}.")
