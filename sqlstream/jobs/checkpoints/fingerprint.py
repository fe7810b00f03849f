"""The fingerprint of a plan, on which its checkpoint depends: sources and operators with state, top down.

Expressions are traced down to the columns of tables, so that a renamed field, one more column or a filter change
nothing here. ``compatibility`` compares fingerprints and words the differences.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

from sqlstream.connectors.secrets import masked
from sqlstream.errors import ExecutionError, repeating
from sqlstream.grammar.depth import on_deep_stack
from sqlstream.jobs.checkpoints.storage import Storage, damaged
from sqlstream.planner.catalog import Table
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Scan
from sqlstream.planner.physical import EngineSettings, PhysicalPlan
from sqlstream.planner.physical.engine import Engine, Reuse
from sqlstream.planner.physical.sources import PlannedSources, ThroughSpark
from sqlstream.planner.physical.steps import Compute, Mark, NativeState, Operator, Read, Reused, Step, WatermarkSource
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
    "mysql-cdc": ("database-name", "table-name"),
    "postgres-cdc": ("schema-name", "table-name", "slot.name"),
    "rate": ("rows-per-second", "ramp-up-time"),
    "socket": ("hostname", "port"),
}
"""Options, or what they begin with, that say which rows a source gives; all others may change."""


@dataclass(frozen=True)
class FingerprintPart:
    """The fingerprint of one source, watermark or operator. ``depth`` is its depth in the tree of parts, 0 for the top;
    ``facts`` are pairs of a name and a text, all of which must be unchanged for the state to be used again.
    """

    kind: str
    name: str
    depth: int
    facts: tuple[tuple[str, str], ...] = ()


@on_deep_stack
def fingerprint(plan: PhysicalPlan, declared: Declared | None = None) -> tuple[FingerprintPart, ...]:
    """Returns the parts of a plan that must stay the same for its state to be used again, in the order in which Spark
    numbers operators and sources.

    ``declared`` gets the name of a process function and returns its declared state; without it that state is assumed to
    be unchanged.
    """
    return tuple(_parts(plan.root, 0, _Surroundings(declared, says_reused=plan.reuse.in_queries)))


def to_text(parts: tuple[FingerprintPart, ...]) -> str:
    """The fingerprint as JSON, as ``plan.json`` stores it."""
    return json.dumps({"version": VERSION, "parts": [dataclasses.asdict(p) for p in parts]}, indent=1)


def from_text(text: str) -> tuple[FingerprintPart, ...] | None:
    """The parts of a fingerprint from its JSON; None for a text that this version of ``to_text`` did not write."""
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
    """``windowed``: an operator above reads the windows of the rows. ``says_reused``: where the results of an operator
    are taken again is a part; fingerprints of earlier builds do not say it.
    """

    declared: Declared | None
    windowed: bool = False
    says_reused: bool = False


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
        case Mark(node=mark, watermark_source=source) if source is not WatermarkSource.NOT:
            facts = (("column", mark.column), ("kind of time", mark.domain.value))
            # How the watermark follows from rows may change, as its delay may: state does not depend on it.
            return FingerprintPart("watermark", f'watermark of table "{mark.table}"', depth, facts)
        case Compute() if around.windowed and node.shapes_state_above:
            return FingerprintPart(*node.state_title, depth, tuple(node.state_facts()))
        case Operator(link=link):
            chain = ((CHAIN, "with the operator below"),) if link is not None else ()
            return _with_state(node, depth, around, chain)
        case Reused(reuse=number) if around.says_reused:
            return FingerprintPart(_REUSED, f"reuse of the {node.state_title[1]}", depth, (("number", str(number)),))
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


# --- Comparison: whether a query may continue with the state of another ----------------------------------------


@dataclass(frozen=True)
class Difference:
    """Why a query cannot use the state of another. ``part``: the operator or source that differs. ``text``: the reason
    as a sentence.

    ``exception``: added to the message's hint that filters may change, such as ``, but no filter between windows …``;
    empty if the hint is true without it.
    """

    part: str
    text: str
    exception: str = ""


_BETWEEN = ", but no filter between windows on the same keys, which run in one call without it"
_REUSED = "reuse"
_SHARED = ", but no filter that makes a part of the query run once for several readers, or no longer once"


def difference(stored: tuple[FingerprintPart, ...], current: tuple[FingerprintPart, ...]) -> Difference | None:
    """The first difference between two fingerprints, from the top; None where the query may continue."""
    matcher = SequenceMatcher(None, [identity_of(p) for p in stored], [identity_of(p) for p in current], autojunk=False)
    for tag, left, left_end, right, right_end in matcher.get_opcodes():
        gone, new = stored[left:left_end], current[right:right_end]
        if tag != "equal" and len(gone) == len(new) and gone[0].kind == new[0].kind and gone[0].kind != "source":
            return change_of(gone[0], new[0])
        if tag != "equal":
            kept = {_alike(part) for parts in (stored[:left], stored[left_end:]) for part in parts}
            return dataclasses.replace(_other_parts(gone, new), exception=_exception(gone, new, kept))
    pairs = zip(stored, current, strict=True)
    return next((different for before, now in pairs if (different := change_of(before, now)) is not None), None)


def identity_of(entry: FingerprintPart) -> tuple[str, str]:
    """Parts that stand for each other: sources by table, process functions by uid, the others by what they are."""
    own = {"source": "table", "process function": "uid"}.get(entry.kind, "")
    return entry.kind, dict(entry.facts).get(own, "")


def _other_parts(gone: tuple[FingerprintPart, ...], new: tuple[FingerprintPart, ...]) -> Difference:
    if not new:
        return Difference(gone[0].name, f"{described(gone[0])}, which the query no longer has")
    if not gone:
        return Difference(new[0].name, f"nothing of {described(new[0])}, which the query has")
    return Difference(gone[0].name, f"{described(gone[0])}, where the query has {described(new[0])}")


def _exception(gone: Iterable[FingerprintPart], new: Iterable[FingerprintPart], kept: Container[object]) -> str:
    """What filters may not do, where the one plan has an operator once more than the other, which ``kept`` it."""
    operators = (part for part in (*gone, *new) if part.kind not in ("source", "watermark"))
    return _SHARED if any(part.kind == _REUSED or _alike(part) in kept for part in operators) else ""


def _alike(part: FingerprintPart) -> object:
    """Equal for parts that do the same, wherever they stand."""
    return part.kind, part.name, part.facts


def described(entry: FingerprintPart) -> str:
    """``a window aggregate (keys k STRING)``."""
    if entry.kind in ("source", "watermark"):
        return f"the {entry.name}"
    facts = dict(entry.facts)
    told = next((f"{name} {facts[name]}" for name in ("uid", "window", "keys", "table") if facts.get(name)), "")
    article = "" if entry.kind == "windows" else ("the " if entry.name != entry.kind else "a ")
    return f"{article}{entry.name}" + (f" ({told})" if told else "")


def change_of(before: FingerprintPart, now: FingerprintPart) -> Difference | None:
    """Why the state of one part is not that of another, which takes its place; None where it is."""
    left, right = dict(before.facts), dict(now.facts)
    for name in [*left, *(n for n in right if n not in left)]:
        stored, current = left.get(name, "none"), right.get(name, "none")
        if stored != current:
            told = f'the {before.name} with the {name} "{stored}", where the query has "{current}"'
            return Difference(before.name, told, _BETWEEN if name == CHAIN else "")
    if before.name != now.name:
        return Difference(before.name, f"the {before.name}, where the query has the {now.name}")
    if before.depth != now.depth:
        return Difference(before.name, f"the {before.name} at another place of the plan")
    return None


# --- State layout ----------------------------------------------------------------------------------------------
# The engine, the number of key groups and which operators share a call are fixed by the checkpoint.


OTHER_ENGINE = repeating("SS424")
OTHER_KEY_GROUPS = repeating("SS425")

DEFAULT_KEY_GROUPS = 64
"""Those of checkpoints that do not say how many they have."""

AUTO = "auto"

LAYOUT_FILE = "layout.json"
_NEW = "('execution.checkpointing.dir')"


_GROUPS_OF_A_TASK, _FEWEST_GROUPS, _GROUPS_TO_SHARE = 8, 16, 64


def new_key_groups(tasks: int) -> int:
    """How many key groups a new checkpoint has where no setting says it. ``tasks``: the partitions of a shuffle.

    Each key group costs a call of the kernel in every micro-batch, however few rows come. Eight for each task spread
    keys evenly, and let the job go on with more tasks. Where that would be more than 64, each task has fewer. All tasks
    have as many as each other: the number is a multiple of ``tasks``.
    """
    of_a_task = max(1, min(_GROUPS_OF_A_TASK, _GROUPS_TO_SHARE // tasks))
    return max(_FEWEST_GROUPS, of_a_task * tasks)


_REUSES_NOTHING = Reuse(reads=False, operators=False, in_queries=False)


@dataclass(frozen=True)
class StateLayout:
    """How a job's state is stored. ``engine`` is the value of an ``Engine``; the other fields apply to the columnar
    engine.

    ``key_groups``: the number of key groups. ``chained``: operators on the same keys run in one call. ``reuse``: what
    runs once that the plan has several times. What older checkpoints do not say is False.
    """

    engine: str
    key_groups: int = DEFAULT_KEY_GROUPS
    chained: bool = False
    reuse: Reuse = _REUSES_NOTHING

    def settings(self, sources: PlannedSources | None = None) -> EngineSettings:
        """The settings with which a plan is made for this layout. ``sources``: None where only state matters."""
        return EngineSettings(self.engine, self.chained, self.reuse, sources or ThroughSpark())


def stored_layout(storage: Storage) -> StateLayout | None:
    """The layout of a checkpoint; None where no job has started with it. Raises SS459 where it cannot be read."""
    text = storage.read(LAYOUT_FILE)
    try:
        return None if text is None else _layout(json_of(text))
    except (ValueError, TypeError) as error:
        raise damaged(storage.location(LAYOUT_FILE), f"It is no layout of state: {error}.") from error


def _layout(stored: dict[str, Any]) -> StateLayout:
    """The layout that a checkpoint stores. Older ones call ``engine`` ``gear``, and say of ``reuse`` at most what the
    queries of a statement set have in common.
    """
    values = {"engine" if key == "gear" else key: value for key, value in stored.items()}
    of_sets = values.pop("shares_reads", False), values.pop("shares_operators", False)
    reuse = Reuse(**values.pop("reuse")) if "reuse" in values else Reuse(*of_sets, in_queries=False)
    return StateLayout(**values, reuse=reuse)


def store_layout(storage: Storage, layout: StateLayout) -> None:
    """Write the layout of a job's state to its checkpoint."""
    storage.write(LAYOUT_FILE, json.dumps(asdict(layout)))


_REAL_TIME = Engine.REAL_TIME.value


def require_same(path: str, stored: StateLayout, engine: str, key_groups: int | None) -> None:
    """Raises ExecutionError SS424 or SS425 if the settings ``engine`` and ``key_groups`` require another layout than
    the stored one. ``auto`` and None accept any. ``path``: the checkpoint, for messages.
    """
    if stored.engine == _REAL_TIME and engine != _REAL_TIME:
        message = f'checkpoint "{path}" holds the state of a job in real time, which micro-batches do not have'
        hint = f"SET 'execution.latency' = 'real-time' to go on, or start in a new directory {_NEW}."
        raise ExecutionError(OTHER_ENGINE, message, hint=hint)
    if engine not in (AUTO, stored.engine):
        message = f'checkpoint "{path}" holds the state of the engine "{stored.engine}", not of "{engine}"'
        hint = f"SET 'sqlstream.engine' = '{stored.engine}' to go on, or start in a new directory {_NEW}."
        raise ExecutionError(OTHER_ENGINE, message, hint=hint)
    if key_groups not in (None, stored.key_groups):
        message = f'checkpoint "{path}" has its state in {stored.key_groups} key groups, not in {key_groups}'
        hint = f"RESET 'pipeline.max-parallelism' to go on, or start in a new directory {_NEW}."
        raise ExecutionError(OTHER_KEY_GROUPS, message, hint=hint)
