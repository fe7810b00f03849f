"""A job's checkpoint directory: which plan it belongs to, control rows, and Spark's own checkpoint below ``spark``."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlstream.errors import ExecutionError, UnsupportedError, repeating
from sqlstream.jobs.checkpoints.fingerprint import (
    AUTO,
    DEFAULT_KEY_GROUPS,
    Declared,
    Difference,
    FingerprintPart,
    StateLayout,
    difference,
    fingerprint,
    from_text,
    require_same,
    store_layout,
    stored_layout,
    to_text,
)
from sqlstream.jobs.checkpoints.storage import Storage, damaged, is_json, storage_at
from sqlstream.planner.node import Node
from sqlstream.planner.physical import PhysicalPlan, physical_plan
from sqlstream.planner.physical.engine import REUSES_ALL, Engine, Reuse, engine_of
from sqlstream.planner.physical.sources import PlannedSources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OTHER_PLAN = repeating("SS421")
PATTERN_AS_PATH = repeating("SS423")

PLAN, RUN = "plan.json", "run.txt"
_NEW = "('execution.checkpointing.dir')"
_OF_PATTERNS = "*?[]{}\\"


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint of a job. ``path`` is the directory as the user wrote it; ``plan`` is the physical plan, made
    for the checkpoint's layout of state.
    """

    path: str
    storage: Storage
    layout: StateLayout
    plan: PhysicalPlan

    @property
    def spark_location(self) -> str:
        """The folder of Spark's own checkpoint."""
        return self.storage.location("spark")

    @property
    def run(self) -> str:
        """Returns a text that identifies this checkpoint, also among earlier ones in the same directory. It does not
        change when the job restarts.
        """
        return f"{self.storage.read(RUN) or ''} {self.storage.location()}"


def checkpoint_exists(path: str, spark: SparkSession) -> bool:
    """True where a job has started with this checkpoint directory before. Raises ExecutionError SS423 for a path that
    no job can use.
    """
    require_plain(path)
    return storage_at(path, spark).read(PLAN) is not None


def run_of(path: str, spark: SparkSession) -> str:
    """Returns the checkpoint's identifier, 32 random hexadecimal digits. The first call chooses it and stores it in the
    checkpoint. Raises ExecutionError SS459 where its file is damaged.
    """
    require_plain(path)
    storage = storage_at(path, spark)
    word = storage.read(RUN)
    if word is None:
        word = uuid.uuid4().hex
        storage.write(RUN, word)
    if not re.fullmatch(r"[0-9a-f]{32}", word.strip()):
        raise damaged(f"{path}/{RUN}", "It does not hold 32 hexadecimal digits.")
    return word.strip()


def open_checkpoint(
    path: str,
    plan: Node,
    spark: SparkSession,
    engine: str = AUTO,
    key_groups: int | None = None,
    declared: Declared | None = None,
    *,
    chaining: bool = True,
    reuse: Reuse = REUSES_ALL,
    sources: PlannedSources | None = None,
    new_key_groups: int = DEFAULT_KEY_GROUPS,
    at_once: bool = False,
) -> Checkpoint:
    """Opens the checkpoint at ``path`` for a plan, to continue it or to begin a new one.

    ``engine`` and ``key_groups``: the layout of state that is required; ``auto`` and None accept that of the
    checkpoint, and let a new checkpoint choose. ``declared`` gets the name of a process function and returns its
    declared state. ``chaining``: in a new checkpoint, operators are chained where possible; ``reuse``: as of
    ``StateLayout``. ``sources``: what they can do beside giving rows to Spark; None for
    nothing. ``new_key_groups``: those of a new checkpoint where ``key_groups`` is None. ``at_once``: windows fire in
    the micro-batch whose rows close them; each run of a checkpoint may say this anew.

    Raises ExecutionError SS421 if the stored state is not that of the plan, SS424 and SS425 if its layout is not the
    required one, SS459 if a file of the checkpoint cannot be read.
    """
    require_plain(path)
    storage = storage_at(path, spark)
    stored, laid_out = storage.read(PLAN), stored_layout(storage)
    own = engine_of(plan, engine)
    layout = laid_out or StateLayout(
        own.value,
        key_groups or new_key_groups,
        chained=chaining and own is Engine.COLUMNAR,
        reuse=reuse,
    )
    try:
        physical = physical_plan(plan, replace(layout.settings(sources), at_once=at_once))
    except UnsupportedError as error:
        if stored is None:
            raise
        # The checkpoint has chosen the engine, which no setting changes; most often the query has a new operator.
        other = replace(layout, engine=Engine.COLUMNAR.value).settings(sources)
        require_compatible(path, stored, fingerprint(physical_plan(plan, other), declared))
        hint = f'Checkpoint "{path}" goes on with the engine "{layout.engine}" only; start in a new directory {_NEW}.'
        raise UnsupportedError(error.diagnostic.code, error.diagnostic.message, hint=hint) from error
    current = fingerprint(physical, declared)
    if stored is not None:
        require_compatible(path, stored, current)
    if laid_out is None:
        store_layout(storage, layout)
    of_spark = engine == Engine.REAL_TIME.value
    require_same(path, layout, engine_of(plan, engine).value if of_spark else engine, key_groups)
    if stored is None or stored.strip() != to_text(current):
        storage.write(PLAN, to_text(current))
    return Checkpoint(path, storage, layout, physical)


def is_of_plan(path: str, plan: Node, spark: SparkSession, declared: Declared | None = None) -> bool | None:
    """True if a job of the plan can continue from the checkpoint or savepoint at ``path``, False if not; None if
    nothing is stored there.
    """
    storage = storage_at(path, spark)
    stored, layout = storage.read(PLAN), stored_layout(storage)
    if stored is None or layout is None:
        return None
    parts = from_text(stored)
    try:
        physical = physical_plan(plan, layout.settings())
    except UnsupportedError:  # the engine of the checkpoint does not run the plan
        return False
    return parts is not None and difference(parts, fingerprint(physical, declared)) is None


def require_compatible(path: str, stored: str, current: tuple[FingerprintPart, ...], what: str = "checkpoint") -> None:
    """Raises ExecutionError SS421 with the first difference, if a job of the current plan cannot use the state at
    ``path``.

    ``stored``: the text of the fingerprint that is stored there; SS459 if it cannot be read. ``what``: the word for the
    state in messages, ``checkpoint`` or ``savepoint``.
    """
    parts = from_text(stored)
    if parts is None and not is_json(stored):
        raise damaged(f"{path}/{PLAN}", "It is no JSON.")
    if parts is None:
        message = f'{what} "{path}" was written by another version of sqlstream'
        raise ExecutionError(OTHER_PLAN, message, hint=f"Start in a new directory {_NEW}.")
    change = difference(parts, current)
    if change is not None:
        raise _other_plan(path, change, what)


def require_plain(path: str) -> None:
    """Raises ExecutionError SS423 if the path has characters of a glob pattern: Spark would expand it, and not find the
    control rows.
    """
    special = next((character for character in path if character in _OF_PATTERNS), None)
    if special is not None:
        message = f'the path "{path}" of a checkpoint holds the character "{special}"'
        raise ExecutionError(PATTERN_AS_PATH, message, hint=f"Spark finds no files there: do without {_OF_PATTERNS}")


def _other_plan(path: str, change: Difference, what: str) -> ExecutionError:
    return ExecutionError(
        OTHER_PLAN,
        f'{what} "{path}" belongs to another query: {change.part}',
        detail=f"It holds {change.text}.",
        hint=f"Filters, columns, sinks and the delay of watermarks may change{change.exception}; else start in a new "
        f"directory {_NEW}.",
    )
