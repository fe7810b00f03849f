"""What must hold for every text holds for the texts of the repository, and for so many changed ones of a seed."""

from __future__ import annotations

import logging
from itertools import islice

import pytest

from sqlstream.grammar import parse_script_recovering, to_sql
from tests.depth import depth
from tests.fuzz.campaign import Campaign
from tests.fuzz.every_word import OPTIONAL, in_every_place, without_a_word
from tests.fuzz.examine import examine, examine_syntax
from tests.fuzz.minimise import minimised
from tests.fuzz.mutation import words_of
from tests.fuzz.seeds import seeds

_SEED, _TEXTS = 14, depth(500, 3000)


@pytest.fixture(autouse=True)
def quiet():
    """sqlglot warns of what it leaves out; the tree that comes back shows it."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_all_sql_of_the_repository():
    collected = {
        s.text: findings for s in seeds()[:: depth(60, 1)] if (findings := examine(s.text, s.workspace).findings)
    }
    assert collected == {}


def test_changed_texts():
    campaign = Campaign(_SEED)
    campaign.run(texts=_TEXTS)
    assert campaign.groups == {}
    assert campaign.texts == _TEXTS
    assert campaign.kinds["right"] > _TEXTS // 50, "the changes leave too little that is right"


def test_a_word_that_may_be_left_out_is_known():
    """What parses without one of its words, and means the same then, has lost something, or the word says nothing."""
    lost: dict[str, object] = {}
    for seed, word, text in islice(without_a_word(), 0, None, depth(18, 1)):
        statements, errors = parse_script_recovering(text)
        if errors:
            continue
        whole, _ = parse_script_recovering(seed.text)
        if word.upper() not in OPTIONAL and statements == whole and [*map(to_sql, statements)] == [*map(to_sql, whole)]:
            lost[text] = f"means the same with {word}"
        for finding in examine_syntax(text, statements):
            lost[text] = finding
    assert lost == {}


def test_keywords_in_the_places_of_names():
    found = {}
    for text in islice(in_every_place(), 0, None, depth(26, 1)):
        statements, errors = parse_script_recovering(text)
        findings = [] if errors else examine_syntax(text, statements)
        if findings:
            found[text] = findings
    assert found == {}


def test_words_are_the_text():
    assert all("".join(words_of(s.text)) == s.text for s in seeds())


def test_the_smallest_text_is_found():
    assert minimised("SELECT a, f(b, 'x') FROM t WHERE c > 1", lambda t: "f(" in t and "c" in t) == "f(c"


def test_a_finding_is_told(monkeypatch):
    seed = next(s for s in seeds() if s.text.startswith("SELECT"))
    monkeypatch.setattr("tests.fuzz.examine.format_script", lambda text: "SELECT 1")
    (name, _), *_ = examine(seed.text, seed.workspace).findings
    assert name.startswith("format: formatted text means something else, ")
