"""What of a job's state carries over to a changed query: its plan beside that of its checkpoint, operator by operator.

Jobs that start compare the same fingerprints and stop at the first difference; this lists all of them, before anything
is stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from sqlstream.errors import SqlStreamError, UnsupportedError
from sqlstream.jobs.checkpoints.checkpoint import PLAN, require_compatible
from sqlstream.jobs.checkpoints.fingerprint import (
    FingerprintPart,
    StateLayout,
    change_of,
    described,
    fingerprint,
    from_text,
    identity_of,
    require_same,
    stored_layout,
)
from sqlstream.jobs.lifecycle.start import declared_states
from sqlstream.jobs.records.history import last_committed
from sqlstream.jobs.records.record import JobRecord, read_record, require_readable
from sqlstream.planner.physical import physical_plan
from sqlstream.plans import Root
from sqlstream.upgrade.planned import CatalogFunctions, PlannedJob


class Fate(StrEnum):
    """What becomes of a part of a plan in the upgrade."""

    CARRIES_OVER = "carries over"
    DIFFERS = "differs"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class ComparedPart:
    """A source, watermark or operator with state of either plan. ``why``: how it differs, '' where it does not."""

    name: str
    fate: Fate
    why: str = ""


@dataclass(frozen=True)
class Comparison:
    """A job as it is stored, beside the one that a script would start. ``record``: None for one that has left none.
    ``epoch``: the last complete one, None where there is none. ``refusal``: the error with which the new job would
    refuse the state; None where all of it carries over, and for a job without a checkpoint.
    """

    job: PlannedJob
    record: JobRecord | None
    epoch: int | None
    parts: tuple[ComparedPart, ...]
    refusal: SqlStreamError | None

    @property
    def is_running(self) -> bool:
        """True while the job runs in some process."""
        return self.record is not None and self.record.is_running

    @property
    def is_new(self) -> bool:
        """True for a job that has no checkpoint yet."""
        return self.job.storage.read(PLAN) is None


def compared(job: PlannedJob) -> Comparison:
    """Compares a planned job with its checkpoint. Raises the errors of a checkpoint or record that cannot be read."""
    storage = job.storage
    record = read_record(storage)
    if record is not None:
        require_readable(record)
    stored, layout = storage.read(PLAN), stored_layout(storage)
    if stored is None or layout is None:
        return Comparison(job, record, None, (), None)
    now, refusal = _accepted(job, stored, layout)
    before = from_text(stored) or ()
    return Comparison(job, record, last_committed(storage), tuple(compared_parts(before, now)), refusal)


def _accepted(
    job: PlannedJob, stored: str, layout: StateLayout
) -> tuple[tuple[FingerprintPart, ...], SqlStreamError | None]:
    """The parts of the plan that the checkpoint is of, or of the first one and the error with which it is refused."""
    refusals: list[tuple[tuple[FingerprintPart, ...], SqlStreamError]] = []
    for plan in job.plans():
        try:
            parts = _parts(plan, job, layout)
        except UnsupportedError as error:  # the engine of the checkpoint does not run it
            refusals.append(((), error))
            continue
        refusal = _refusal(job, stored, parts, layout)
        if refusal is None:
            return parts, None
        refusals.append((parts, refusal))
    return refusals[0]


def _parts(plan: Root, job: PlannedJob, layout: StateLayout) -> tuple[FingerprintPart, ...]:
    declared = declared_states(CatalogFunctions(job.workspace.catalog))
    return fingerprint(physical_plan(plan, layout.settings()), declared)


def _refusal(
    job: PlannedJob, stored: str, parts: tuple[FingerprintPart, ...], layout: StateLayout
) -> SqlStreamError | None:
    settings = job.workspace.settings
    try:
        require_compatible(job.path, stored, parts)
        require_same(job.path, layout, settings["sqlstream.engine"], settings["pipeline.max-parallelism"])
    except SqlStreamError as error:
        return error
    return None


def compared_parts(before: tuple[FingerprintPart, ...], now: tuple[FingerprintPart, ...]) -> Iterator[ComparedPart]:
    """The parts of both fingerprints from the top, each once."""
    matcher = SequenceMatcher(None, [identity_of(p) for p in before], [identity_of(p) for p in now], autojunk=False)
    for tag, left, left_end, right, right_end in matcher.get_opcodes():
        gone, new = before[left:left_end], now[right:right_end]
        if tag == "equal" or _replace_each_other(gone, new):
            yield from (_compared(one, other) for one, other in zip(gone, new, strict=True))
        else:
            yield from (ComparedPart(part.name, Fate.GONE, described(part)) for part in gone)
            yield from (ComparedPart(part.name, Fate.NEW, described(part)) for part in new)


def _replace_each_other(gone: tuple[FingerprintPart, ...], new: tuple[FingerprintPart, ...]) -> bool:
    pairs = list(zip(gone, new, strict=False))
    return len(gone) == len(new) and all(one.kind == other.kind != "source" for one, other in pairs)


def _compared(before: FingerprintPart, now: FingerprintPart) -> ComparedPart:
    change = change_of(before, now)
    if change is None:
        return ComparedPart(now.name, Fate.CARRIES_OVER)
    return ComparedPart(now.name, Fate.DIFFERS, f"the checkpoint has {change.text}")


# --- as text -------------------------------------------------------------------------------------------------


def comparison_text(comparison: Comparison) -> str:
    """Lines that say what the job is, what becomes of each part of its plan, and whether its state is used."""
    lines = [f'job "{comparison.job.name}": {_state(comparison)}']
    lines += [f"  {part.fate:<13} {_line(part)}" for part in comparison.parts]
    return "\n".join([*lines, f"  {_verdict(comparison)}"])


def _line(part: ComparedPart) -> str:
    match part.fate:
        case Fate.DIFFERS:
            return f"{part.name}: {part.why}"
        case Fate.NEW | Fate.GONE:
            return part.why
    return part.name


def _state(comparison: Comparison) -> str:
    if comparison.is_new:
        return "it has no checkpoint yet"
    words = [comparison.record.status if comparison.record is not None else "without a record"]
    words.append("no complete epoch" if comparison.epoch is None else f"epoch {comparison.epoch:,}")
    if comparison.record is not None and (rows := comparison.record.life.progress.state_rows):
        words.append(f"{rows:,} {'entry' if rows == 1 else 'entries'} of state")
    return ", ".join(words)


def _verdict(comparison: Comparison) -> str:
    if comparison.is_new:
        return "the new query begins"
    if comparison.refusal is None:
        return "the new query goes on with this state, behind what its sources have read"
    return "the new query cannot go on with this state: Spark restores a query's state as a whole or not at all"
