"""What a split says of its file comes back as it was, and deleted rows are found in each batch."""

from __future__ import annotations

import numpy as np
import pytest

from sqlstream.udfs.files import details as file_details
from sqlstream.udfs.files.details import DETAILS, FileDetails, packed_positions


def test_deleted_rows_are_unpacked_once_for_all_batches_of_a_file(monkeypatch: pytest.MonkeyPatch):
    unpacked: list[str] = []
    unpack = file_details.positions

    def counted(packed: str) -> np.ndarray:
        unpacked.append(packed)
        return unpack(packed)

    monkeypatch.setattr(file_details, "positions", counted)
    details = FileDetails(deleted=packed_positions(np.array([11, 3, 3, 20])))
    kept = [details.remaining(first, 10) for first in (0, 10, 20)]
    assert [None if rows is None else rows.tolist() for rows in kept] == [
        [0, 1, 2, 4, 5, 6, 7, 8, 9], [0, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ]  # fmt: skip
    assert len(unpacked) == 1


def test_details_come_back_from_their_text_also_where_they_were_used():
    details = FileDetails("a.parquet", {"day": "2024-01-31"}, {"a": "col-1"}, {"b": 7}, packed_positions(np.array([1])))
    details.remaining(0, 3)
    assert FileDetails.of_split({DETAILS: details.to_text()}) == details
    assert FileDetails.of_split({DETAILS: None}) is None


def test_a_file_without_deleted_rows_has_all():
    assert FileDetails().remaining(0, 5) is None
