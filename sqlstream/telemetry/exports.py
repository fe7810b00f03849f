"""The exports of this process: servers and senders that the jobs of several sessions share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeVar


class Export(Protocol):
    """What is open while a session uses it."""

    def close(self) -> None:
        """Called when the last session that used it has ended."""
        ...


_Export = TypeVar("_Export", bound=Export)


@dataclass
class _Shared:
    export: Export
    users: set[int] = field(default_factory=set)


class Exports:
    """Exports by their key, each made once, and closed when no user is left. Users are any objects."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, _Shared] = {}
        self._lock = Lock()

    def use(self, user: object, key: Hashable, make: Callable[[], _Export]) -> _Export:
        """The export with this key, which ``make`` makes for its first user."""
        with self._lock:
            shared = self._shared.get(key)
            if shared is None:
                shared = self._shared[key] = _Shared(make())
            shared.users.add(id(user))
            return shared.export  # type: ignore[return-value]  # a key belongs to one type of exports

    def release(self, user: object) -> None:
        """Close the exports that this user was the last to use."""
        with self._lock:
            ended = []
            for key, shared in [*self._shared.items()]:
                shared.users.discard(id(user))
                if not shared.users:
                    ended.append(self._shared.pop(key).export)
        for export in ended:
            export.close()


EXPORTS = Exports()
"""Those of this process."""
