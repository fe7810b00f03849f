"""Types of catalogs that packages register."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sqlstream.catalogs import kinds
from sqlstream.catalogs.kinds import CatalogType, Opening
from sqlstream.catalogs.store import Bound, InMemory, Store
from sqlstream.errors import ConnectorError
from sqlstream.options import NAME, Option
from sqlstream.planner.catalog import Column, Table
from sqlstream.session import Session
from sqlstream.types import parse_type


class Fixed(CatalogType):
    """A catalog with one table, whose name is an option."""

    name = "fixed"
    doc = "One table."
    options = (Option("table", NAME, "The name of the table.", required=True),)

    def open(self, opening: Opening) -> Store:
        store = InMemory("main", "It shows one table.")
        table = Table(opening.values["table"], (Column("a", parse_type("INT")),), "datagen", streamed=True)
        store.put("main", "relation", Bound(table))
        return store


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch):
    def broken() -> object:
        raise ImportError("no module of that name")

    points = {
        name: SimpleNamespace(name=name, value=f"m:{name}", module="m", dist=None, load=load)
        for name, load in (("fixed", lambda: Fixed), ("broken", broken), ("wrong", lambda: dict))
    }
    monkeypatch.setattr(kinds, "registered", lambda _: points)
    with Session(None) as opened:
        yield opened


def test_a_catalog_of_a_package_shows_its_tables(session: Session) -> None:
    session.sql("CREATE CATALOG c WITH ('type' = 'fixed', 'table' = 't')")
    assert session.check("SELECT a + 1 AS b FROM c.main.t") == ()
    (mistake,) = session.check("CREATE TABLE c.main.u (a INT) WITH ('connector' = 'datagen')")
    assert mistake.hint == "It shows one table."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("'type' = 'fixed'", "need the option \"table\"\nHINT: Add 'table' = '…': The name of the table."),
        ("'type' = 'fixed', 'tabel' = 't', 'table' = 't'", 'have no option "tabel"\nHINT: Did you mean "table"?'),
        ("'type' = 'fixt'", 'there is no type "fixt" of catalogs'),
        ("'type' = 'broken'", 'type "broken" of catalogs, of package "m", cannot be loaded'),
        ("'type' = 'wrong'", "DETAIL: m:wrong is no sqlstream.catalogs.kinds.CatalogType."),
    ],
)
def test_a_wrong_catalog_of_a_package_is_an_error(session: Session, options: str, expected: str) -> None:
    with pytest.raises(ConnectorError) as error:
        session.sql(f"CREATE CATALOG c WITH ({options})")
    assert error.value.code == "SS536"
    lines = [line for line in str(error.value).splitlines() if not line.startswith(("LINE", " "))]
    assert expected in "\n".join(lines)
