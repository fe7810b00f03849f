"""Messages of transactions that are received before they are committed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.changes import spools
from sqlstream.connectors.changes.spools import Spool
from sqlstream.udfs.database_changes import INDEX, windows

HEAD, DONE = b"begin", b"ended"


def messages(spool: Spool) -> list[bytes]:
    """What a task reads of the file."""
    found = []
    for data, starts in windows(str(spool.path), 0, 0, spool.count):
        ends = np.append(starts[1:], len(data))
        found += [data[begin:end].tobytes() for begin, end in zip(starts, ends, strict=True)]
    return found


@pytest.mark.parametrize("at_once", [0, 40, 1 << 20])
@given(st.lists(st.one_of(st.binary(max_size=30), st.sampled_from(["savepoint", "release", "rollback"]))))
def test_what_is_left_is_what_was_not_rolled_back(at_once: int, steps: list[bytes | str]):
    """Sub-transactions have owners 2, 3 and so on, in the order in which they begin; those that end are in others."""
    left, owners, next_owner = list[tuple[list[int], bytes]](), [1], 2
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(spools, "_BYTES_AT_ONCE", at_once)
        spool = Spool(Path(folder) / "log-1", HEAD)
        within: dict[int, list[int]] = {1: [1]}
        for step in steps:
            if isinstance(step, bytes):
                spool.add(owners[-1], step)
                left.append((within[owners[-1]], step))
            elif step == "savepoint":
                owners.append(next_owner)
                within[next_owner] = [*within[owners[-2]], next_owner]
                next_owner += 1
            elif len(owners) > 1:
                ended = owners.pop()
                if step == "rollback":
                    for owner in sorted((o for o in within if ended in within[o]), reverse=True):
                        spool.undo(owner)  # as the server says it of all that are in it, the last one first
                    left = [(path, message) for path, message in left if ended not in path]
        spool.commit(DONE)
        assert messages(spool) == [DONE, *(message for _, message in left)]
        assert spool.size == sum(map(len, messages(spool)))


def test_the_last_descriptions_that_were_not_rolled_back_are_known(tmp_path: Path):
    spool = Spool(tmp_path / "log-1", HEAD)
    assert spool.relations == {}
    spool.add(1, b"one", 7)
    spool.add(2, b"two", 7)
    spool.add(2, b"other", 8)
    assert spool.relations == {7: b"two", 8: b"other"}
    spool.undo(3)
    spool.undo(2)
    assert spool.relations == {7: b"one"}
    spool.discard()
    assert not list(tmp_path.glob(f"*{INDEX}"))
