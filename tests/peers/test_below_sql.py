"""Cases below SQL: the drivers say what differs, and what they cannot drive. The peers' own cases are beside them."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from sqlstream.testing.case_format import Case, load_case
from sqlstream.testing.cases import Different, run_cases
from sqlstream.testing.report import Result, Summary, Verdict
from tests.peers import MISSING, PEERS, files_of
from tests.peers.below_sql import NotDriven, run_kernel_case

DRIVEN = {"flink-async": 7, "flink-merging-window-set": 5, "flink-timers": 7, "flink-trigger": 12}
EXPECTATIONS = (
    "expect",
    "equals",
    "expect_window",
    "expect_merged",
    "expect_merged_from",
    "model_fired",
    "accepted",
    "out",
    "pending",
)


def case(category, steps, **config):
    return Case("suite/case", "kernel", "", (), (), None, None, None, category, tuple(steps), config)


def element(window, expect):
    return {"op": "element", "window": window, "expect": expect}


def difference(category, steps, **config):
    with pytest.raises(Different) as found:
        run_kernel_case(case(category, steps, **config))
    return str(found.value)


# --- triggers -------------------------------------------------------------------------------------------------


COUNT = {"type": "count", "n": 2}
TWICE = [element([0, 2], "CONTINUE"), element([0, 2], "FIRE")]


def test_a_trigger_that_does_as_expected_passes():
    run_kernel_case(case("trigger/count", TWICE, trigger=COUNT))


def test_a_purging_trigger_says_so():
    steps = [element([0, 2], "CONTINUE"), element([0, 2], "FIRE_AND_PURGE")]
    run_kernel_case(case("trigger/count", steps, trigger={"type": "purging", "inner": COUNT}))
    found = difference("trigger/count", TWICE, trigger={"type": "purging", "inner": COUNT})
    assert found == 'after step 1: result: expected "FIRE", got "FIRE_AND_PURGE"'


def test_what_fires_at_a_watermark_comes_in_the_order_of_timers():
    fired = [{"window": [0, 2], "result": "FIRE"}, {"window": [2, 4], "result": "FIRE"}]
    rows = [element([2, 4], "CONTINUE"), element([0, 2], "CONTINUE")]
    advance = {"op": "watermark", "ts": 3, "only": True}
    event_time = {"type": "event_time"}
    run_kernel_case(case("trigger", [*rows, advance | {"expect_fired": fired}], trigger=event_time))
    found = difference("trigger", [*rows, advance | {"expect_fired": fired[::-1]}], trigger=event_time)
    assert found.startswith("after step 2: fired: expected ")


def test_some_of_the_firings_may_be_expected():
    fired = {"window": [0, 2], "result": "FIRE"}
    rows = [element([0, 2], "CONTINUE"), element([2, 4], "CONTINUE")]
    advance = {"op": "watermark", "ts": 3, "only": False}
    run_kernel_case(case("trigger", [*rows, advance | {"expect_fired": [fired]}], trigger={"type": "event_time"}))
    other = fired | {"window": [4, 6]}
    found = difference("trigger", [*rows, advance | {"expect_fired": [other]}], trigger={"type": "event_time"})
    assert "and not [{'window': [4, 6], 'result': 'FIRE'}]" in found


# --- window sets and timers -----------------------------------------------------------------------------------


def test_a_session_that_an_added_window_becomes_part_of_is_compared():
    first = {"op": "add_window", "window": [0, 3], "expect_window": [0, 3], "expect_merged": False}
    second = {"op": "add_window", "window": [3, 5], "expect_window": [0, 5], "expect_merged": True}
    run_kernel_case(case("session/merge", [first, second | {"expect_merged_from": [[0, 3]]}]))
    found = difference("session/merge", [first, second | {"expect_merged": False}])
    assert found == "after step 1: merged: expected false, got true"


def test_timers_that_fire_are_compared():
    timer = {"key": "k", "namespace": "n", "ts": 5}
    steps = [{"op": "register", "domain": "event"} | timer, {"op": "advance", "domain": "event", "ts": 5}]
    run_kernel_case(case("timers", [steps[0], steps[1] | {"expect_fired": [timer]}]))
    found = difference("timers", [steps[0], steps[1] | {"expect_fired": []}])
    assert found == 'after step 1: fired: expected [], got [[5, "k", "n"]]'


# --- lookups --------------------------------------------------------------------------------------------------


QUEUE = {"output_mode": "unordered", "capacity": 1}


def test_what_a_full_queue_takes_is_compared():
    steps = [{"op": "submit", "id": name, "ts": 0} for name in "ab"]
    assert difference("async", steps, **QUEUE) == "after step 1: accepted: expected true, got false"


def test_what_the_operator_emits_is_compared():
    steps = ({"op": "record", "ts": 1, "row": {"v": 2}}, {"op": "end_of_input"})
    config = QUEUE | {"timeout_ms": 1000, "function": "f(x) = [3*x] after 0 ms"}
    expected = ({"row": {"v": 6}, "ts": 1}, {"active_timers": 0})
    found = replace(case("async/timeout", steps, **config), results=expected)
    run_kernel_case(found)
    with pytest.raises(Different, match="active_timers"):
        run_kernel_case(replace(found, results=expected[:1]))


# --- barriers -------------------------------------------------------------------------------------------------


MARKERS = [{"op": "barrier", "channel": c, "checkpoint": 7} for c in (0, 1)]


@pytest.mark.parametrize(
    ("outcome", "wrong"),
    [
        ({"timeline": []}, 'timeline: expected [], got [[1, "trigger", 7]]'),
        (
            {"assertions": [{"after": 0, "blocked_channels": []}]},
            "after step 0: blocked_channels: expected [], got [0]",
        ),
        ({"final": {"triggered": [7], "aborted_count": 1}}, "aborted_count: expected 1, got 0"),
        ({"output_order": [{"op": "record", "input_index": 0}], "events": []}, "output_order: expected [0], got []"),
    ],
)
def test_what_becomes_of_barriers_is_compared(outcome, wrong):
    found = replace(case("checkpoint/barriers", MARKERS, channels=2), outcome=outcome)
    with pytest.raises(Different) as different:
        run_kernel_case(found)
    assert str(different.value) == wrong


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("category", "steps", "config", "reason"),
    [
        ("checkpoint/barriers", [], {"checkpoints_after_channel_end": False}, "aborts a barrier when a channel ends"),
        ("checkpoint/barriers", [{"op": "wait", "channel": 0}], {}, 'the step "wait" is none of this mechanism'),
        ("watermark-alignment", [], {}, "watermarks of several inputs are aligned by Spark"),
        ("dice", [], {}, 'no kernel has the mechanism "dice"'),
        ("trigger", [], {"trigger": {"type": "moon"}}, 'there is no trigger "moon"'),
        ("trigger", [{"op": "wait"}], {"trigger": COUNT}, 'the step "wait" is none of this mechanism'),
        ("async", [{"op": "wait"}], QUEUE, 'the step "wait" is none of this mechanism'),
        ("async", [], QUEUE | {"function": "f(x) = moon"}, 'there is no function "f'),
        ("timers", [{"op": "wait"}], {}, 'the step "wait" is none of this mechanism'),
        ("session/merge", [{"op": "wait"}], {}, 'the step "wait" is none of this mechanism'),
    ],
)
def test_what_cannot_be_driven_is_refused_with_a_reason(category, steps, config, reason):
    with pytest.raises(NotDriven, match=reason) as refused:
        run_kernel_case(case(category, steps, **config))
    assert refused.value.hint.endswith(".")


def test_the_report_tells_cases_below_sql(tmp_path):
    results = (Result("a/b", Verdict.PASS, level="kernel"), Result("a/c", Verdict.PASS), Result("d/e", Verdict.PASS))
    assert [result.line() for result in results] == ["PASS a/b [kernel]", "PASS a/c", "PASS d/e"]
    assert [line.split() for line in Summary(results).lines()[1:3]] == [
        ["a", "2", "0", "0", "0", "1", "below", "SQL"],
        ["d", "1", "0", "0", "0"],
    ]
    Summary(results).write_json(tmp_path / "report.json")
    levels = [result["level"] for result in json.loads((tmp_path / "report.json").read_text())["results"]]
    assert levels == ["kernel", "sql", "sql"]


# --- cases of peers -------------------------------------------------------------------------------------------


needs_peers = pytest.mark.skipif(not PEERS.is_dir(), reason=MISSING)


def kernel_files(suites):
    return [path for path in files_of(*suites) if load_case(path, PEERS).level == "kernel"]


def no_session():
    raise AssertionError("cases below SQL need no Spark")


@needs_peers
def test_cases_of_the_mechanisms_that_are_there_pass():
    passed = run_cases(
        kernel_files(DRIVEN), no_session, PEERS, on_result=lambda result: None, below_sql=run_kernel_case
    )
    assert [result.line() for result in passed.results if result.verdict is not Verdict.PASS] == []
    assert {name: sum(count.values()) for name, count in passed.totals().items()} == DRIVEN


@pytest.mark.parametrize("path", kernel_files(DRIVEN), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_expectation_is_compared(path):
    """A case with one of its expectations made wrong fails at that step."""
    found = load_case(path, PEERS)
    compared = [(i, key) for i, step in enumerate(found.input) for key in step if is_compared(key, step)]
    for index, key in compared:
        steps = copy.deepcopy(found.input)
        steps[index][key] = wrong(steps[index][key])
        with pytest.raises(Different, match=f"after step {index}: "):
            run_kernel_case(case(found.category, steps, **found.config))


def is_compared(key, step):
    """All firings, where they are known, say more than those that are expected."""
    return key in EXPECTATIONS or (key == "expect_fired" and "model_fired" not in step)


def wrong(expected):
    match expected:
        case bool():
            return not expected
        case int():
            return expected + 1
        case str():
            return "FIRE" if expected == "CONTINUE" else "CONTINUE"
        case [*members]:
            return members[1:] if members else [7]
    raise AssertionError(expected)
