"""Nothing that parses is ignored, and nothing in the table of refusals is idle."""

import re
from pathlib import Path

import pytest
from sqlglot import exp

from sqlstream.errors import SqlStreamError
from sqlstream.grammar import parse_query, parse_script
from sqlstream.grammar.nodes import CreateTable
from sqlstream.planner.binder import bind_query, bind_table
from sqlstream.planner.unsupported import FEATURES
from tests.planner.plans import TABLES, no_tables

PLANNER = Path(__file__).parents[2] / "planner"
GOLDEN = Path(__file__).parents[1] / "golden" / "planner" / "refusals.golden"

# A query for each kind of node, and the arguments that its binder reads there.
QUERY = "SELECT item AS i, * EXCEPT (n) FROM bids AS b CROSS JOIN UNNEST(tags) AS u(t)"
PARTS = {
    exp.Select: (QUERY, "with_ expressions from_ joins laterals where group having windows qualify stream"),
    exp.Table: (QUERY, "this db catalog alias joins laterals pivots stream"),
    exp.Star: (QUERY, "except_"),
    exp.Join: (QUERY, "this side kind on pivots"),
    exp.Unnest: (QUERY, "expressions alias offset stream"),
    exp.Subquery: ("SELECT * FROM (SELECT item FROM bids) AS s", "this alias with_ joins laterals pivots stream"),
    exp.Union: ("SELECT item FROM bids UNION ALL SELECT k FROM plain", "this expression distinct with_ stream"),
    exp.With: ("WITH w AS (SELECT 1 AS one FROM bids) SELECT * FROM w", "expressions"),
    exp.CTE: ("WITH w AS (SELECT 1 AS one FROM bids) SELECT * FROM w", "this alias"),
    exp.Lateral: ("SELECT * FROM bids LATERAL VIEW EXPLODE(tags) x AS t", "this view outer alias ordinality stream"),
    exp.Group: (
        "SELECT COUNT(*) FROM bids GROUP BY item, TUMBLE(ts, INTERVAL '1' SECOND)",
        "expressions grouping_sets cube rollup",
    ),
}
UNREAD = [(kind, arg) for kind, (_, read) in PARTS.items() for arg in kind.arg_types if arg not in read.split()]


@pytest.fixture(scope="module")
def catalog():
    actual = no_tables()
    for statement in parse_script(TABLES):
        assert isinstance(statement, CreateTable)
        actual.create(statement.name, bind_table(statement, actual))
    return actual


@pytest.mark.parametrize(("kind", "arg"), UNREAD, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_part_that_nobody_reads_is_refused(catalog, kind, arg):
    query = parse_query(PARTS[kind][0])
    bind_query(query, catalog)
    part = next(n for n in query.walk() if type(n) is kind)
    part.set(arg, exp.Ordered(this=exp.Literal.number(1)))
    with pytest.raises(SqlStreamError):
        bind_query(query, catalog)


@pytest.mark.parametrize("feature", FEATURES)
def test_every_refusal_is_used(feature):
    refusing = [*PLANNER.glob("binder/*.py"), PLANNER.parent / "sqlstream" / "plans" / "checks.py"]
    sources = "".join(p.read_text() for p in refusing)
    assert f'"{feature}"' in sources


def test_every_code_of_a_refusal_is_pinned():
    text = GOLDEN.read_text() + (Path(__file__).parent / "test_binder.py").read_text()
    pinned = set(re.findall(r"SS3\d\d", text))
    assert {f.code for f in FEATURES.values()} - pinned == set()


def test_refusals_say_what_and_what_instead():
    for feature in FEATURES.values():
        assert re.fullmatch(r"SS3\d\d", feature.code)
        assert feature.hint.endswith(".") and not feature.what.endswith(".")
