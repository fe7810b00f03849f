"""What ``sqlstream serve`` knows of its scripts before it starts the server of materialized views."""

from __future__ import annotations

from sqlstream.cli.serve import server_settings


def test_the_server_is_the_one_that_the_scripts_set():
    first = "SET 'sqlstream.views.dir' = '/a'; SET 'parallelism.default' = '2'; SET 'sqlstream.views.dir' = '/b'"
    second = "SET 'sqlstream.views.url' = 'postgresql://h/d'; CREATE VIEW v AS SELECT 1 AS x; SET"
    assert server_settings([first, second]) == {
        "sqlstream.views.dir": "/b",
        "sqlstream.views.url": "postgresql://h/d",
    }
    assert server_settings([]) == {}
