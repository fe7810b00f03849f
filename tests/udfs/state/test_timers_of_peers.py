"""The timer service judged by the cases of Flink's, where they are at hand (``SQLSTREAM_PEERS``)."""

from __future__ import annotations

import pytest

from sqlstream.testing.case_format import load_case
from tests.peers import MISSING, PEERS, files_of
from tests.peers.below_sql import run_kernel_case

CASES = files_of("flink-timers")


@pytest.mark.skipif(not CASES, reason=MISSING)
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_timers_do_as_flinks_do(path):
    run_kernel_case(load_case(path, PEERS))
