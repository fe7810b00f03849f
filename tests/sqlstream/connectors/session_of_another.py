"""SQL of another engine, in an environment that has its packages alone.

``python session_of_another.py ENGINE PACKAGES`` reads requests from its input, a JSON object a line, each answered by a
line: ``settings`` of a session of its own, ``statements`` to run in order, and a ``query`` whose rows are the answer.
ENGINE is duckdb, whose PACKAGES are extensions.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until the input ends. What the engine prints goes to the errors."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    open_session = {"duckdb": duckdb}[sys.argv[1]]
    new_session = open_session(sys.argv[2])
    for line in sys.stdin:
        request = json.loads(line)
        try:
            run, rows = new_session(request["settings"]), []
            for statement in (*request["statements"], *filter(None, [request["query"]])):
                rows = run(statement)
            answer: dict[str, Any] = {"rows": [list(row) for row in rows]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:4000]}
        print(json.dumps(answer), file=answers, flush=True)


def duckdb(packages: str) -> Callable[[dict[str, str]], Callable[[str], list[Any]]]:
    """DuckDB with extensions that came with packages of Python."""
    import duckdb  # type: ignore[import-not-found, unused-ignore]

    def new_session(own_settings: dict[str, str]) -> Callable[[str], list[Any]]:
        connection: Any = duckdb.connect(config={"autoinstall_known_extensions": "false", **own_settings})
        for name in packages.split(","):
            found = find_spec(f"duckdb_extension_{name}")
            assert found is not None and found.origin is not None
            (file,) = Path(found.origin).parent.glob("extensions/*/*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        return lambda statement: connection.execute(statement).fetchall()

    return new_session


if __name__ == "__main__":
    main()
