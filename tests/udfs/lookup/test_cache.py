from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqlstream.udfs.lookup.answers import LookupOutcome
from sqlstream.udfs.lookup.options import Cache
from sqlstream.udfs.lookup.requests import AnswerCache

FOUND, NOTHING = LookupOutcome([(1,)]), LookupOutcome([])


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def cached(clock=None, **options):
    return AnswerCache(Cache(**options), clock or Clock())


def test_the_keys_that_were_used_last_stay():
    cache = cached(rows=2)
    cache.put("a", FOUND)
    cache.put("b", FOUND)
    assert cache.get(["a"]) == [FOUND]
    cache.put("c", FOUND)
    assert cache.get("abc") == [FOUND, None, FOUND]


def test_answers_are_forgotten_after_their_time():
    clock = Clock()
    cache = cached(clock, rows=9, ttl_ms=1000, negative_ttl_ms=100)
    cache.put("a", FOUND)
    cache.put("b", NOTHING)
    clock.now = 0.099
    assert cache.get("ab") == [FOUND, NOTHING]
    clock.now = 0.1
    assert cache.get("ab") == [FOUND, None]
    clock.now = 1.0
    assert cache.get("ab") == [None, None]
    assert len(cache) == 0


def test_keys_without_rows_have_the_time_of_the_others_unless_they_have_their_own():
    clock = Clock()
    cache = cached(clock, rows=9, ttl_ms=1000)
    cache.put("a", NOTHING)
    clock.now = 0.999
    assert cache.get("a") == [NOTHING]
    clock.now = 1.0
    assert cache.get("a") == [None]


def test_without_a_time_answers_stay():
    clock = Clock()
    cache = cached(clock, rows=9)
    cache.put("a", FOUND)
    clock.now = 1e12
    assert cache.get("a") == [FOUND]


def test_a_time_of_zero_remembers_nothing():
    cache = cached(rows=9, negative_ttl_ms=0)
    cache.put("a", NOTHING)
    cache.put("b", FOUND)
    assert cache.get("ab") == [None, FOUND]


STEPS = st.lists(st.tuples(st.sampled_from(("get", "put")), st.integers(0, 5)), max_size=40)


@given(st.integers(1, 4), STEPS)
def test_it_holds_the_keys_of_a_plain_list_in_order_of_use(rows, steps):
    cache = cached(rows=rows)
    used: list[int] = []
    for what, key in steps:
        known = key in used
        if known or what == "put":
            used = [*(other for other in used if other != key), key][-rows:]
        if what == "put":
            cache.put(key, FOUND)
        else:
            assert cache.get([key]) == [FOUND if known else None]
    assert [cache.get([key])[0] is not None for key in range(6)] == [key in used for key in range(6)]
