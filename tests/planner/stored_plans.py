"""Plans as a version has stored them, which later ones must read.

``python -m tests.planner.stored_plans`` adds those of this version, and changes none that are there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlstream.planner.explain import to_json
from sqlstream.planner.explain.to_json import VERSION
from sqlstream.planner.rules import optimize
from sqlstream.version import __version__
from tests.planner.plans import plan

FOLDER = Path(__file__).with_name("plans_of_versions")

QUERIES = {
    "projection": "SELECT n + 1 AS m FROM bids WHERE item = 'a'",
    "tumble": "SELECT window_start, COUNT(*) FROM TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
    "GROUP BY window_start, window_end",
    "session": "SELECT item, COUNT(*) FROM SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
    "GROUP BY item, window_start, window_end",
    "count window": "SELECT MAX(v) FROM clicks GROUP BY COUNT WINDOW (5 ROWS)",
    "trigger": "SELECT COUNT(*) FROM bids GROUP BY GLOBAL WINDOW TRIGGER EVERY 10 ROWS",
    "group": "SELECT item, SUM(price) FROM bids GROUP BY item",
    "regular join": "SELECT b.item FROM bids AS b LEFT JOIN plain AS p ON b.item = p.k",
    "interval join": "SELECT a.n FROM bids AS a JOIN bids AS b ON a.n = b.n "
    "AND a.ts BETWEEN b.ts - INTERVAL '1' MINUTE AND b.ts",
    "lookup": "SELECT c.v, l.name FROM clicks AS c JOIN lookup FOR SYSTEM_TIME AS OF c.pt AS l ON l.id = c.v",
    "over": "SELECT n, SUM(n) OVER (PARTITION BY item ORDER BY ts) FROM bids",
    "top": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY n) AS r FROM bids) WHERE r <= 3",
    "distinct": "SELECT DISTINCT item FROM bids",
    "union": "SELECT k, v FROM plain UNION ALL SELECT k, v FROM clicks",
    "unnest": "SELECT t.tag FROM bids CROSS JOIN UNNEST(tags) AS t (tag)",
    "changes": "SELECT id FROM cdc",
    "insert": "INSERT INTO totals SELECT auction, COALESCE(price, 0) FROM bids",
}


def stored() -> dict[str, dict[str, Any]]:
    """The documents of all versions, by file and query."""
    files = sorted(FOLDER.glob("*.json"))
    return {
        f"{file.stem}: {name}": document
        for file in files
        for name, document in json.loads(file.read_text("utf-8")).items()
    }


def main() -> None:
    file = FOLDER / f"{__version__}-{VERSION}.json"
    present = json.loads(file.read_text("utf-8")) if file.exists() else {}
    made = {name: to_json(optimize(plan(text))) for name, text in QUERIES.items()}
    FOLDER.mkdir(exist_ok=True)
    file.write_text(json.dumps({**made, **present}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
