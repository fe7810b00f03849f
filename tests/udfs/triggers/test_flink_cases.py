"""Triggers judged by the cases of Flink's, where they are at hand (``SQLSTREAM_PEERS``)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.testing.case_format import load_case
from tests.peers.below_sql import run_kernel_case

PEERS = Path(os.environ.get("SQLSTREAM_PEERS") or Path(__file__).parents[3] / ".." / "shared" / "peers").resolve()
CASES = sorted((PEERS / "flink-trigger").glob("*.json"))


@pytest.mark.skipif(not CASES, reason=f"no cases of peers at {PEERS}")
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_triggers_do_as_flinks_do(path):
    run_kernel_case(load_case(path, PEERS))
