"""Plans for tests of what must hold for every plan: those of all golden files, and some over functions in Python."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from sqlstream.grammar import nodes, parse_script
from sqlstream.paths import importable
from sqlstream.planner.node import Node
from sqlstream.session import Session
from sqlstream.statements.explaining import explained_plan
from sqlstream.testing.golden import prepare, sql_of
from sqlstream.testing.golden_format import SETUP, Block, parse_golden
from tests.planner.plans import plan

GOLDEN = Path(__file__).parents[1] / "golden"
_USER_WRITTEN = (
    "SELECT COUNT(*) FROM bids GROUP BY WINDOW USING assigner(5) TRIGGER USING trigger() EVICT AFTER USING evictor()"
)

_PROCESS = """
    SELECT alert, rowtime FROM process(input => TABLE (SELECT * FROM bids WHERE n > 1) PARTITION BY auction, item
    ORDER BY ts, on_time => DESCRIPTOR(ts), limit => 1 + 2, columns => DESCRIPTOR(price, n), uid => 'first')
    UNION ALL SELECT CAST(good AS STRING), seen FROM check(TABLE bids, 3)
    UNION ALL SELECT CAST(n AS STRING), rowtime FROM merge(one => TABLE bids PARTITION BY item,
    two => TABLE (SELECT item AS k, n, ts AS t FROM bids) PARTITION BY k, on_time => DESCRIPTOR(ts, t))
"""

_SET = """
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO totals (auction, total) SELECT auction, price FROM bids WHERE n > 1 + 1;
    INSERT INTO late SELECT auction, item, window_end FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE);
    END
"""

_OVER = "SELECT item, AVG(price) OVER (PARTITION BY item ORDER BY ts ROWS 9 PRECEDING) FROM bids"
_OVER_ANY = "SELECT item, SUM(n) OVER (PARTITION BY item ORDER BY n RANGE 2 PRECEDING), COUNT(*) OVER () FROM bids"
_OVER_WINDOW = """
    SELECT item, NTILE(4) OVER w, CUME_DIST() OVER w FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    WINDOW w AS (PARTITION BY window_start, window_end ORDER BY price)
"""
_JOIN = """
    SELECT a.item, b.price FROM bids AS a LEFT JOIN bids AS b
    ON a.auction = b.auction AND b.ts BETWEEN a.ts - INTERVAL '1' MINUTE AND a.ts
"""
_JOIN_OF_ALL = """
    SELECT b.item, c.v FROM bids AS b LEFT JOIN clicks AS c ON b.item = c.k AND b.n > c.v AND upper(c.k) <> 'X'
    UNION ALL SELECT item, n FROM bids AS b LEFT ANTI JOIN plain AS p ON b.item IS NOT DISTINCT FROM p.k
"""

_USERS = """
    CREATE TABLE users (id INT, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'test', 'changelog-mode' = 'I,UA,D');
"""
_CHANGED = "SELECT a.id FROM users AS a LEFT JOIN users AS b ON a.id = b.id"

_AS_OF = """
    SELECT b.item, c.id FROM bids AS b LEFT JOIN cdc FOR SYSTEM_TIME AS OF b.ts AS c ON b.n = c.id AND c.id > b.price
    UNION ALL SELECT b.item, o.n FROM bids AS b ASOF JOIN bids AS o ON b.item = o.item AND b.ts > o.ts
    UNION ALL SELECT b.item, o.n FROM bids AS b ASOF JOIN bids AS o ON b.item = o.item AND b.n <= o.price
    UNION ALL SELECT b.item, o.n FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE) AS b
    LEFT JOIN TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE) AS o
    ON b.item = o.item AND b.window_end = o.window_end AND b.price < o.price
"""

_GROUPED = "SELECT item, COUNT(*) FROM bids GROUP BY item INTERSECT SELECT item, n FROM bids"
_RANKED = """
    SELECT item, rn FROM (SELECT *, RANK() OVER (PARTITION BY item ORDER BY price DESC) AS rn FROM bids) WHERE rn <= 3
    UNION ALL SELECT item, n FROM bids QUALIFY ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts DESC) = 1
    UNION ALL (SELECT item, n FROM bids ORDER BY ts, price DESC NULLS LAST)
    UNION ALL (SELECT item, n FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
    QUALIFY DENSE_RANK() OVER (PARTITION BY window_end ORDER BY n) BETWEEN 2 AND 3)
"""

_MATCHED = """
    SELECT item, p, t, s FROM bids MATCH_RECOGNIZE (PARTITION BY item ORDER BY ts, price DESC
    MEASURES LAST(A.price, 1) AS p, MATCH_ROWTIME() AS t, SUM(B.n) AS s, CLASSIFIER() AS c AFTER MATCH SKIP TO LAST B
    PATTERN (A+ (B | C){2,3}?) WITHIN INTERVAL '1' HOUR
    DEFINE A AS A.price > PREV(A.price), B AS B.n > A.n + 1 AND SUM(B.n) < 10, C AS COALESCE(LAST(A.item, 1), '') = '')
"""

_WATERMARKED = "SELECT item, n + 1 FROM bids WHERE ts > CURRENT_WATERMARK(ts)"

_CHANGELOGS = """
    SELECT kind, auction, n FROM TO_CHANGELOG(TABLE (SELECT * FROM FROM_CHANGELOG(TABLE (SELECT item AS op, auction, n
    FROM bids) PARTITION BY auction, op_mapping => MAP['c', 'INSERT', 'u', 'UPDATE_AFTER'])), DESCRIPTOR(kind))
"""
_FLINKS_FUNCTIONS = """
    SELECT JSON_VALUE(item, '$.a' RETURNING INT DEFAULT n + 1 ON EMPTY), item:a.b[0], PARSE_JSON(item):c, item IS JSON,
    JSON_OBJECT(KEY item VALUE n ABSENT ON NULL), SPLIT_INDEX(item, ',', n), CEIL(ts TO HOUR) FROM bids
"""

_OWN: dict[str, tuple[str, ...]] = {
    "windows, triggers and evictors in Python": (_USER_WRITTEN,),
    "process functions": (_PROCESS,),
    "statement sets": (_SET,),
    "functions over the rows before": (_OVER,),
    "functions over rows in any order": (_OVER_ANY,),
    "functions over windows": (_OVER_WINDOW,),
    "joins within an interval": (_JOIN,),
    "joins of all rows": (_JOIN_OF_ALL,),
    "the best rows of each key": (_RANKED,),
    "groups and sets": (_GROUPED,),
    "rows that match a pattern": (_MATCHED,),
    "changes by key": (_CHANGED, _USERS),
    "joins as of a time and of windows": (_AS_OF,),
    "the watermark that holds": (_WATERMARKED,),
    "changes as rows": (_CHANGELOGS,),
    "functions of Flink": (_FLINKS_FUNCTIONS,),
}
"""Queries over the tables and functions of ``plans.py`` and tables of their own."""


def kinds_of_nodes() -> list[type[Node]]:
    """All that plans are made of: the nodes that every plan has, and those in the rooms of operators."""
    actual, waiting = [], [Node]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if not kind.__subclasses__() and kind.__module__.startswith(
            ("sqlstream.planner.nodes", "sqlstream.planner.operators.")
        ):
            actual.append(kind)
    return sorted(actual, key=lambda kind: kind.__name__)


@cache
def titles() -> tuple[str, ...]:
    """The names of all plans, known without making them: ``file: comment above the query``, or its line."""
    return (*_OWN, *(title for file in _files() for title in _blocks(file)))


@cache
def bound_plan_of(title: str) -> Node:
    """The plan of this title as bound."""
    if title in _OWN:
        return plan(*_OWN[title])
    return _plans(GOLDEN / f"{title.partition(': ')[0]}.golden")[title]


def corpus() -> dict[str, Node]:
    """All bound plans by title."""
    return {title: bound_plan_of(title) for title in titles()}


def _files() -> list[Path]:
    return sorted(GOLDEN.rglob("*.golden"))


@cache
def _blocks(file: Path) -> Mapping[str, Block]:
    """The blocks of a file that have plans of streams."""
    name = file.relative_to(GOLDEN).with_suffix("").as_posix()
    titled: dict[str, Block] = {}
    for block in parse_golden(file.read_text(encoding="utf-8")):
        is_batch = any(line.startswith("batch: ") for line in block.expected or ())
        if block.kind in ("plan", "stream") and not is_batch:
            title = f"{name}: {block.title}"
            titled[f"{title}, line {block.line}" if title in titled else title] = block
    return MappingProxyType(titled)


@cache
def _plans(file: Path) -> Mapping[str, Node]:
    """The plans of a file by title. Each block sees the tables, views and settings that those before it declare."""
    title_of = {block.line: title for title, block in _blocks(file).items()}
    plans: dict[str, Node] = {}
    with Session() as session, importable(file.parent):
        for block in parse_golden(file.read_text(encoding="utf-8")):
            if block.kind in SETUP:
                prepare((block,), session, file.parent)
            elif block.line in title_of:
                (statement,) = parse_script(sql_of(block, session, file.parent))
                assert isinstance(
                    statement, nodes.Query | nodes.Insert | nodes.StatementSet | nodes.CreateMaterializedView
                )
                plans[title_of[block.line]] = explained_plan(nodes.Explain(statement), session.workspace)
    return MappingProxyType(plans)
