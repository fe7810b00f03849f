"""Events of Nexmark as Arrow tables: the distributions of the benchmark's own generator, without a loop over rows.

Of 50 events one opens a person, three open an auction and 46 are bids. Each value is a hash of the seed, the event's
number and the value's name, so a range of events has the same rows wherever it begins and ends.

Source: ``NexmarkConfiguration`` and ``generator/model`` of https://github.com/nexmark/nexmark, with their defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]

PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS
"""Events after which the proportions repeat: first the person, then the auctions, then the bids."""

FIRST_PERSON_ID = FIRST_AUCTION_ID = 1000
FIRST_CATEGORY_ID, CATEGORIES = 10, 5
HOT_BATCH = 100
"""One of so many persons and auctions is hot: the first auction and seller, the second person for bidders."""
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS, HOT_CHANNELS = 2, 4, 4, 2
"""All but one of so many choices are hot."""
IN_FLIGHT_AUCTIONS, ACTIVE_PERSONS, ID_LEAD = 100, 1000, 10
"""Bids are for the last auctions and of the last persons, or for some that do not exist yet."""
START_MS = 1_700_000_000_000
CHANNELS = 10_000
HOT_CHANNEL_NAMES = ("Google", "Facebook", "Baidu", "Apple")

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
           "Cheyenne")  # fmt: skip
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_PERSON_BYTES, _AUCTION_BYTES, _BID_BYTES = 200, 500, 100
_LETTERS = 1 << 16
_TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Generator:
    """``rate``: events per second of event time."""

    seed: int = 42
    rate: int = 10_000

    def persons(self, first: int, end: int) -> pa.Table:
        """The persons among the events from ``first`` to ``end`` (exclusive), as are those of the other tables."""
        events = _of_kind(first, end, 0, PERSONS)
        email = _joined(self._text(events, "mailbox", 3, 7), "@", self._text(events, "domain", 3, 5), ".com")
        digits = [_padded(self._below(events, f"card{i}", 10_000)) for i in range(4)]
        columns = {
            "id": pa.array(_last_person(events) + FIRST_PERSON_ID),
            "name": _joined(
                self._one_of(events, "first name", _FIRST_NAMES), " ", self._one_of(events, "last name", _LAST_NAMES)
            ),
            "emailAddress": email,
            "creditCard": _joined(digits[0], " ", digits[1], " ", digits[2], " ", digits[3]),
            "city": self._one_of(events, "city", _CITIES),
            "state": self._one_of(events, "state", _STATES),
        }
        times = {"dateTime": _times(self._at(events))}
        return pa.table(columns | times | {"extra": self._extra(events, columns, _PERSON_BYTES)})

    def auctions(self, first: int, end: int) -> pa.Table:
        events = _of_kind(first, end, PERSONS, AUCTIONS)
        at = self._at(events)
        ahead = IN_FLIGHT_AUCTIONS * EPOCH // AUCTIONS
        horizon = np.maximum(2 * (self._at(events + ahead) - at), 1)
        initial = self._price(events, "initial")
        hot_seller = _last_person(events) // HOT_BATCH * HOT_BATCH
        is_hot = self._below(events, "hot seller", HOT_SELLERS) > 0
        seller = np.where(is_hot, hot_seller, self._person(events, "seller")) + FIRST_PERSON_ID
        columns = {
            "id": pa.array(_last_auction(events) + FIRST_AUCTION_ID),
            "itemName": self._text(events, "item", 3, 20),
            "description": self._text(events, "description", 3, 100),
            "initialBid": pa.array(initial),
            "reserve": pa.array(initial + self._price(events, "reserve")),
            "dateTime": _times(at),
            "expires": _times(at + 1 + self._below(events, "length", horizon)),
            "seller": pa.array(seller),
            "category": pa.array(FIRST_CATEGORY_ID + self._below(events, "category", CATEGORIES)),
        }
        return pa.table(columns | {"extra": self._extra(events, columns, _AUCTION_BYTES)})

    def bids(self, first: int, end: int) -> pa.Table:
        events = _of_kind(first, end, PERSONS + AUCTIONS, BIDS)
        last = _last_auction(events)
        oldest = np.maximum(last - IN_FLIGHT_AUCTIONS, 0)
        any_auction = oldest + self._below(events, "auction", last - oldest + 1 + ID_LEAD)
        is_hot = self._below(events, "hot auction", HOT_AUCTIONS) > 0
        auction = np.where(is_hot, last // HOT_BATCH * HOT_BATCH, any_auction) + FIRST_AUCTION_ID
        hot_bidder = _last_person(events) // HOT_BATCH * HOT_BATCH + 1
        is_hot = self._below(events, "hot bidder", HOT_BIDDERS) > 0
        bidder = np.where(is_hot, hot_bidder, self._person(events, "bidder")) + FIRST_PERSON_ID
        is_hot = self._below(events, "hot channel", HOT_CHANNELS) > 0
        hot = self._below(events, "which hot channel", len(HOT_CHANNEL_NAMES))
        channel = np.where(is_hot, hot, len(HOT_CHANNEL_NAMES) + self._below(events, "channel", CHANNELS))
        names, urls = self._channels
        columns = {
            "auction": pa.array(auction),
            "bidder": pa.array(bidder),
            "price": pa.array(self._price(events, "price")),
        }
        described = {"channel": names.take(pa.array(channel)), "url": urls.take(pa.array(channel))}
        times = {"dateTime": _times(self._at(events))}
        # The benchmark's own count of a bid's size leaves channel and url out.
        return pa.table(columns | described | times | {"extra": self._extra(events, columns, _BID_BYTES)})

    def side_input(self) -> pa.Table:
        """The bounded table of q13: 10,000 keys."""
        keys = np.arange(10_000)
        return pa.table({"key": pa.array(keys), "value": pa.array(keys).cast(pa.string())})

    @cached_property
    def _channels(self) -> tuple[pa.Array, pa.Array]:
        """Names and URLs, first of the hot ones. Nine in ten of the others have the channel in the URL."""
        numbers = np.arange(CHANNELS + len(HOT_CHANNEL_NAMES))
        parts = [self._text(numbers, f"directory{i}", 3, 5) for i in range(3)]
        url = _joined("https://www.nexmark.com/", parts[0], "/", parts[1], "/", parts[2], "/item.htm?query=1")
        others = numbers - len(HOT_CHANNEL_NAMES)
        id_text = _joined("&channel_id=", pa.array(self._below(numbers, "channel id", 1 << 31)).cast(pa.string()))
        has_id = (others >= 0) & (self._below(numbers, "has id", 10) > 0)
        suffix = pc.if_else(pa.array(has_id), id_text, "")
        cold = _joined("channel-", pa.array(others[len(HOT_CHANNEL_NAMES) :]).cast(pa.string()))
        return pa.concat_arrays([pa.array(HOT_CHANNEL_NAMES), cold]), _joined(url, suffix)

    @cached_property
    def _letters(self) -> npt.NDArray[np.uint8]:
        numbers = np.arange(_LETTERS)
        return (ord("a") + self._below(numbers, "letters", 26)).astype(np.uint8)

    def _at(self, events: Longs) -> Longs:
        return START_MS + events * 1000 // self.rate

    def _hash(self, events: Longs, name: str) -> npt.NDArray[np.uint64]:
        """SplitMix64, of which each named value has a sequence of its own."""
        start = np.uint64((self.seed * 0x9E3779B97F4A7C15 + (crc32(name.encode()) << 32)) & 0xFFFFFFFFFFFFFFFF)
        return _mixed(_mixed(events.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start) ^ start)

    def _below(self, events: Longs, name: str, bound: int | Longs) -> Longs:
        return ((self._hash(events, name) >> np.uint64(1)).astype(np.int64)) % bound

    def _price(self, events: Longs, name: str) -> Longs:
        """From 1 to a million dollars in cents, each power of ten as often as the others."""
        share = (self._hash(events, name) >> np.uint64(11)) / float(1 << 53)
        return np.rint(10 ** (share * 6) * 100).astype(np.int64)

    def _person(self, events: Longs, name: str) -> Longs:
        existing = _last_person(events) + 1
        active = np.minimum(existing, ACTIVE_PERSONS)
        return existing - active + self._below(events, name, active + ID_LEAD)

    def _one_of(self, events: Longs, name: str, words: tuple[str, ...]) -> pa.Array:
        return pa.array(words).take(pa.array(self._below(events, name, len(words))))

    def _text(self, events: Longs, name: str, least: int, below: int) -> pa.Array:
        return self._letters_of(events, name, least + self._below(events, f"{name} length", below - least))

    def _extra(self, events: Longs, columns: dict[str, pa.Array], mean_bytes: int) -> pa.Array:
        """Fills the row up to ``mean_bytes`` in the mean, give or take a fifth of what is missing."""
        size = np.full(len(events), 8, np.int64)  # dateTime
        for column in columns.values():
            is_text = pa.types.is_string(column.type)
            size += pc.binary_length(column).to_numpy(zero_copy_only=False) if is_text else 8
        missing = np.maximum(mean_bytes - size, 0)
        delta = np.rint(missing * 0.2).astype(np.int64)
        length = missing - delta + self._below(events, "extra length", np.maximum(2 * delta, 1))
        return self._letters_of(events, "extra", length)

    def _letters_of(self, events: Longs, name: str, lengths: Longs) -> pa.Array:
        """Pieces of one long random text."""
        ends = np.concatenate([[0], np.cumsum(lengths)])
        starts = self._below(events, name, _LETTERS - 1024)
        letters = np.repeat(starts - ends[:-1], lengths) + np.arange(ends[-1])
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(self._letters[letters])]
        return pa.Array.from_buffers(pa.string(), len(events), buffers)


TABLES: dict[str, Callable[[Generator, int, int], pa.Table]] = {
    "person": Generator.persons,
    "auction": Generator.auctions,
    "bid": Generator.bids,
}


def _mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _of_kind(first: int, end: int, offset: int, count: int) -> Longs:
    events = np.arange(first, end, dtype=np.int64)
    place = events % EPOCH
    return events[(place >= offset) & (place < offset + count)]


def _last_person(events: Longs) -> Longs:
    """The number of the person of the event's epoch, which is the epoch's first event."""
    return events // EPOCH


def _last_auction(events: Longs) -> Longs:
    """The number of the newest auction, itself if the event is one; only of auctions and bids."""
    return events // EPOCH * AUCTIONS + np.minimum(events % EPOCH - PERSONS, AUCTIONS - 1)


def _times(ms: Longs) -> pa.Array:
    return pa.array(ms * 1000).cast(_TIME)


def _padded(numbers: Longs) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 4, "0")


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
