"""Apache Superset on a materialized view and on the dialect of SQLAlchemy: ``make check-superset``.

``python -m tests.superset [--environment .venv-superset] [--pictures docs/captures] [--only view|dialect]``. Superset
has an environment of its own, which is made at first, and runs without a screen on a port of this machine; departures
come as files meanwhile, and ``sqlstream serve`` keeps a view of them. What is asked goes through Superset's REST API.
With ``--pictures``, and Debian's chromium, a dashboard that refreshes itself is photographed twice. Exit status 1 where
anything has failed.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.views.served import Server
from tests.superset import dashboard
from tests.superset.checks import Asked, Outcome, check
from tests.superset.environment import Environment, install_sqlstream, made
from tests.superset.rest import Rest
from tests.superset.served import departing, keeping, write_project
from tests.superset.server import USER, SupersetServer

_SHOWN = 10_000
"""So much of the end of Superset's log is shown where something has failed."""

_SQL = "SELECT carrier, departures, mean_delay FROM {table} ORDER BY departures DESC"
_WINDOWS = """SELECT window_start, COUNT(*) AS departures
FROM TUMBLE(TABLE departures, DESCRIPTOR(at), INTERVAL '10' SECOND) GROUP BY window_start, window_end"""


def on_view(rest: Rest, server: Server, outcome: Outcome) -> int:
    """The number of the chart."""
    asked = Asked(
        "view", server.url(), "public", "carriers", "carrier", "departures", "last_at", (_SQL.format(table="carriers"),)
    )
    return check(rest, asked, outcome).chart


def on_dialect(rest: Rest, folder: Path, outcome: Outcome) -> int:
    url = f"sqlstream:///{folder}?spark=local[1]"
    queries = (_SQL.format(table="by_carrier"), _WINDOWS)
    asked = Asked("dialect", url, "sales", "by_carrier", "carrier", "departures", "last_at", queries)
    return check(rest, asked, outcome).chart


def photograph(
    rest: Rest, environment: Environment, superset: SupersetServer, chart: int, page: str, folder: Path, told: Outcome
) -> None:
    with told.of("pictures of a chart that changes") as lines:
        number = dashboard.make(rest, chart, "Departures by carrier")
        url = f"{superset.url}/superset/dashboard/{number}/?standalone=1"
        pictures = [folder / f"superset-{n}.png" for n in (1, 2)]
        lines.append(dashboard.photograph(environment, url, ".chart-container canvas", pictures, rest.cookies(), 500))
        if pictures[0].read_bytes() == pictures[1].read_bytes():
            raise ValueError("both are the same")
    with told.of("picture of the page of sqlstream serve") as lines:
        lines.append(dashboard.photograph(environment, page, "table", [folder / "serve.png"], {}, 260))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, default=Path(".venv-superset"), help="folder of Superset's own")
    parser.add_argument("--pictures", type=Path, help="folder for pictures")
    parser.add_argument("--only", choices=("view", "dialect"), help="one of the two")
    chosen = parser.parse_args()
    environment = made(chosen.environment)
    outcomes: dict[str, Outcome] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sqlstream-superset-")))
        folder.chmod(0o755)
        write_project(folder)
        stack.enter_context(departing(folder))
        (folder / "superset").mkdir()
        superset = SupersetServer(environment, folder / "superset")
        superset.prepare()
        if chosen.only != "dialect":
            outcome = outcomes["the materialized view, through psycopg2"] = Outcome()
            with keeping(folder) as job, superset.running():
                rest = Rest(superset.url, USER, superset.password)
                chart = on_view(rest, job, outcome)
                if chosen.pictures is not None:
                    photograph(rest, environment, superset, chart, job.page(), chosen.pictures, outcome)
        if chosen.only != "view":
            outcome = outcomes["sqlstream://, the dialect"] = Outcome()
            install_sqlstream(environment, folder / "sqlstream")
            with superset.running([environment.overlay, folder / "sqlstream"]):
                on_dialect(Rest(superset.url, USER, superset.password), folder, outcome)
        failed = any(outcome.failed for outcome in outcomes.values())
        if failed:
            print(superset.log.read_text(encoding="utf-8", errors="replace")[-_SHOWN:])
    _print(environment, outcomes)
    raise SystemExit(failed)


def _print(environment: Environment, outcomes: dict[str, Outcome]) -> None:
    versions = environment.versions("apache-superset", "SQLAlchemy", "psycopg2-binary")
    table = Table(", ".join(" ".join(pair) for pair in versions.items()), "", "")
    for name, outcome in outcomes.items():
        table.add_section()
        table.add_row(name, "", "")
        for row in outcome.rows:
            table.add_row(*map(escape, row))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
