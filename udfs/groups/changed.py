"""What a micro-batch changes in groups: the input of every aggregate strategy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlstream.udfs.kernel import Context

Indices = np.ndarray
Flags = np.ndarray


class StoredGroups(NamedTuple):
    """The stored rows of those groups that a micro-batch changes and that exist already. ``groups``: the number of
    each."""

    rows: pa.Table
    groups: Indices


@dataclass(frozen=True)
class Changed:
    """Rows that come or, where ``gone``, go, in order of arrival; ``groups``: the number of each row's group, of which
    there are ``count``. Groups are numbered by first appearance. ``keys``: KEY_HASH and the keys of each group."""

    rows: pa.Table
    gone: Flags | None
    groups: Indices
    count: int
    keys: pa.Table

    @property
    def signs(self) -> np.ndarray:
        """1 for rows that come, -1 for those that go."""
        return np.ones(len(self.groups), np.int64) if self.gone is None else np.where(self.gone, -1, 1)


class AggregateStrategy(ABC):
    """A way to compute some of the aggregate calls of a kernel. It says which columns the row of a group has for them,
    and may keep a state of its own beside that row."""

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The columns of the state of a group."""
        ...

    @property
    @abstractmethod
    def results(self) -> pa.Schema: ...

    @abstractmethod
    def updated(self, stored: StoredGroups, changed: Changed, context: Context) -> pa.Table:
        """``columns`` of all groups after the changes; ``stored`` has those of before."""
        ...

    @abstractmethod
    def finish(self, columns: pa.Table) -> pa.Table:
        """``results`` of groups from their ``columns``."""
        ...

    def forget(self, groups: pa.Table, context: Context) -> None:
        """Drops the state of groups that are over, because all their rows were retracted or their time to live has
        passed. ``groups`` has KEY_HASH and the keys. State that expires by itself may stay."""
        return
