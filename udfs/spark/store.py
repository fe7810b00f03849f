"""The state of a kernel for one key group and call: what is written goes to Spark once, at the end of the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream.udfs.kernel import StateKey
from sqlstream.udfs.spark.state_server import Entries


class CallStore:
    """Each entry is read at most once and written at most once.

    ``expected``: keys that are read at once, with the first that are asked for. Key groups are much alike, so what a
    call began with is a good guess for the next (``stages.Part``).
    """

    def __init__(self, entries: Entries, expected: Sequence[StateKey] = ()) -> None:
        self._entries = entries
        self._expected = tuple(expected)
        self._known: dict[StateKey, bytes | None] = {}
        self._written: dict[StateKey, bytes | None] = {}

    def get(self, keys: Sequence[StateKey]) -> list[bytes | None]:
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if missing:
            missing += [key for key in self._expected if key not in self._known and key not in missing]
            self._expected = ()
            self._known.update(zip(missing, self._entries.get(missing), strict=True))
        return [self._known[key] for key in keys]

    def put(self, entries: Mapping[StateKey, bytes | None]) -> None:
        self._known.update(entries)
        self._written.update(entries)

    def flush(self, deleted_timer: int | None, timer: int | None) -> None:
        """Writes the entries, and moves Spark's timer, all in one exchange."""
        kept = [(key, value) for key, value in self._written.items() if value is not None]
        removed = [key for key, value in self._written.items() if value is None]
        if kept or removed or deleted_timer is not None or timer is not None:
            self._entries.write(kept, removed, deleted_timer, timer)
        self._written.clear()
