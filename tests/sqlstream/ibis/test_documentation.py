"""The example of the page: its SQL is planned."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.session import Session

ibis = pytest.importorskip("ibis")

from sqlstream.ibis.backend import Backend  # noqa: E402

PAGE = "docs/ibis.md"
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", Path(__file__).parents[3].joinpath(PAGE).read_text("utf-8"), re.DOTALL)
LAST = "print(per_minute.to_pandas())\n"


def run(example, session, monkeypatch):
    connecting, count = re.subn(re.escape('connect(spark="local[2]")'), "connect(session)", example)
    assert count == 1
    monkeypatch.setattr(ibis, "sqlstream", SimpleNamespace(connect=Backend().connect), raising=False)
    names: dict[str, Any] = {"session": session}
    exec(compile(connecting, PAGE, "exec"), names)
    names["con"].disconnect()


def test_the_sql_of_the_example_is_planned(monkeypatch, capsys):
    assert EXAMPLE.endswith(LAST)
    session = Session()
    run(EXAMPLE.removesuffix(LAST), session, monkeypatch)
    printed = capsys.readouterr().out
    assert "TUMBLE(TABLE (SELECT * FROM `orders` AS `t0` WHERE `t0`.`price` > 5)" in printed
    assert session.check(printed) == ()
