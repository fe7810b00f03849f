"""The order of rows of one time, by other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.udfs.over.line import Indices
from sqlstream.udfs.sorting import in_order


@dataclass(frozen=True)
class Tie:
    """A column of the input that orders rows of one time."""

    column: str
    descending: bool = False
    nulls_first: bool = True


def tie_ranks(rows: pa.Table, ties: Sequence[Tie]) -> Indices:
    """The rank of each row by its ties alone; equal ones have one."""
    ranks = [_ranks(rows.column(tie.column), tie) for tie in ties]
    order = in_order(ranks)
    begins = np.logical_or.reduce([np.diff(rank[order], prepend=-1) != 0 for rank in ranks])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(begins)
    return rank


def ranked(values: Indices) -> Indices:
    """The place of each value among all of them, in order."""
    places = np.empty(len(values), np.int64)
    places[in_order([values])] = np.arange(len(values))
    return places


def _ranks(column: pa.ChunkedArray, tie: Tie) -> Indices:
    """The rank of each row by one tie, from 1 on."""
    rank = pc.rank(column, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    rank = int(rank.max(initial=0)) + 1 - rank if tie.descending else rank
    is_null = np.asarray(column.is_null())
    return np.where(is_null, 0 if tie.nulls_first else len(rank) + 1, rank) + 1
