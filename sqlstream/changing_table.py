"""The table that the changes of an updating result amount to, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_ADDS = ("+I", "+U")


class ChangingTable:
    """The rows that are left of a changelog whose first column is the kind of each row.

    ``key`` names the columns, by position behind the kind, that a change replaces a row by; the row then keeps its
    place. Without a key, equal rows are counted, and -U or -D takes one of them away.
    """

    def __init__(self, key: Sequence[int] = ()) -> None:
        self._key = [str(position) for position in key]
        self._rows: pa.Table | None = None

    def apply(self, changes: pa.Table) -> pa.Table:
        """The rows after these changes as well, without their kinds; those that have been there longest come first."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        kinds, changed = changes.column(0), changes.remove_column(0)
        names = changed.column_names
        changed = changed.rename_columns([str(position) for position in range(changed.num_columns)])  # names may repeat
        adds = np.asarray(pc.is_in(kinds, pa.array(_ADDS)))
        if self._rows is not None:
            adds = np.concatenate((np.ones(self._rows.num_rows, np.bool_), adds))
            changed = pa.concat_tables([self._rows, changed])
        self._rows = changed.take(pa.array(self._left(changed, adds)))
        return self._rows.rename_columns(names)

    def _left(self, changed: pa.Table, adds: np.ndarray) -> np.ndarray:
        """The indices of the rows that are left, in the order in which their key or value appeared."""
        import numpy as np

        from sqlstream.udfs.keys import dense_ids  # numpy is loaded for updating results alone

        numbered = dense_ids(changed, self._key or changed.column_names)
        if self._key:
            last = np.zeros(numbered.count, np.int64)
            np.maximum.at(last, numbered.ids, np.arange(len(adds)))
            kept: np.ndarray = last[adds[last]]
            return kept
        count = np.bincount(numbered.ids, np.where(adds, 1, -1), numbered.count).astype(np.int64)
        assert (count >= 0).all(), "a result takes no row back that it has not given"
        return np.repeat(numbered.first, count)
