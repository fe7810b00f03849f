"""Scripts of the peers' cases, where they are present: each binds, or is refused in the project's own words."""

import json

import pytest

from sqlstream.statements.checking import check_script
from sqlstream.workspace import Workspace
from tests.peers import MISSING, PEERS
from tests.planner.plans import no_tables

CASES = sorted(p for p in PEERS.glob("*/*.json") if p.parent.name != "data") if PEERS.is_dir() else []

# Suites whose cases of plain windows of time must bind.
WINDOWS = (
    "flink-sql-itcase/WindowAggregate_", "flink-sql-itcase/WindowDistinctAggregate_",
    "flink-sql-itcase/GroupWindow_Cascading", "flink-sql-itcase/GroupWindow_EventTimeSession", "flink-window-assigner/",
    "risingwave-slt/batch_time_window", "risingwave-slt/time_window_hop", "spark-streaming/SessionAppend",
    "spark-streaming/SessionMinMax", "spark-streaming/Tumble", "feldera-nexmark/q12", "storm-window/EventTimeLag",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not CASES, reason=MISSING)


def problems(path):
    case = json.loads(path.read_text())
    return case, check_script(case["script"], Workspace(no_tables())) if "script" in case else []


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_script_binds_or_is_refused(path):
    case, actual = problems(path)
    assert all(d.code[:3] in ("SS2", "SS3", "SS5") and d.hint != "" for d in actual)
    if "error" in case and "steps" not in case and "script" in case:
        assert actual, "the peer refuses it"


@pytest.mark.parametrize(
    "path",
    [p for p in CASES if f"{p.parent.name}/{p.stem}".startswith(WINDOWS)],
    ids=lambda p: f"{p.parent.name}/{p.stem}",
)
def test_windows_of_time_bind(path):
    case, actual = problems(path)
    if "error" not in case and "CDC" not in path.stem:
        assert [d.render() for d in actual] == []
