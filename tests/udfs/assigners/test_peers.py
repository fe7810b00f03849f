"""The windows that Flink's assigners give to rows, where its cases are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.udfs.assigners import Assigner, Cumulate, Hop, Session, Tumble

PEERS = Path(os.environ.get("SQLSTREAM_PEERS") or Path(__file__).parents[3] / ".." / "shared" / "peers").resolve()
SUITE = PEERS / "flink-window-assigner"
TOLD = "windows a row falls into: "


def cases() -> list[Any]:
    if not SUITE.is_dir():
        return []
    document = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(SUITE.glob("*.json")))
    return [pytest.param(case, id=case["id"]) for case in document if case["description"].startswith(TOLD)]


def assigner_of(config: dict[str, Any]) -> Assigner:
    times = {name.removesuffix("_ms"): ms * 1000 for name, ms in config.items() if name.endswith("_ms")}
    match config["type"]:
        case "tumble":
            return Tumble("ts", **times)
        case "hop":
            return Hop("ts", **times)
        case "cumulate":
            return Cumulate("ts", **times)
        case other:
            assert other == "session"
            return Session("ts", **times)


@pytest.mark.skipif(not SUITE.is_dir(), reason=f"no cases of peers at {PEERS}")
@pytest.mark.parametrize("case", cases())
def test_rows_have_the_windows_that_flink_gives_them(case):
    config = json.loads(case["description"].removeprefix(TOLD))
    rows = [values for step in case["steps"] for values in step.get("values", [])]
    table = pa.table({"ts": pa.array([ms for _, ms in rows], pa.timestamp("ms"))})
    frame = assigner_of(config).assign(table, SimpleNamespace(processing_time=0))
    windows = [
        [*rows[row], start // 1000, end // 1000]
        for row, start, end in zip(*(part.tolist() for part in frame), strict=True)
    ]
    assert windows == case["expect_final"]["rows"]
