"""How a job keeps its state: on which gear, in how many key groups, and together for operators on the same keys or not.

Its checkpoint fixes all of this.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlstream.errors import ExecutionError, repeating
from sqlstream.jobs.checkpoints.damage import damaged
from sqlstream.jobs.checkpoints.storage import Storage
from sqlstream.udfs.texts import json_of

OTHER_GEAR = repeating("SS424")
OTHER_KEY_GROUPS = repeating("SS425")

DEFAULT_KEY_GROUPS = 64
AUTO = "auto"

FILE = "layout.json"
_NEW = "('execution.checkpointing.dir')"


@dataclass(frozen=True)
class StateLayout:
    """``gear`` is ``columnar`` or ``native``; the others matter on the columnar one only.

    ``chained``: operators on the same keys run in one call. Checkpoints that do not say so are older than that.
    """

    gear: str
    key_groups: int = DEFAULT_KEY_GROUPS
    chained: bool = False


def stored_layout(storage: Storage) -> StateLayout | None:
    """The layout of a checkpoint; None where no job has started with it. SS459 where it cannot be read."""
    text = storage.read(FILE)
    try:
        return None if text is None else StateLayout(**json_of(text))
    except (ValueError, TypeError) as error:
        raise damaged(storage.location(FILE), f"It is no layout of state: {error}.") from error


def store_layout(storage: Storage, layout: StateLayout) -> None:
    storage.write(FILE, json.dumps(asdict(layout)))


def require_same(path: str, stored: StateLayout, gear: str, key_groups: int | None) -> None:
    """ExecutionError SS424, SS425 where settings ask for another layout; ``auto`` and None take what is there."""
    if gear not in (AUTO, stored.gear):
        message = f'checkpoint "{path}" holds the state of the gear "{stored.gear}", not of "{gear}"'
        hint = f"SET 'sqlstream.gear' = '{stored.gear}' to go on, or start in a new directory {_NEW}."
        raise ExecutionError(OTHER_GEAR, message, hint=hint)
    if key_groups not in (None, stored.key_groups):
        message = f'checkpoint "{path}" has its state in {stored.key_groups} key groups, not in {key_groups}'
        hint = f"RESET 'pipeline.max-parallelism' to go on, or start in a new directory {_NEW}."
        raise ExecutionError(OTHER_KEY_GROUPS, message, hint=hint)
