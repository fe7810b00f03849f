from __future__ import annotations

import pytest

from sqlstream.catalog import Catalog
from sqlstream.errors import BindError, Span
from sqlstream.grammar import parse_query
from sqlstream.grammar.nodes import Name
from sqlstream.planner.catalog import Function, FunctionKind, Table, View
from sqlstream.types import parse_type

BIDS = Table("Bids", (), "datagen")
VIEW = View("v", parse_query("SELECT 1 AS a FROM bids"))
FEE = Function("Fee", "m:fee", FunctionKind.SCALAR, parse_type("INT"))


def name(*parts: str) -> Name:
    return Name(parts, span=Span(3, 7))


@pytest.fixture
def catalog() -> Catalog:
    own_catalog = Catalog()
    own_catalog.create(name("bids"), BIDS)
    own_catalog.create(name("v"), VIEW)
    own_catalog.create_function(name("fee"), FEE)
    return own_catalog


def refused(action) -> tuple[str, str]:
    with pytest.raises(BindError) as error:
        action()
    assert error.value.diagnostic.span == Span(3, 7)
    return error.value.code, str(error.value)


def test_names_ignore_case_and_keep_their_spelling(catalog: Catalog) -> None:
    assert catalog.relation("BIDS") is BIDS
    assert catalog.function("FEE") is FEE
    assert (catalog.relation_names(), catalog.function_names()) == (["Bids", "v"], ["Fee"])
    assert (catalog.tables(), catalog.views(), catalog.functions()) == ([BIDS], [VIEW], [FEE])


def test_a_name_is_taken_once(catalog: Catalog) -> None:
    for again in (BIDS, VIEW):
        code, text = refused(lambda again=again: catalog.create(name("BIDS"), again))
        assert code == "SS224" and 'table "Bids" exists already' in text
    assert not catalog.create(name("bids"), Table("bids", (), "print"), if_not_exists=True)
    assert catalog.relation("bids") is BIDS
    assert refused(lambda: catalog.create_function(name("fee"), FEE))[0] == "SS224"
    assert not catalog.create_function(name("fee"), FEE, if_not_exists=True)


def test_a_view_replaces_a_view_only(catalog: Catalog) -> None:
    newer = View("V", parse_query("SELECT 2 AS a FROM bids"))
    assert catalog.create(name("v"), newer, replace=True)
    assert catalog.relation("v") is newer
    assert refused(lambda: catalog.create(name("bids"), newer, replace=True))[0] == "SS224"


def test_what_is_dropped_is_gone(catalog: Catalog) -> None:
    assert catalog.drop("TABLE", name("bids")) is BIDS
    assert catalog.drop("VIEW", name("V")) is VIEW
    assert catalog.drop("FUNCTION", name("fee")) is FEE
    assert catalog.relation_names() == catalog.function_names() == []
    assert catalog.drop("TABLE", name("bids"), if_exists=True) is None


def test_dropping_what_is_not_there_suggests_what_is(catalog: Catalog) -> None:
    code, text = refused(lambda: catalog.drop("TABLE", name("bidz")))
    assert code == "SS202" and 'Did you mean "Bids"?' in text
    assert 'Did you mean "Fee"?' in refused(lambda: catalog.drop("FUNCTION", name("fees")))[1]


def test_dropping_the_wrong_kind_says_what_to_write(catalog: Catalog) -> None:
    code, text = refused(lambda: catalog.drop("VIEW", name("bids")))
    assert code == "SS202" and '"Bids" is a table, not a view' in text and "Write DROP TABLE." in text


def test_only_the_default_catalog_and_database_exist(catalog: Catalog) -> None:
    assert catalog.relation("default_catalog.default_database.bids") is BIDS
    assert catalog.relation("default_database.Bids") is BIDS
    assert catalog.relation("other.bids") is None
    assert catalog.required(name("DEFAULT_CATALOG", "default_database", "bids")) is BIDS
    code, text = refused(lambda: catalog.drop("TABLE", name("other", "bids")))
    assert code == "SS225" and 'database "other" does not exist in catalog "default_catalog"' in text


def test_a_copy_changes_on_its_own(catalog: Catalog) -> None:
    copy = catalog.copy()
    copy.drop("TABLE", name("bids"))
    copy.register(FEE, len)
    assert catalog.relation("bids") is BIDS
    assert (catalog.implementation(FEE), copy.implementation(FEE)) == (None, len)


def test_a_registered_object_is_replaced_and_dropped_with_its_function(catalog: Catalog) -> None:
    catalog.register(FEE, len)
    catalog.register(FEE, max)
    assert catalog.implementation(FEE) is max
    catalog.drop("FUNCTION", name("fee"))
    assert catalog.implementation(FEE) is None
