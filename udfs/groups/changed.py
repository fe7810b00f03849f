"""What a micro-batch changes of groups, as all parts of their state see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.kernel import ROW_KIND, Context

Indices = np.ndarray
Flags = np.ndarray

_WITHDRAWS = pa.array(["-U", "-D"])


class StoredGroups(NamedTuple):
    """What the state has of the groups that a micro-batch changes, where it has them: ``groups`` are their numbers."""

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
    """Some of the aggregate calls of a kernel, which are computed alike: what the state keeps of them beside the key of
    a group, and what they keep elsewhere."""

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
        """These groups, of which ``groups`` has KEY_HASH and the keys, are over: their rows have gone, or their time is
        up. What is kept elsewhere goes, unless it ends by itself."""
        return


def gone_of(rows: pa.Table) -> Flags | None:
    """True for rows that go; None where all of them come."""
    if ROW_KIND not in rows.schema.names:
        return None
    gone = np.asarray(pc.is_in(rows.column(ROW_KIND), value_set=_WITHDRAWS).to_numpy(), np.bool_)
    return gone if gone.any() else None
