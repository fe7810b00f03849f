"""Which changes nodes take and emit, by which keys, and where -U goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.planner.catalog import ALL_KINDS, APPEND_ONLY, UPSERT, Column, RowKind, Table
from sqlstream.planner.changes import Changes, changes_of, producer_of, rejected_kinds
from sqlstream.planner.fields import Item, field_of
from sqlstream.planner.node import Node
from sqlstream.planner.nodes import Insert, Output, Project, Scan, Union
from sqlstream.planner.operators.changelogs import Normalize
from sqlstream.planner.operators.join import RegularJoin
from sqlstream.planner.operators.over import Over
from sqlstream.planner.operators.window_aggregate import WindowAggregate
from sqlstream.planner.physical import EngineSettings, physical_plan
from sqlstream.planner.physical.steps import Read
from sqlstream.planner.rules import optimize
from sqlstream.types import INT, STRING, DataType
from tests.planner.plans import plan

COLUMNS = (Column("k", INT), Column("j", INT), Column("v", STRING))
CHANGED = Table("changed", COLUMNS, "test", primary_key=("k", "j"), changelog=ALL_KINDS)
SINK = Table("sink", COLUMNS, "test", primary_key=("k", "j"))
SCAN = Scan(CHANGED, ("k", "j", "v"))
KEY = frozenset({"k", "j"})
RETRACTING = "GROUP BY item, window_start, window_end TRIGGER EVERY 1 ROWS RETRACTING"
TUMBLE = "FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)"


def project(node: Node, **items: str) -> Project:
    types = {f.name: f.type for f in node.schema}
    return Project(node, tuple(Item(name, field_of(column), types[column]) for name, column in items.items()))


def found(text: str, kind: type[Node]) -> Node:
    return next(node for node in plan(text).walk() if isinstance(node, kind))


# --- what is taken --------------------------------------------------------------------------------------------


def test_nodes_without_state_pass_all_kinds_and_others_say_what_they_take():
    assert project(SCAN, a="v").accepted_kinds() == ALL_KINDS
    assert found("SELECT item, ROW_NUMBER() OVER (ORDER BY ts) AS n FROM bids", Over).accepted_kinds() == ALL_KINDS
    counting = found("SELECT item, COUNT(*) FROM bids GROUP BY item COUNT WINDOW (3 ROWS)", WindowAggregate)
    assert counting.accepted_kinds() == APPEND_ONLY
    assert Normalize(SCAN, ("k", "j")).accepted_kinds() == ALL_KINDS


def test_a_sink_takes_what_its_connector_does_and_deletes_by_what_is_withdrawn():
    assert Insert(SCAN, SINK, takes=APPEND_ONLY).accepted_kinds() == APPEND_ONLY
    assert Insert(SCAN, SINK, takes=UPSERT).accepted_kinds() == ALL_KINDS
    deletes = frozenset({RowKind.INSERT, RowKind.DELETE})
    ((port, kinds),) = rejected_kinds(Insert(SCAN, SINK, takes=deletes))
    assert (port, kinds) == (0, frozenset({RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER}))


def test_changes_are_traced_to_who_makes_them():
    windows = plan(f"SELECT item, COUNT(*) {TUMBLE} {RETRACTING} UNION ALL SELECT item, 1 FROM bids")
    maker = producer_of(windows, frozenset({RowKind.UPDATE_BEFORE}))
    assert isinstance(maker, WindowAggregate) and maker.producer_name == "the windows with RETRACTING"
    maker = producer_of(Normalize(project(SCAN, k="k", j="j"), ("k", "j")), ALL_KINDS)
    assert maker.producer_name == 'table "changed"'


@pytest.mark.parametrize(
    ("text", "taker"),
    [
        ("SELECT * FROM COUNT_WINDOW(TABLE cdc PARTITION BY id, 3 ROWS)", "COUNT WINDOW in FROM"),
        ("SELECT id, COUNT(*) FROM cdc GROUP BY id COUNT WINDOW (3 ROWS)", "an aggregate over windows"),
        ("SELECT * FROM cdc AS a JOIN bids AS b ON a.id = b.price AND a.ts = b.ts", "the INNER JOIN"),
    ],
)
def test_operators_that_take_no_changes_are_named(text, taker):
    with pytest.raises(SqlStreamError, match="SS325") as error:
        plan(text)
    (diagnostic,) = error.value.diagnostics
    detail = f'Rows of the kinds UB,UA,D come from table "cdc", and {taker} does not take them'
    assert diagnostic.detail is not None and diagnostic.detail.startswith(detail)
    assert diagnostic.span is not None


# --- keys -----------------------------------------------------------------------------------------------------


def test_keys_go_through_projections_under_all_of_their_names():
    assert SCAN.upsert_keys == {KEY}
    assert project(SCAN, a="k", b="j", c="k").upsert_keys == {frozenset("ab"), frozenset("cb")}
    assert project(SCAN, a="k", v="v").upsert_keys == frozenset()
    assert Union((SCAN, SCAN)).upsert_keys == frozenset()


@pytest.mark.parametrize(("kind", "keeps"), [("BIGINT", True), ("STRING", True), ("TINYINT", False), ("DOUBLE", False)])
def test_casts_that_tell_all_values_apart_keep_keys(kind, keeps):
    wider = Item("k", exp.cast(field_of("k"), kind), DataType(kind))
    cast = Project(SCAN, (wider, Item("j", field_of("j"), INT)))
    assert cast.upsert_keys == (frozenset({KEY}) if keeps else frozenset())


def test_windows_are_part_of_the_key():
    aggregate = found(f"SELECT item, COUNT(*) {TUMBLE} {RETRACTING}", WindowAggregate)
    assert aggregate.upsert_keys == {frozenset({"item", "window_start", "window_end"})}


JOINED = """
CREATE TABLE l (id INT NOT NULL, a INT, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'test', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE r (k INT NOT NULL, v INT, PRIMARY KEY (k) NOT ENFORCED)
    WITH ('connector' = 'test', 'changelog-mode' = 'I,UB,UA,D');
"""


@pytest.mark.parametrize(
    ("join", "keys"),
    [
        ("JOIN r ON id = k", ["id", "k", "id k"]),
        ("LEFT JOIN r ON id = k", ["id", "id k"]),
        ("RIGHT JOIN r ON id = k", ["k", "id k"]),
        ("JOIN r ON a = k", ["id k"]),
        ("LEFT JOIN r ON a = k", []),
        ("FULL JOIN r ON id = k", []),
        ("LEFT SEMI JOIN r ON id = k", ["id"]),
    ],
)
def test_changes_of_a_join_are_about_keys_that_tell_the_key_group(join, keys):
    """A row without a partner has NULL for what the other side must equal."""
    node = next(n for n in plan(f"SELECT * FROM l {join}", JOINED).walk() if isinstance(n, RegularJoin))
    assert node.upsert_keys == {frozenset(key.split()) for key in keys}


def test_rows_of_a_full_join_may_be_null_in_all_of_a_key():
    groups = "(SELECT a, COUNT(*) AS n FROM l GROUP BY a) AS g FULL JOIN (SELECT MAX(v) AS m FROM r) AS x ON n = m"
    node = next(n for n in plan(f"SELECT * FROM {groups}", JOINED).walk() if isinstance(n, RegularJoin))
    assert node.unique_keys == frozenset()


# --- who reads -U ---------------------------------------------------------------------------------------------


def test_sinks_by_the_same_key_read_no_rows_of_before():
    assert not Insert(SCAN, SINK, takes=UPSERT).reads_update_before(above=False)
    assert Insert(SCAN, SINK, takes=ALL_KINDS).reads_update_before(above=False)
    by_v = Table("sink", COLUMNS, "test", primary_key=("v",))
    assert Insert(SCAN, by_v, takes=UPSERT).reads_update_before(above=False)
    assert Output(SCAN, ("k", "j", "v")).reads_update_before(above=False)


def kinds(changes: Changes) -> list[str]:
    return [c.text for c in changes.walk()]


def test_rows_of_before_are_dropped_at_the_table():
    sink = Insert(SCAN, SINK, takes=UPSERT)
    assert kinds(changes_of(sink)) == ["upsert by j, k: I,UA,D"] * 2
    steps = list(physical_plan(sink, EngineSettings()).root.walk())
    assert [step.drops_before for step in steps] == [False, True]
    assert isinstance(steps[1], Read)
    assert kinds(changes_of(Insert(SCAN, SINK))) == ["retract: I,UB,UA,D"] * 2


def test_predicates_of_other_columns_keep_rows_of_before():
    for column, drops in (("k", True), ("v", False)):
        scan = Scan(CHANGED, ("k", "j", "v"), (field_of(column).is_(field_of(column)),))
        assert changes_of(Insert(scan, SINK, takes=UPSERT)).inputs[0].drops is drops


def test_changes_by_key_are_normalized_where_somebody_needs_what_was_before():
    read = optimize(plan("SELECT id FROM cdc"))
    assert any(isinstance(node, Normalize) for node in read.walk())
    table = Table("sink", (Column("id", INT),), "test", primary_key=("id",))
    sink = Insert(read.inputs[0], table, takes=UPSERT)
    assert not any(isinstance(node, Normalize) for node in optimize(sink).walk())
    assert any(isinstance(node, Normalize) for node in optimize(replace(sink, takes=ALL_KINDS)).walk())
