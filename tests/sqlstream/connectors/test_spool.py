"""Spools: what is stored is there after any end of a process, and is read once."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.connectors.receiving import spool as spools
from sqlstream.connectors.receiving.receiver import Inbox
from sqlstream.connectors.receiving.spool import Message, Spool, are_closed, spools_to_copy
from sqlstream.errors import ConnectorError
from sqlstream.udfs.spool import messages_of


def messages(*values: str) -> list[Message]:
    return [Message(value.encode()) for value in values]


def read(spool: Spool, begin: int, end: int) -> list[str]:
    batches = messages_of(spool.ranges(begin, end), ("value",))
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def test_what_is_stored_is_there_after_a_restart(tmp_path):
    spool = Spool(tmp_path)
    spool.append(messages("a", "b"), "1")
    spool.append([Message(b"c", "id", "subject", {"k": "v"})])
    assert (spool.first, spool.end, spool.cursor) == (0, 3, "1")
    spool.close()
    again = Spool(tmp_path)
    assert (again.id, again.first, again.end, again.cursor) == (spool.id, 0, 3, "1")
    again.append([], "2")
    again.append(messages("d"))
    assert read(again, 0, 4) == ["a", "b", "c", "d"] and read(again, 1, 2) == ["b"] and read(again, 2, 4) == ["c", "d"]
    (batch,) = messages_of(again.ranges(2, 3), ("id", "subject", "headers", "number"))
    assert batch.to_pylist() == [{"id": "id", "subject": "subject", "headers": [("k", "v")], "number": 2}]
    assert again.cursor == "2"
    again.close()


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, 5), max_size=12), data=st.data())
def test_any_range_is_read_as_it_was_stored(tmp_path_factory, sizes, data):
    begin = data.draw(st.integers(0, sum(sizes)))
    end = data.draw(st.integers(begin, sum(sizes)))
    spool = Spool(tmp_path_factory.mktemp("spool"))
    stored: list[str] = []
    for size in sizes:
        new = [f"m{len(stored) + n}" for n in range(size)]
        spool.append(messages(*new))
        stored += new
    assert (read(spool, begin, end) if begin < end else []) == stored[begin:end]
    spool.close()


def test_a_message_that_is_cut_off_anywhere_was_never_stored(tmp_path):
    whole = Spool(tmp_path / "whole")
    whole.append(messages("a", "b"), "1")
    before = whole._files[0].size
    whole.append(messages("c"), "2")
    whole.close()
    (file,) = (tmp_path / "whole").glob("*.messages")
    content = file.read_bytes()
    for cut in (*range(before, before + 24), *range(before + 24, len(content), 31), len(content.rstrip(b"\0")) - 1):
        for rest in (content[:cut], content[:cut] + bytes(len(content) - cut)):
            folder = tmp_path / "cut"
            folder.mkdir(exist_ok=True)
            (folder / file.name).write_bytes(rest)
            spool = Spool(folder)
            assert (spool.end, spool.cursor) == (2, "1")
            spool.append(messages("d"))
            assert read(spool, 0, 3) == ["a", "b", "d"]
            spool.close()


def test_damage_before_the_end_is_an_error(tmp_path):
    spool = Spool(tmp_path)
    spool.append(messages("first message"))
    ranges = spool.ranges(0, 1)
    spool.append(messages("second message"))
    spool.close()
    (file,) = tmp_path.glob("*.messages")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"first message", b"first massage"))
    with pytest.raises(ConnectorError, match=r'SS662: file ".*" of messages that were received is damaged at byte \d+'):
        Spool(tmp_path)
    with pytest.raises(ConnectorError, match="damaged at byte"):
        list(messages_of(ranges, ("value",)))
    file.unlink()
    with pytest.raises(
        ConnectorError, match=r'SS662: file ".*" of messages that were received cannot be read: No such'
    ):
        list(messages_of(ranges, ("value",)))


def test_files_that_were_read_are_removed_and_their_end_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(spools, "_FILE_BYTES", 2000)
    spool = Spool(tmp_path, remembered=3)
    for n in range(40):
        spool.append([Message(b"m%d" % n, f"id{n}")], str(n))
    files = sorted(path.name for path in tmp_path.glob("*.messages"))
    assert len(files) > 3 and spool.waiting_bytes > 40 * 300
    spool.remove(25)
    assert spool.first <= 25 < spool.first + 10 and read(spool, 25, 40) == [f"m{n}" for n in range(25, 40)]
    waiting = spool.waiting_bytes
    with pytest.raises(ConnectorError, match=r'SS662: messages 0 to 4 are not in ".*", which has \d+ to 40'):
        spool.ranges(0, 4)
    spool.remove(40)
    assert len(list(tmp_path.glob("*.messages"))) == 1 and spool.waiting_bytes == 0 < waiting
    spool.close()
    again = Spool(tmp_path, remembered=3)
    assert (again.id, again.end, again.cursor) == (spool.id, 40, "39")
    assert [n for n in range(40) if again.knows(f"id{n}")] == [37, 38, 39]
    again.close()


def test_a_disk_that_is_full_stores_nothing(tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    spool.append(messages("a"))
    write = spools._write

    def part(content, frame):
        content.write(frame[:-3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spools, "_write", part)
    with pytest.raises(OSError, match="No space left"):
        spool.append(messages("b"), "lost")
    assert (spool.end, spool.cursor) == (1, None)
    monkeypatch.setattr(spools, "_write", write)
    spool.append(messages("c"))
    spool.close()
    again = Spool(tmp_path)
    assert read(again, 0, 2) == ["a", "c"]
    again.close()


def _hold(folder: Path, ready, leave) -> None:
    spool = Spool(folder)
    ready.set()
    leave.wait(20)
    spool.close()


def test_one_process_has_a_spool_open(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, leave = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path / "received" / "t", ready, leave))
    other.start()
    assert ready.wait(20)
    with pytest.raises(ConnectorError, match=r'SS663: another process has the messages in ".*" open'):
        Spool(tmp_path / "received" / "t", patience_seconds=0.1)
    assert not are_closed(tmp_path, 0.1)
    leave.set()
    Spool(tmp_path / "received" / "t").close()
    other.join(20)
    assert are_closed(tmp_path, 0.1)
    assert spools_to_copy(tmp_path) == [f"received/t/{0:020d}.messages"]


# --- inboxes ----------------------------------------------------------------------------------------------------


class Slow(Spool):
    """Counts how often it writes, and lets others come meanwhile."""

    writes = 0

    def append(self, messages: Sequence[Message], cursor: str | None = None) -> None:
        import time

        time.sleep(0.02)
        self.writes += 1
        super().append(messages, cursor)


def test_what_comes_together_is_stored_together(tmp_path):
    spool = Slow(tmp_path)

    async def run() -> None:
        inbox = Inbox(spool, 1 << 30)
        writing = asyncio.ensure_future(inbox.write())
        await inbox.put(messages("first"), "0")
        await asyncio.gather(*(inbox.store(messages(f"m{n}"), f"{n}") for n in range(100)))
        assert spool.end == 101 and inbox.cursor == "99"
        writing.cancel()

    asyncio.run(run())
    assert spool.writes < 5
    assert read(spool, 0, 101) == ["first", *(f"m{n}" for n in range(100))]
    spool.close()


def test_the_same_request_at_the_same_time_is_stored_once(tmp_path):
    spool = Slow(tmp_path, remembered=10)

    async def run() -> None:
        inbox = Inbox(spool, 1 << 30)
        writing = asyncio.ensure_future(inbox.write())
        same = [Message(b"m", "id")]
        await asyncio.gather(*(inbox.store_once("id", same) for _ in range(5)))
        assert spool.end == 1
        await inbox.store_once("id", same)
        await inbox.store_once("other", [Message(b"n", "other")])
        writing.cancel()

    asyncio.run(run())
    assert read(spool, 0, spool.end) == ["m", "n"]
    spool.close()


def test_a_full_spool_stores_nothing_until_some_was_read(tmp_path):
    spool = Spool(tmp_path)

    async def run() -> None:
        inbox = Inbox(spool, 2000)
        writing = asyncio.ensure_future(inbox.write())
        for n in range(20):
            if inbox.is_full:
                break
            await inbox.store(messages(f"{n}" * 100))
        assert inbox.is_full
        waiting = asyncio.ensure_future(inbox.store(messages("late")))
        await asyncio.sleep(0.15)
        assert not waiting.done()
        spool.remove(spool.end)
        await waiting
        writing.cancel()

    asyncio.run(run())
    assert read(spool, spool.end - 1, spool.end) == ["late"]
    spool.close()
