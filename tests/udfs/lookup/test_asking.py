"""The asker on an event loop whose time passes at once: when what is asked, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from sqlstream.udfs.lookup import asking
from sqlstream.udfs.lookup.answers import LookupOutcome
from sqlstream.udfs.lookup.asking import Asker
from sqlstream.udfs.lookup.metrics import Meter
from sqlstream.udfs.lookup.options import Cache, LookupOptions, OnError, OnTimeout, Retry
from sqlstream.udfs.lookup.requests import AnswerCache, Waiter
from tests.udfs.lookup.scripted import Script, VirtualLoop, scripted, values

NULL = {"on_timeout": OnTimeout.NULL, "on_error": OnError.NULL}
MISS = LookupOutcome(())


@dataclass
class Desk:
    """An asker and what it has answered: (virtual ms, key, outcome)."""

    script: Script
    loop: VirtualLoop
    asker: Asker
    meter: Meter = field(default_factory=Meter)
    answers: list[tuple[float, int, LookupOutcome]] = field(default_factory=list)
    waiters: list[Waiter] = field(default_factory=list)

    def ask(self, *keys):
        asked = [((key,), Waiter(self._answered, key, self.meter)) for key in keys]
        self.waiters += [waiter for _, waiter in asked]
        self.asker.ask(asked)

    def _answered(self, waiter, outcome):
        self.answers.append((self.now, waiter.key_id, outcome))

    @property
    def now(self):
        return round(self.loop.time() * 1000, 3)

    @property
    def rows(self):
        return [(time, key, outcome.rows) for time, key, outcome in self.answers]

    def run(self, ms=1_000_000.0):
        self.loop.run_until_complete(asyncio.sleep(ms / 1000))


@pytest.fixture
def desk():
    loops = []

    def make(script, **options):
        loop = VirtualLoop()
        loops.append(loop)
        source = scripted("desk", script)
        actual = LookupOptions(**options)
        cache = AnswerCache(actual.cache, loop.time) if actual.cache else None
        return Desk(script, loop, Asker(source, actual, source.open, cache, loop))

    yield make
    for loop in loops:
        loop.close()


def after(ms):
    return lambda key: ms


def test_keys_are_asked_at_the_same_time_up_to_the_capacity(desk):
    asking = desk(Script(values(1, 2, 3), after(10)), capacity=2)
    asking.ask(1, 2, 3)
    asking.run()
    assert asking.script.asked == [(0, [(1,)]), (0, [(2,)]), (10, [(3,)])]
    assert [(time, key) for time, key, _ in asking.rows] == [(10, 1), (10, 2), (20, 3)]
    assert asking.asker.is_idle


def test_a_key_under_way_is_not_asked_again(desk):
    asking = desk(Script(values(1), after(10)))
    asking.ask(1)
    asking.run(5)
    asking.ask(1)
    asking.run()
    assert asking.script.keys_asked == [(1,)]
    assert asking.rows == [(10, 1, [(1, "v1")])] * 2


def test_time_begins_with_the_first_attempt_not_with_the_wait_for_capacity(desk):
    asking = desk(Script(values(1, 2), after(80)), capacity=1, timeout_ms=100, **NULL)
    asking.ask(1, 2)
    asking.run()
    assert [(time, key, bool(rows)) for time, key, rows in asking.rows] == [(80, 1, True), (160, 2, True)]


def test_a_row_that_joins_has_its_own_time(desk):
    asking = desk(Script(values(1), after(120)), timeout_ms=100, **NULL)
    asking.ask(1)
    asking.run(50)
    asking.ask(1)
    asking.run()
    assert asking.rows == [(100, 1, ()), (120, 1, [(1, "v1")])]
    assert asking.script.cancelled == []


def test_a_request_nobody_waits_for_is_cancelled_and_its_capacity_is_free(desk):
    asking = desk(Script(values(1, 2), lambda key: 1000 if key == (1,) else 1), capacity=1, timeout_ms=100, **NULL)
    asking.ask(1, 2)
    asking.run()
    assert asking.script.cancelled == [(1,)]
    assert asking.script.asked == [(0, [(1,)]), (100, [(2,)])]
    assert asking.asker.is_idle


def test_the_timer_of_an_answered_request_is_gone(desk):
    asking = desk(Script(values(1), after(3)), timeout_ms=1000)
    asking.ask(1)
    asking.run(3.5)
    assert asking.asker.is_idle
    assert asking.answers[0][2].failure is None


@pytest.mark.parametrize(
    ("retry", "times"),
    [
        (Retry(3, 100), [0, 101, 202, 303]),
        (Retry(4, 100, exponential=True), [0, 101, 302, 703, 1504]),
        (Retry(4, 100, exponential=True, limit_ms=300), [0, 101, 302, 603, 904]),
    ],
    ids=["fixed", "exponential", "limited"],
)
def test_misses_are_asked_again_after_a_delay(desk, retry, times):
    asking = desk(Script({}, after(1)), retries=(retry,))
    asking.ask(7)
    asking.run()
    asked = [time for time, _ in asking.script.asked]
    assert asked == pytest.approx(times, rel=0.11 if retry.exponential else 1e-6)
    assert [(key, rows) for _, key, rows in asking.rows] == [(7, [])]
    assert asking.meter.counts["retries"] == retry.times


def test_errors_and_misses_have_their_own_retries(desk):
    retries = (Retry(1, 10, on_error=False), Retry(2, 100, on_miss=False))
    script = Script({}, after(0))
    script.failures[(1,)] = 2
    asking = desk(script, retries=retries, **NULL)
    asking.ask(1)
    asking.run()
    assert [time for time, _ in script.asked] == [0, 100, 200, 210]


def test_without_a_policy_for_errors_the_first_one_counts(desk):
    script = Script(values(1))
    script.failures[(1,)] = 1
    asking = desk(script, retries=(Retry(5, 10, on_error=False),))
    asking.ask(1)
    asking.run()
    failure = asking.answers[0][2].failure
    assert str(failure).startswith('SS432: the lookup in "desk" for k = 1 failed: no line for 1\nHINT: ')


def test_a_timeout_covers_all_attempts(desk):
    script = Script(values(1), after(501))
    script.failures[(1,)] = 99
    asking = desk(script, timeout_ms=1000, retries=(Retry(5, 100),), **NULL)
    asking.ask(1)
    asking.run()
    assert [time for time, _ in script.asked] == [0, 601]
    assert asking.rows == [(1000, 1, ())]
    assert asking.asker.is_idle


def test_a_wait_for_the_next_attempt_holds_no_capacity(desk):
    asking = desk(Script(values(2), after(10)), capacity=1, retries=(Retry(1, 100),))
    asking.ask(1, 2)
    asking.run()
    assert asking.script.asked == [(0, [(1,)]), (10, [(2,)]), (110, [(1,)])]


def test_a_timeout_fails_and_says_how_to_go_on(desk):
    asking = desk(Script(values(1), after(1000)), timeout_ms=100)
    asking.ask(1)
    asking.run()
    failure = str(asking.answers[0][2].failure)
    assert failure.startswith('SS433: the lookup in "desk" for k = 1 got no answer in 100 ms\nHINT: ')


def test_failed_rows_that_go_to_a_table_carry_the_cause(desk):
    script = Script(failures=Counter({(1,): 1}))
    asking = desk(script, on_error=OnError.TO)
    asking.ask(1)
    asking.run()
    assert asking.answers[0][2] == LookupOutcome(None, error="no line for 1", counted=("errors",))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("x", "v")], "column \"k\" is BIGINT and got 'x'"),
        ([(1, "v", 2)], "a row must have 2 values, not (1, 'v', 2)"),
        ([(1, "v"), (2**70, "v")], f'column "k" is BIGINT and got {2**70}'),
    ],
)
def test_a_wrong_answer_is_an_error_of_its_key(desk, rows, message):
    asking = desk(Script({(1,): rows, **values(2)}), on_error=OnError.TO, batch=2)
    asking.ask(1, 2)
    asking.run()
    assert [(outcome.rows, outcome.error) for _, _, outcome in asking.answers] == [(None, message), ([(2, "v2")], None)]


def test_answers_that_are_not_one_per_key_are_an_error(desk):
    script = Script()
    script.rows[(1,)] = None  # type: ignore[assignment]
    asking = desk(script, on_error=OnError.TO)
    asking.ask(1)
    asking.run()
    assert asking.answers[0][2].error == "an answer must be a list of rows for each key, not [None]"


def test_a_client_that_does_not_open_is_opened_again(desk):
    script = Script(values(1), open_fails=1)
    asking = desk(script, retries=(Retry(1, 10),))
    asking.ask(1)
    asking.run()
    assert script.opened == 2
    assert asking.rows == [(10, 1, [(1, "v1")])]


def test_time_does_not_run_while_the_client_is_opened(desk):
    asking = desk(Script(values(1, 2), after(10), open_takes=5_000), capacity=1, timeout_ms=30, **NULL)
    asking.ask(1, 2)
    asking.run()
    assert asking.rows == [(5_010, 1, [(1, "v1")]), (5_020, 2, [(2, "v2")])]
    assert asking.meter.counts["latency_le_10"] == 2


def test_time_runs_from_the_opening_on(desk):
    asking = desk(Script(values(1), after(100), open_takes=5_000), timeout_ms=30, **NULL)
    asking.ask(1)
    asking.run(4_000)
    asking.ask(1)  # joins
    asking.run()
    assert asking.answers == [(5_030, 1, LookupOutcome((), counted=("timeouts",)))] * 2
    assert asking.asker.is_idle


def test_time_runs_for_what_is_asked_in_the_step_that_ends_the_opening(desk):
    asking = desk(Script(values(1, 2), after(100)), timeout_ms=30, **NULL)
    opened = asking.asker.source.open

    async def ask_and_open():
        asking.ask(2)
        return await opened()

    asking.asker._open_client = ask_and_open
    asking.ask(1)
    asking.run()
    assert asking.answers == [(30, key, LookupOutcome((), counted=("timeouts",))) for key in (1, 2)]


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(30, 120), (300_000, 300)])
def test_opening_has_a_bound_of_its_own(desk, timeout_ms, seconds):
    asking = desk(Script(values(1), open_takes=10_000_000), timeout_ms=timeout_ms, on_error=OnError.TO)
    asking.ask(1)
    asking.run()
    ((time, _, outcome),) = asking.answers
    assert time == seconds * 1000
    assert outcome.error == (
        f'SS436: the source of the lookup in "desk" did not open in {seconds} s\n'
        "HINT: See what it waits for, or give it more time with TIMEOUT."
    )


def test_rows_that_are_given_up_while_the_client_is_opened_leave_nothing_behind(desk):
    asking = desk(Script(values(1, 2), after(10), open_takes=1_000), timeout_ms=30, batch=2, **NULL)
    asking.ask(1, 2)
    asking.run(500)
    asking.asker.forget(asking.waiters[:1])
    asking.run()
    assert asking.rows == [(1_010, 2, [(2, "v2")])]
    assert asking.asker.is_idle


def test_waiters_that_are_forgotten_give_their_requests_up(desk):
    asking = desk(Script(values(1, 2, 3), after(100)), capacity=2)
    asking.ask(1, 2, 3)
    asking.run(10)
    asking.asker.forget(asking.waiters)
    asking.run()
    assert asking.answers == []
    assert asking.script.cancelled == [(1,), (2,)]
    assert asking.script.keys_asked == [(1,), (2,)]
    assert asking.asker.is_idle


def test_what_is_forgotten_before_its_question_is_sent_leaves_its_place_to_others(desk):
    asking = desk(Script(values(1, 2), after(10)), capacity=1)
    asking.ask(1)
    asking.asker.forget(asking.waiters)
    asking.ask(2)
    asking.run()
    assert asking.rows == [(10, 2, [(2, "v2")])]
    assert asking.script.keys_asked == [(2,)]


def test_waiters_that_have_their_answers_are_forgotten_with_the_others(desk):
    """A task that fails forgets all of its waiters, also those whose answers it has not taken yet."""
    asking = desk(Script(values(1, 2), lambda key: 100 if key == (1,) else 200))
    asking.ask(1, 2)
    asking.run(150)
    asking.asker.forget(asking.waiters)
    asking.run()
    assert [key for _, key, _ in asking.rows] == [1]
    assert asking.script.cancelled == [(2,)]
    assert asking.asker.is_idle


# --- batches --------------------------------------------------------------------------------------------------


def test_a_batch_holds_what_is_there(desk):
    asking = desk(Script(values(1, 2, 3)), batch=2)
    asking.ask(1, 2, 3)
    asking.run()
    assert asking.script.asked == [(0, [(1,), (2,)]), (0, [(3,)])]


def test_a_batch_waits_for_more_keys_but_not_for_long(desk):
    asking = desk(Script(values(*range(9))), batch=3, batch_within_ms=50)
    asking.ask(1)
    asking.run(20)
    asking.ask(2)
    asking.run(100)
    asking.ask(3, 4, 5, 6)
    asking.run()
    assert asking.script.asked == [(50, [(1,), (2,)]), (120, [(3,), (4,), (5,)]), (170, [(6,)])]


def test_a_batch_is_one_request_of_the_capacity(desk):
    asking = desk(Script(values(*range(1, 6)), after(10)), batch=2, capacity=1)
    asking.ask(1, 2, 3, 4, 5)
    asking.run()
    assert asking.script.asked == [(0, [(1,), (2,)]), (10, [(3,), (4,)]), (20, [(5,)])]
    assert asking.script.most_requests == 1


def test_a_batch_that_fails_fails_for_all_its_keys_and_is_tried_again(desk):
    script = Script(values(1, 2))
    script.failures[(2,)] = 1
    asking = desk(script, batch=2, retries=(Retry(1, 10),))
    asking.ask(1, 2)
    asking.run()
    assert script.keys_asked == [(1,), (2,), *sorted(script.keys_asked[2:])]
    assert {time for time, _ in script.asked} == {0, 10}
    assert [key for _, key, rows in asking.rows if rows] in ([1, 2], [2, 1])


def test_a_batch_of_which_one_row_still_waits_is_not_cancelled(desk):
    asking = desk(Script(values(1, 2), after(120)), batch=2, timeout_ms=100, **NULL)
    asking.ask(1, 2)
    asking.run(50)
    asking.ask(2)
    asking.run()
    assert asking.rows == [(100, 1, ()), (100, 2, ()), (120, 2, [(2, "v2")])]


# --- the cache ------------------------------------------------------------------------------------------------


def test_answers_are_remembered_as_long_as_they_may_be(desk):
    asking = desk(Script(values(1)), cache=Cache(10, ttl_ms=100, negative_ttl_ms=30))
    for _ in range(5):
        asking.ask(1, 2)
        asking.run(40)
    assert [(time, key[0]) for time, keys in asking.script.asked for key in keys] == [
        (0, 1), (0, 2), (40, 2), (80, 2), (120, 1), (120, 2), (160, 2),
    ]  # fmt: skip


# --- in the background ----------------------------------------------------------------------------------------


DEFER = {"on_timeout": OnTimeout.DEFER, "on_error": OnError.TO}


def taken(actual, *keys):
    return [outcome and outcome.rows for outcome in actual.asker.take([(key,) for key in keys])]


def test_a_request_whose_row_is_deferred_goes_on_outside_of_the_capacity(desk):
    asking = desk(Script(values(1, 2), after(150)), capacity=1, timeout_ms=100, **DEFER)
    asking.ask(1, 2)
    asking.run(149)
    assert [(time, key, outcome.deferred) for time, key, outcome in asking.answers] == [(100, 1, True)]
    assert asking.script.asked == [(0, [(1,)]), (100, [(2,)])]
    assert taken(asking, 1) == [None]
    asking.run(1)
    asking.run(1)
    assert taken(asking, 1) == [[(1, "v1")]]
    assert asking.script.keys_asked == [(1,), (2,)]


def test_what_is_taken_is_asked_for_where_nobody_did(desk):
    asking = desk(Script(values(1, 2, 3), after(10)), capacity=2, **DEFER)
    assert taken(asking, 1, 2, 3) == [None] * 3
    asking.run(15)
    assert asking.script.asked == [(0, [(1,)]), (0, [(2,)]), (10, [(3,)])]
    assert taken(asking, 1, 2, 3) == [[(1, "v1")], [(2, "v2")], None]
    asking.run(15)
    assert taken(asking, 3) == [[(3, "v3")]]
    assert asking.script.keys_asked == [(1,), (2,), (3,)]


def test_a_request_that_takes_its_time_again_is_asked_anew(desk, monkeypatch):
    monkeypatch.setattr(asking, "BACKGROUND_S", 0.1)
    asker = desk(Script(values(1), after(250)), timeout_ms=100, **DEFER)
    asker.ask(1)
    asker.run(210)
    assert asker.script.cancelled == [(1,)]
    assert asker.asker.is_idle
    asker.script.delay = after(10)
    assert taken(asker, 1) == [None]
    asker.run(20)
    assert taken(asker, 1) == [[(1, "v1")]]


def test_errors_in_the_background_are_retried_and_then_told(desk):
    script = Script(values(1), after(1))
    script.failures[(1,)] = 2
    asking = desk(script, retries=(Retry(1, 10),), **DEFER)
    assert taken(asking, 1) == [None]
    asking.run(100)
    (outcome,) = asking.asker.take([(1,)])
    assert (outcome.rows, outcome.error) == (None, "no line for 1")


def test_where_the_background_is_full_a_deferred_request_is_given_up(desk):
    asking = desk(Script(values(1, 9), after(1000)), capacity=1, timeout_ms=100, **DEFER)
    asking.ask(1)
    asking.run(50)
    assert taken(asking, 9) == [None]
    asking.run(51)
    assert [(key, outcome.deferred) for _, key, outcome in asking.answers] == [(1, True)]
    assert asking.script.cancelled == [(1,)]


def test_rows_in_state_join_a_request_of_other_rows(desk):
    asking = desk(Script(values(1, 2), after(150)), timeout_ms=100, capacity=1, **DEFER)
    asking.ask(1)
    asking.run(80)
    assert taken(asking, 1) == [None]
    asking.ask(2)
    asking.run(71)
    assert [(time, key) for time, key, _ in asking.answers] == [(100, 1)]
    assert taken(asking, 1) == [[(1, "v1")]]
    assert asking.script.asked == [(0, [(1,)]), (100, [(2,)])]


def test_a_row_that_asks_for_a_key_in_the_background_joins(desk):
    asking = desk(Script(values(1), after(150)), timeout_ms=100, **DEFER)
    asking.ask(1)
    asking.run(120)
    asking.ask(1)
    asking.run()
    assert asking.rows == [(100, 1, None), (150, 1, [(1, "v1")])]
    assert asking.script.keys_asked == [(1,)]


def test_an_answer_that_takes_longer_than_the_timeout_comes_and_waits_for_the_row(desk):
    asking = desk(Script(values(1), after(5_000)), timeout_ms=100, **DEFER)
    asking.ask(1)
    asking.run(60_000)
    assert asking.script.cancelled == []
    assert taken(asking, 1) == [[(1, "v1")]]
