"""The scripts of the peers' cases parse, where the folder of cases is present."""

from __future__ import annotations

import json

import pytest

from sqlstream.grammar import parse_script, to_sql
from tests.peers import MISSING, PEERS


@pytest.mark.skipif(not PEERS.is_dir(), reason=MISSING)
def test_scripts_of_the_peers_parse_and_print() -> None:
    scripts = 0
    for path in sorted(PEERS.glob("**/*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        for case in document if isinstance(document, list) else [document]:
            for statement in parse_script(case.get("script") or ""):
                scripts += 1
                assert parse_script(to_sql(statement)) == (statement,), path
    assert scripts > 300
