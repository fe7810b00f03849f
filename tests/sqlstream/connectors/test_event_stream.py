"""Server-sent events in bytes: as the HTML standard says, wherever chunks cut them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.receiving.event_stream import Event, EventStream, EventTooLarge

EXAMPLES = {
    b"data: a\n\n": [Event(b"a", "message", "")],
    b"data: a\n": [],
    b"data:a\ndata: b\ndata\n\n": [Event(b"a\nb\n", "message", "")],
    b"data:  two blanks\n\n": [Event(b" two blanks", "message", "")],
    b"data\n\n": [Event(b"", "message", "")],
    b": comment\n\n:\ndata: a\n\n": [Event(b"a", "message", "")],
    b"event: add\ndata: 1\n\nevent: add\n\ndata: 2\n\n": [Event(b"1", "add", ""), Event(b"2", "message", "")],
    b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n": [
        Event(b"a", "message", "1"),
        Event(b"b", "message", "1"),
        Event(b"c", "message", ""),
    ],
    b"id: 1\n\ndata: b\n\n": [Event(b"b", "message", "1")],
    b"id: 1\0\ndata: a\n\n": [Event(b"a", "message", "")],
    b"data: a\r\ndata: b\rdata: c\r\n\r\n": [Event(b"a\nb\nc", "message", "")],
    b"data: a\r\rdata: b\r\r": [Event(b"a", "message", ""), Event(b"b", "message", "")],
    "\ufeffdata: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(): [
        Event("a\u2028b\u2029c\u0085d\x0be\x0cf".encode(), "message", "")
    ],
    b"\n\ndata: a\n\n": [Event(b"a", "message", "")],
    "data: größer 🚀\nid: ü\nevent: ä\n\n".encode(): [Event("größer 🚀".encode(), "ä", "ü")],
    b"unknown: x\ndata: a\n\n": [Event(b"a", "message", "")],
    b"data: \xff\n\n": [Event(b"\xff", "message", "")],
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_events_are_those_of_the_standard(text):
    stream = EventStream(1000)
    stream.begin()
    assert [*stream.events(text)] == EXAMPLES[text]


@given(texts=st.lists(st.sampled_from([*EXAMPLES]), max_size=6), data=st.data())
def test_chunks_may_end_anywhere(texts, data):
    text = b"".join(text.removeprefix(b"\xef\xbb\xbf") for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    whole, cut = EventStream(1000), EventStream(1000)
    expected = [*whole.events(text)]
    found: list[Event] = []
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += cut.events(text[begin:end])
    assert found == expected and cut.id == whole.id


@pytest.mark.parametrize("size", range(1, 12))
def test_a_mark_of_the_byte_order_may_be_cut(size):
    text, stream = "\ufeffdata: a\n\n".encode(), EventStream(1000)
    found = [e for i in range(0, len(text), size) for e in stream.events(text[i : i + size])]
    assert found == [Event(b"a", "message", "")]


def test_retry_counts_with_digits_alone():
    stream = EventStream(10_000)
    assert [*stream.events(b"retry: 1500\nretry: 2s\nretry:\nretry: -1\n\n")] == []
    assert stream.retry_ms == 1500
    assert [*stream.events(b"retry: " + b"9" * 6000 + b"\n\ndata: a\n\n")] == [Event(b"a", "message", "")]
    assert stream.retry_ms == 86_400_000


def test_what_was_not_whole_is_gone_with_its_connection():
    stream = EventStream(1000)
    assert [*stream.events(b"id: 1\ndata: a\n\nid: 2\ndata: lost\nevent: x\n")] == [Event(b"a", "message", "1")]
    assert stream.id == "1"
    stream.begin()
    assert [*stream.events(b"data: b\n\n")] == [Event(b"b", "message", "1")]


@pytest.mark.parametrize("text", [b"data: 12345678901\n\n", b"data: 12345\ndata: 123456\n\n", b"data: 123456789012"])
def test_events_have_a_limit(text):
    with pytest.raises(EventTooLarge):
        list(EventStream(10).events(text))
    assert [*EventStream(20).events(b"data: 123456789\n\n")] == [Event(b"123456789", "message", "")]


def test_a_line_may_end_around_a_chunk_without_bytes():
    stream = EventStream(1000)
    found = [e for chunk in (b"data: a\r", b"", b"\n", b"data: b\r", b"\n\r\n") for e in stream.events(chunk)]
    assert found == [Event(b"a\nb", "message", "")]
