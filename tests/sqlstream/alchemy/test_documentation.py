"""The examples of the page run, on the session of the tests."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from sqlstream import dbapi
from sqlstream.session import Session

PAGE = "docs/dbapi.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", Path(__file__).parents[3].joinpath(PAGE).read_text("utf-8"), re.DOTALL)

pytestmark = pytest.mark.spark


def run(example, **names):
    exec(compile(example, PAGE, "exec"), names)


def test_the_example_of_cursors_runs(spark, monkeypatch, capsys):
    monkeypatch.setattr(dbapi, "connect", partial(dbapi.connect, spark))
    run(EXAMPLES[0])
    assert "[(998, 996004), (999, 998001), (1000, 1000000)]" in capsys.readouterr().out


def test_the_example_of_sqlalchemy_runs(spark, capsys):
    example, count = re.subn(
        r'create_engine\("[^"]*"\)', 'create_engine("sqlstream://", connect_args=args)', EXAMPLES[1]
    )
    assert count == 1
    with Session(spark) as session:
        run(example, args={"session": session})
    assert capsys.readouterr().out.split() == ["n", "square", "0", "1", "1", "1", "2", "4"]
