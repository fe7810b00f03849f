"""What bounds on numbers of rows become, which changes come of it, and by which keys."""

from __future__ import annotations

import pytest

from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, RowKind
from sqlstream.planner.changes import changes_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Filter
from sqlstream.planner.operators.deduplicate import Deduplicate
from sqlstream.planner.operators.over import Closing, Over, UpdatingOver
from sqlstream.planner.operators.temporal_sort import TemporalSort
from sqlstream.planner.operators.top_n import TopN
from sqlstream.planner.rules import optimize
from tests.planner.plans import plan

TUMBLE = "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
CUMULATE = "CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR)"


def found(text: str, kind: type[Node]) -> Node:
    return next(node for node in optimize(plan(text)).walk() if isinstance(node, kind))


def ranked(condition: str, function: str = "ROW_NUMBER", of: str = "bids", order: str = "price") -> TopN:
    text = f"SELECT item, rn FROM (SELECT *, {function}() OVER (PARTITION BY item ORDER BY {order}) AS rn FROM {of})"
    node = found(f"{text} AS r WHERE {condition}", TopN)
    assert isinstance(node, TopN)
    return node


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        ("rn <= 3", (1, 3)), ("rn < 3", (1, 2)), ("rn = 2", (2, 2)), ("3 >= rn", (1, 3)), ("(rn) <= (3)", (1, 3)),
        ("rn BETWEEN 2 AND 4", (2, 4)), ("rn > 1 AND rn <= 9 AND rn < 5", (2, 4)), ("rn >= -7 AND 2 = rn", (2, 2)),
    ],
)  # fmt: skip
def test_conditions_on_the_number_are_bounds(condition, bounds):
    node = ranked(condition)
    assert (node.first, node.last) == bounds


def test_other_conditions_stay_above():
    text = "SELECT item FROM bids QUALIFY RANK() OVER (ORDER BY n) <= 3 AND price > 1"
    above = found(text, Filter)
    assert isinstance(above, Filter) and isinstance(above.input, TopN) and above.describe() == "Filter(price > 1)"


@pytest.mark.parametrize("condition", ["rn >= 2", "rn <> 1", "rn = n", "rn <= 3 OR n > 1"])
def test_what_bounds_nothing_from_above_numbers_all_rows(condition):
    text = "SELECT item, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price) AS rn FROM bids) AS r"
    assert isinstance(found(f"{text} WHERE {condition}", UpdatingOver), UpdatingOver)


def test_a_number_that_another_number_counts_over_is_not_bounded():
    text = (
        "SELECT a FROM (SELECT ROW_NUMBER() OVER (ORDER BY price) AS a, ROW_NUMBER() OVER (ORDER BY n) AS b FROM bids) "
        "AS r WHERE a <= 1"
    )
    kinds = [type(node) for node in plan(text).walk()]
    assert kinds.count(UpdatingOver) == 2 and TopN not in kinds


def test_equal_numbers_are_one():
    text = "SELECT item, RANK() OVER (ORDER BY n) AS r FROM bids QUALIFY r <= 2 AND RANK() OVER (ORDER BY n) > 1"
    node = found(text, TopN)
    assert isinstance(node, TopN) and (node.first, node.last) == (2, 2)


# --- which operator -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "kind"),
    [
        ("ts", Deduplicate), ("ts DESC", Deduplicate), ("ts, n", TopN), ("n", TopN), ("PROCTIME()", Deduplicate),
        ("PROCTIME() DESC", Deduplicate),
    ],
)  # fmt: skip
def test_one_row_in_the_order_of_time_is_a_deduplication(order, kind):
    text = f"SELECT item FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY item ORDER BY {order}) = 1"
    assert isinstance(found(text, kind), kind)


@pytest.mark.parametrize(
    ("keys", "source", "closes"),
    [
        ("window_start, window_end, item", TUMBLE, Closing("window_end", -1)),
        ("window_start", TUMBLE, Closing("window_start", 59_999)),
        ("window_time", TUMBLE, Closing("window_time", 0)),
        ("window_end", CUMULATE, Closing("window_end", -1)),
        ("window_start", CUMULATE, None),
        ("item", TUMBLE, None),
    ],
)
def test_keys_that_tell_a_window_wait_for_its_end(keys, source, closes):
    text = f"SELECT item FROM {source} QUALIFY ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY n) <= 2"
    node = found(text, TopN)
    assert isinstance(node, TopN) and node.closes == closes
    assert (node.changelog_mode == APPEND_ONLY) is (closes is not None)


def test_windows_that_fire_again_close_never():
    windows = f"SELECT item, COUNT(*) AS n, window_end FROM {TUMBLE} GROUP BY item, window_start, window_end"
    text = f"SELECT item FROM ({windows} EMIT CHANGES) QUALIFY RANK() OVER (PARTITION BY window_end ORDER BY n) = 1"
    node = found(text, TopN)
    assert isinstance(node, TopN) and node.closes is None


def test_order_by_in_the_order_of_time():
    assert found("SELECT item FROM bids ORDER BY ts, 1 DESC", TemporalSort).describe() == "TemporalSort(ts, item DESC)"
    assert not any(isinstance(node, TopN | TemporalSort) for node in plan("SELECT k FROM clicks ORDER BY pt").walk())
    limited = found("SELECT item FROM bids ORDER BY ts LIMIT 3 OFFSET 4", TopN)
    assert isinstance(limited, TopN) and (limited.first, limited.last) == (5, 7)


# --- changes --------------------------------------------------------------------------------------------------

INSERTS_AND_DELETES = frozenset({RowKind.INSERT, RowKind.DELETE})


def test_the_kinds_of_rows_that_come_out():
    with_number, single = ranked("rn <= 2"), ranked("rn = 2")
    assert with_number.changelog_mode == single.changelog_mode == ALL_KINDS - {RowKind.DELETE}
    assert ranked("rn <= 2", "RANK").changelog_mode == ALL_KINDS
    assert found("SELECT item FROM bids ORDER BY n LIMIT 2", TopN).changelog_mode == INSERTS_AND_DELETES
    assert found("SELECT item FROM bids LIMIT 2", TopN).changelog_mode == APPEND_ONLY
    assert found("SELECT id FROM cdc LIMIT 2", TopN).changelog_mode == INSERTS_AND_DELETES


def test_places_are_keys_and_else_the_keys_of_the_rows():
    number = ranked("rn <= 2").number
    assert ranked("rn <= 2").upsert_keys == {frozenset({"item", number})}
    assert ranked("rn = 2").upsert_keys == {frozenset({"item"})}
    assert ranked("rn <= 2", "RANK").upsert_keys == frozenset()
    limited = found("SELECT id, ts FROM cdc ORDER BY ts LIMIT 2", TopN)
    assert limited.upsert_keys == limited.unique_keys == {frozenset({"id"})}
    last = found(
        "SELECT item FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts DESC) = 1", Deduplicate
    )
    assert last.upsert_keys == {frozenset({"item"})}


def test_rows_of_before_are_read_of_changes():
    whole = changes_of(optimize(plan("SELECT id FROM cdc ORDER BY ts LIMIT 2")))
    top = next(changes for changes in whole.walk() if isinstance(changes.node, TopN))
    assert RowKind.UPDATE_BEFORE in top.inputs[0].kinds


@pytest.mark.parametrize(
    "bounded",
    [
        "ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts) = 1",
        "ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts, price) <= 3",
        "DENSE_RANK() OVER (PARTITION BY item ORDER BY ts) <= 3",
    ],
)
def test_numbers_in_event_time_are_final_where_inserts_are_taken(bounded):
    rows = f"(SELECT * FROM bids WHERE n > 0 QUALIFY {bounded}) AS b"
    text = f"SELECT item, COUNT(*) FROM {rows} GROUP BY item, TUMBLE(ts, INTERVAL '1' MINUTE)"
    assert optimize(plan(text)).changelog_mode == APPEND_ONLY
    assert isinstance(found(text, Over), Over)
    assert plan(f"SELECT * FROM {rows}").changelog_mode != APPEND_ONLY


def test_last_rows_are_never_final():
    rows = "(SELECT * FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts DESC) = 1) AS b"
    with pytest.raises(SqlStreamError, match="come from the last rows of keys") as refused:
        plan(f"SELECT item, COUNT(*) FROM {rows} GROUP BY item COUNT WINDOW (3 ROWS)")
    assert refused.value.code == "SS325"


# --- time to live ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "kind"), [("ts DESC", Deduplicate), ("n", TopN)]
)  # fmt: skip
def test_hints_say_how_long_a_key_is_kept(order, kind):
    bounded = f"ROW_NUMBER() OVER (PARTITION BY item ORDER BY {order}) = 1"
    node = found(f"SELECT /*+ STATE_TTL('b' = '1 min') */ item FROM bids AS b QUALIFY {bounded}", kind)
    assert "forgets keys after 1 min" in node.describe() and node.uses_processing_time
    assert dict(node.state_facts())["forgets"] == "keys after a time"
    assert "forgets" not in found(f"SELECT item FROM bids QUALIFY {bounded}", kind).describe()


def test_windows_forget_by_themselves():
    bounded = "ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n) <= 2"
    node = found(f"SELECT item FROM {TUMBLE} AS b QUALIFY {bounded}", TopN)
    assert not node.uses_processing_time
