"""Plans of golden files, for tests of what must hold for every plan."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlstream.planner.node import Node
from sqlstream.testing.golden_format import parse_golden
from tests.planner.plans import plan

_GOLDEN = Path(__file__).parents[1] / "golden"
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
def corpus() -> dict[str, Node]:
    """Bound plans by the comment above their query, or by the query."""
    files = (
        _GOLDEN / "planner" / "plans.golden",
        _GOLDEN / "plan_firing.golden",
        _GOLDEN / "plan_lookup.golden",
        _GOLDEN / "plan_barriers.golden",
    )
    collected = {title: collected for file in files for title, collected in _plans(file).items()}
    own = {"windows, triggers and evictors in Python": plan(_USER_WRITTEN), "process functions": plan(_PROCESS)}
    own |= {"statement sets": plan(_SET), "functions over the rows before": plan(_OVER)}
    own |= {"functions over rows in any order": plan(_OVER_ANY), "functions over windows": plan(_OVER_WINDOW)}
    own |= {"joins within an interval": plan(_JOIN), "joins of all rows": plan(_JOIN_OF_ALL)}
    own |= {"the best rows of each key": plan(_RANKED), "groups and sets": plan(_GROUPED)}
    own |= {"rows that match a pattern": plan(_MATCHED)}
    own |= {"changes by key": plan(_CHANGED, _USERS), "joins as of a time and of windows": plan(_AS_OF)}
    own |= {"the watermark that holds": plan(_WATERMARKED)}
    own |= {"changes as rows": plan(_CHANGELOGS), "functions of Flink": plan(_FLINKS_FUNCTIONS)}
    return {**collected, **own}


def _plans(file: Path) -> dict[str, Node]:
    blocks = parse_golden(file.read_text(encoding="utf-8"))
    tables = ";\n".join(b.sql for b in blocks if b.kind == "statement") + ";\n"
    plans = [b for b in blocks if b.kind == "plan"]
    return {b.sql if b.title.startswith("line ") else b.title: plan(b.sql, tables) for b in plans}
