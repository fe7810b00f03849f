"""A dashboard of one chart that asks for its data again and again, and pictures of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.superset.environment import Environment
from tests.superset.rest import Rest

PICTURES = Path(__file__).with_name("pictures.py")
REFRESH_S = 5
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def make(rest: Rest, chart: int, title: str) -> int:
    """The number of the dashboard."""
    parents = ["ROOT_ID", "GRID_ID"]
    meta = {"chartId": chart, "width": 12, "height": 42, "sliceName": title}
    position = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": ["ROW-1"], "parents": ["ROOT_ID"]},
        "ROW-1": {
            "type": "ROW", "id": "ROW-1", "children": ["CHART-1"], "parents": parents,
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        },
        "CHART-1": {"type": "CHART", "id": "CHART-1", "children": [], "parents": [*parents, "ROW-1"], "meta": meta},
    }  # fmt: skip
    body = {
        "dashboard_title": title,
        "published": True,
        "position_json": json.dumps(position),
        "json_metadata": json.dumps({"refresh_frequency": REFRESH_S, "timed_refresh_immune_slices": []}),
    }
    number = int(rest.post("/api/v1/dashboard/", body)["id"])
    rest.put(f"/api/v1/chart/{chart}", {"dashboards": [number]})
    return number


def photograph(
    environment: Environment, url: str, selector: str, pictures: Sequence[Path], cookies: dict[str, str], height: int
) -> str:
    """Pictures of a page that stays open. How large they are."""
    browser = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if browser is None:
        raise RuntimeError("there is no chromium: apt-get install chromium")
    asked = {
        "browser": browser, "url": url, "cookies": cookies, "selector": selector, "height": height,
        "pictures": list(map(str, pictures)), "pause_s": 4 * REFRESH_S,
    }  # fmt: skip
    command = [str(environment.python), str(PICTURES)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-1500:])
    return ", ".join(f"{picture.name} {picture.stat().st_size // 1024} KB" for picture in pictures)
