"""Plans that this and former versions have stored, and the schema that is published for them."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sqlstream.planner import from_json, plan_schema, to_json
from sqlstream.planner.explain.to_json import VERSION
from sqlstream.planner.rules import optimize
from sqlstream.version import __version__
from tests.planner.corpus import bound_plan_of, titles
from tests.planner.plans import plan
from tests.planner.stored_plans import QUERIES, stored

STORED = stored()
VALIDATOR = Draft202012Validator(plan_schema())


def test_the_plans_of_this_version_are_stored():
    """Those that it had a query for when they were stored: a new query is stored with the next version."""
    assert any(title.startswith(f"{__version__}-{VERSION}: ") for title in STORED)
    assert {title.partition(": ")[2] for title in STORED} <= QUERIES.keys()


@pytest.mark.parametrize("title", STORED)
def test_stored_plans_read_as_what_the_query_means_today(title):
    _, _, name = title.partition(": ")
    assert from_json(STORED[title]) == optimize(plan(QUERIES[name]))


@pytest.mark.parametrize("title", STORED)
def test_stored_plans_are_of_the_schema(title):
    assert [error.message for error in VALIDATOR.iter_errors(STORED[title])] == []


def test_the_schema_is_a_schema_and_the_published_one():
    Draft202012Validator.check_schema(plan_schema())
    published = Path(__file__).parents[2] / "docs" / "plan.schema.json"
    assert json.loads(published.read_text("utf-8")) == plan_schema()


@pytest.mark.parametrize("title", titles()[::7])
def test_plans_of_golden_files_are_of_the_schema(title):
    document = json.loads(json.dumps(to_json(optimize(bound_plan_of(title)))))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan.pop("names"),
        lambda plan: plan.update(names=3),
        lambda plan: plan.update(more=True),
        lambda plan: plan["input"].update(node="Nothing"),
    ],
)
def test_other_documents_are_not_of_the_schema(change):
    document = deepcopy(STORED[f"{__version__}-{VERSION}: projection"])
    change(document["plan"])
    assert [*VALIDATOR.iter_errors(document)]


def test_a_field_that_came_later_is_read_as_its_default():
    document = deepcopy(STORED[f"{__version__}-{VERSION}: group"])
    del document["plan"]["input"]["ttl_ms"]
    assert [*VALIDATOR.iter_errors(document)] == []
    assert from_json(document) == optimize(plan(QUERIES["group"]))


def test_a_field_that_was_always_there_must_be():
    document = deepcopy(STORED[f"{__version__}-{VERSION}: group"])
    del document["plan"]["input"]["keys"]
    with pytest.raises(ValueError, match="GroupAggregate lacks what every version of it has"):
        from_json(document)
