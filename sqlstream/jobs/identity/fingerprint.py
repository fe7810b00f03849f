"""The fingerprint of a plan, on which its checkpoint depends: sources and operators with state, top down.

Expressions are traced down to the columns of tables, so that a renamed field, one more column or a filter change
nothing here. ``compatibility`` compares fingerprints and words the differences.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlstream.connectors.secrets import masked
from sqlstream.grammar.depth import with_room
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical import PhysicalPlan
from sqlstream.planner.physical.steps import Compute, Mark, NativeState, Operator, Read, Step, WatermarkSource
from sqlstream.udfs.texts import json_of

Declared = Callable[[str], str]
"""What a process function declares as its state, as text, by the function's name."""

VERSION = 5
"""Also counts how kernels lay out their state: what another version has written is refused."""

CHAIN = "chaining"
"""The fact of operators that run in the call of another one, so that state and timers are kept with those of that."""

_READ_BY = {
    "datagen": ("seed", "fields."),
    "filesystem": ("path",),
    "kafka": ("topic", "topic-pattern"),
    "rate": ("rows-per-second", "ramp-up-time"),
    "socket": ("hostname", "port"),
}
"""Options, or what they begin with, that say which rows a source gives; all others may change."""


@dataclass(frozen=True)
class FingerprintPart:
    """A source, a watermark or an operator. ``depth`` counts the parts above it; ``facts`` are names with texts."""

    kind: str
    name: str
    depth: int
    facts: tuple[tuple[str, str], ...] = ()


@with_room
def fingerprint(plan: PhysicalPlan, declared: Declared | None = None) -> tuple[FingerprintPart, ...]:
    """The parts of a plan in the order in which Spark numbers its operators and sources.

    Without ``declared`` the state of process functions is taken to be as it was.
    """
    return tuple(_parts(plan.root, 0, _Surroundings(declared)))


def to_text(parts: tuple[FingerprintPart, ...]) -> str:
    return json.dumps({"version": VERSION, "parts": [dataclasses.asdict(p) for p in parts]}, indent=1)


def from_text(text: str) -> tuple[FingerprintPart, ...] | None:
    """None for a text that ``to_text`` of this version has not written."""
    try:
        document = json_of(text)
        if document["version"] != VERSION:
            return None
        return tuple(
            FingerprintPart(p["kind"], p["name"], p["depth"], tuple(map(tuple, p["facts"]))) for p in document["parts"]
        )
    except (ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class _Surroundings:
    """``windowed``: an operator above reads the windows of the rows."""

    declared: Declared | None
    windowed: bool = False


def _parts(step: Step, depth: int, around: _Surroundings) -> Iterator[FingerprintPart]:
    own = _part(step, depth, around)
    if own is not None:
        yield own
        depth += 1
    around = dataclasses.replace(around, windowed=step.node.reads_windows(around.windowed))
    for below in step.inputs:
        yield from _parts(below, depth, around)


def _part(step: Step, depth: int, around: _Surroundings) -> FingerprintPart | None:
    node = step.node
    match step:
        case Read(node=Scan(table=table)):
            return FingerprintPart("source", f'source "{table.name}"', depth, tuple(_source(table)))
        case Mark(node=mark, told=told) if told is not WatermarkSource.NOT:
            facts = (("column", mark.column), ("kind of time", mark.domain.value))
            # How the watermark follows from rows may change, as its delay may: state does not depend on it.
            return FingerprintPart("watermark", f'watermark of table "{mark.table}"', depth, facts)
        case Compute() if around.windowed and node.shapes_state_above:
            return FingerprintPart(*node.state_title, depth, tuple(node.state_facts()))
        case Operator(link=link):
            chain = ((CHAIN, "with the operator below"),) if link is not None else ()
            return _with_state(node, depth, around, chain)
        case NativeState():
            return _with_state(node, depth, around)
    return None


def _with_state(
    node: Node, depth: int, around: _Surroundings, more: tuple[tuple[str, str], ...] = ()
) -> FingerprintPart:
    facts = list(node.state_facts())
    function = node.stateful_user_function
    if function is not None and around.declared is not None:
        facts.append(("state", around.declared(function)))
    kind, name = node.state_title
    return FingerprintPart(kind, name, depth, (*facts, *more))


# --- sources --------------------------------------------------------------------------------------------------


def _source(table: Table) -> Iterator[tuple[str, str]]:
    yield "table", table.name
    yield "connector", table.connector
    for key, value in sorted(masked(table.options)):  # who asks may change, so that secrets are no part of it
        if key.startswith(_READ_BY.get(table.connector, ())):
            yield f'option "{key}"', value.rstrip("/") if key == "path" else value
