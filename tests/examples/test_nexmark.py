"""Nexmark: the same rows for the same seed, the benchmark's proportions and skews, and queries that plan."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.nexmark import files, flink
from examples.nexmark.__main__ import cells, error_in, is_right, measured_of
from examples.nexmark.functions import count_char
from examples.nexmark.generator import (
    ACTIVE_PERSONS,
    FIRST_AUCTION_ID,
    FIRST_PERSON_ID,
    HOT_BATCH,
    HOT_CHANNEL_NAMES,
    ID_LEAD,
    IN_FLIGHT_AUCTIONS,
    START_MS,
    TABLES,
    Generator,
)
from examples.nexmark.queries import FUNCTIONS, QUERIES
from examples.nexmark.queries import TABLES as DDL
from examples.nexmark.run import Measured, Processors, definitions
from examples.throughput.measure import Batches
from sqlstream.analysis import Planner
from tests.depth import depth

EVENTS = 50_000
FIRST_BID = {
    "auction": 1002, "bidder": 1001, "price": 7016430, "channel": "channel-2450",
    "url": "https://www.nexmark.com/qwd/smzr/pzb/item.htm?query=1&channel_id=310672351",
}  # fmt: skip


@pytest.fixture(scope="module")
def events() -> dict[str, pa.Table]:
    return {name: rows_of(Generator(), 0, EVENTS) for name, rows_of in TABLES.items()}


@pytest.mark.parametrize("name", TABLES)
@settings(max_examples=depth(20, 500))
@given(st.integers(0, 2**40), st.integers(0, 2**40), st.lists(st.integers(0, 300), max_size=4))
def test_rows_do_not_depend_on_the_chunks(name, seed, first, lengths):
    rows_of, generator = TABLES[name], Generator(seed)
    bounds = first + np.cumsum([0, *lengths])
    chunks = [rows_of(generator, int(a), int(b)) for a, b in pairwise(bounds)]
    whole = rows_of(Generator(seed), int(bounds[0]), int(bounds[-1]))
    assert pa.concat_tables([whole.slice(0, 0), *chunks]).equals(whole)


def test_a_seed_says_which_rows(events):
    assert TABLES["bid"](Generator(), 0, EVENTS).equals(events["bid"])
    other = TABLES["bid"](Generator(seed=43), 0, EVENTS)
    assert pc.mean(pc.equal(other["price"], events["bid"]["price"])).as_py() < 0.01


def test_rows_of_today_are_those_of_yesterday():
    row = TABLES["bid"](Generator(), 0, 50).slice(0, 1).drop_columns(["extra", "dateTime"]).to_pylist()[0]
    assert row == FIRST_BID


def test_proportions_are_1_3_46(events):
    assert {name: rows.num_rows for name, rows in events.items()} == {"person": 1000, "auction": 3000, "bid": 46000}


def test_ids_ascend_without_gaps(events):
    for name, first in (("person", FIRST_PERSON_ID), ("auction", FIRST_AUCTION_ID)):
        ids = events[name]["id"].to_numpy()
        assert (ids == np.arange(first, first + len(ids))).all()


def test_time_ascends_at_the_rate(events):
    for rows in events.values():
        assert (np.diff(rows["dateTime"].cast(pa.int64()).to_numpy()) >= 0).all()
    slow = TABLES["person"](Generator(rate=10), 0, 1000)["dateTime"].cast(pa.int64()).to_numpy()
    assert slow[0] == START_MS * 1000
    assert (np.diff(slow) == 5_000_000).all()


def test_half_of_the_bids_are_for_hot_auctions_and_three_quarters_of_hot_bidders(events):
    auctions = events["bid"]["auction"].to_numpy() - FIRST_AUCTION_ID
    bidders = events["bid"]["bidder"].to_numpy() - FIRST_PERSON_ID
    assert np.mean(auctions % HOT_BATCH == 0) == pytest.approx(0.505, abs=0.02)
    assert np.mean(bidders % HOT_BATCH == 1) == pytest.approx(0.7525, abs=0.02)


def test_three_quarters_of_the_auctions_are_of_hot_sellers(events):
    sellers = events["auction"]["seller"].to_numpy() - FIRST_PERSON_ID
    assert np.mean(sellers % HOT_BATCH == 0) == pytest.approx(0.7525, abs=0.03)


def test_bids_are_for_auctions_in_flight_and_of_active_persons(events):
    newest = np.repeat(np.arange(1000), 46)
    auctions = events["bid"]["auction"].to_numpy() - FIRST_AUCTION_ID
    behind = newest * 3 + 2 - auctions
    assert behind.min() == -ID_LEAD
    assert behind.max() == IN_FLIGHT_AUCTIONS
    persons = newest - (events["bid"]["bidder"].to_numpy() - FIRST_PERSON_ID)
    assert -ID_LEAD <= persons.min() < 0
    assert persons.max() <= ACTIVE_PERSONS


def test_each_power_of_ten_has_as_many_prices(events):
    magnitudes = np.floor(np.log10(events["bid"]["price"].to_numpy() / 100))
    shares = np.bincount(magnitudes.astype(int), minlength=6)[:6] / len(magnitudes)
    assert shares == pytest.approx(np.full(6, 1 / 6), abs=0.01)


def test_half_of_the_channels_are_hot_and_most_others_are_in_the_url(events):
    bids = events["bid"]
    hot = pc.is_in(bids["channel"], pa.array(HOT_CHANNEL_NAMES))
    assert pc.mean(hot).as_py() == pytest.approx(0.5, abs=0.02)
    with_id = pc.match_substring(bids["url"], "&channel_id=")
    assert pc.mean(with_id).as_py() == pytest.approx(0.45, abs=0.02)
    assert not pc.any(pc.and_(hot, with_id)).as_py()


def test_auctions_last_as_long_as_those_in_flight_take(events):
    length = pc.subtract(events["auction"]["expires"], events["auction"]["dateTime"]).cast(pa.int64()).to_numpy()
    assert length.min() >= 1000
    assert length.mean() / 1000 == pytest.approx(IN_FLIGHT_AUCTIONS / 3 * 50 / 10, rel=0.05)


@pytest.mark.parametrize(("name", "size"), [("person", 200), ("auction", 500), ("bid", 100)])
def test_rows_are_padded_to_their_size(events, name, size):
    rows = events[name].drop_columns([c for c in ("channel", "url", "expires") if c in events[name].column_names])
    texts = [c for c in rows.column_names if pa.types.is_string(rows.schema.field(c).type)]
    lengths = sum(pc.mean(pc.binary_length(rows[c])).as_py() for c in texts)
    assert lengths + 8 * (rows.num_columns - len(texts)) == pytest.approx(size, rel=0.03)


@pytest.mark.parametrize("file_format", files.FORMATS)
def test_files_hold_the_same_rows_in_each_format(tmp_path, events, file_format):
    files.write(tmp_path, EVENTS, 3, file_format)
    for name, expected in events.items():
        parts = sorted((tmp_path / name).iterdir())
        assert len(parts) == 3
        rows = pa.concat_tables(_read(part, expected.schema) for part in parts)
        assert rows.equals(expected.cast(rows.schema))


def _read(path, schema):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".csv":
        options = pyarrow.csv.ReadOptions(column_names=schema.names)
        plain = {f.name: pa.timestamp("us") if pa.types.is_timestamp(f.type) else f.type for f in schema}
        table = pyarrow.csv.read_csv(path, options, convert_options=pyarrow.csv.ConvertOptions(column_types=plain))
        return _in_utc(table)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    table = pa.Table.from_pylist(rows)
    times = [name for name in ("dateTime", "expires") if name in table.column_names]
    for name in times:
        at = table[name].cast(pa.timestamp("us"))
        table = table.set_column(table.column_names.index(name), name, at)
    return _in_utc(table)


def _in_utc(table):
    fields = [f.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def test_rows_of_a_micro_batch_say_how_many_files():
    assert [files.files_for(1000, rows) for rows in (1, 300, 1000, 5000)] == [1000, 4, 1, 1]


def test_characters_are_counted():
    assert count_char(pa.array(["abcc", "", None]), pa.array(["c"] * 3)).to_pylist() == [2, 0, None]
    assert count_char(pa.array([], pa.string()), pa.array([], pa.string())).to_pylist() == []


def test_every_query_is_there():
    assert set(QUERIES) == {f"q{i}" for i in range(24)} | {f"cep{i}" for i in range(4)}


@pytest.mark.parametrize("name", QUERIES)
def test_query_plans(name):
    assert Planner().with_ddl(DDL + FUNCTIONS).plan(QUERIES[name])


def _measured(difference=""):
    batches = Batches([50, 50, 50], [300, 100, 100], [1.0, 0.5, 0.5], 900, 1 << 20)
    return Measured(batches, 5.0, 2.5, Processors(8.0, 3.0, 1.0), 7, difference)


def test_a_right_query_is_a_line_of_figures():
    assert cells("q3", _measured()) == [
        "q3", "30", "500", "100", "300", "2.5", "8.0", "3.0", "1.0", "900", "1.0", "right: 7 rows (DuckDB)",
    ]  # fmt: skip
    assert is_right(_measured())


def test_a_wrong_or_failed_query_is_a_line_that_says_so():
    assert cells("q3", _measured("1 rows missing"))[-1] == "wrong: 1 rows missing"
    assert cells("q3", "SS401: no")[-1] == "failed: SS401: no"
    assert not is_right(_measured("1 rows missing"))
    assert not is_right("SS401: no")


def test_the_error_of_a_traceback_is_found():
    text = (
        "Traceback (most recent call last):\n  File x\nsqlstream.errors.BindError: SS201: no column\nLINE 1: SELECT a\n"
    )
    assert error_in(text) == "sqlstream.errors.BindError: SS201: no column"


def test_figures_pass_between_processes():
    assert measured_of(json.loads(json.dumps(asdict(_measured())))) == _measured()


def test_definitions_over_files_are_definitions(tmp_path):
    planner = Planner().with_ddl(";".join(definitions(tmp_path, "csv", file_per_trigger=True)))
    assert planner.plan(QUERIES["q13"])


def test_flink_is_given_the_same_texts(tmp_path):
    text = flink.script("q5", tmp_path, "json")
    assert text.endswith(QUERIES["q5"])
    assert f"'path' = 'file://{tmp_path}/bid', 'format' = 'json'" in text


def test_figures_of_flink_are_read():
    assert flink.parsed(0, 'noise\n{"seconds": 2.5, "processor": 4.0, "peak_mb": 600}\n', "") == _flink()
    stderr = 'Exception in thread "main" a\n\tat b\nCaused by: c\n\tat d\n'
    assert flink.parsed(1, "", stderr) == "Caused by: c"
    assert flink.parsed(1, "", "") == "it ended without a word"


def test_both_are_a_line_with_their_ratio():
    assert flink.cells("q3", _measured(), _flink()) == ["q3", "2.5", "4.0", "600", "5.0", "9.0", "900", "0.50", ""]
    assert flink.cells("q3", "SS401: no", _flink()) == ["q3", "2.5", "4.0", "600", "–", "–", "–", "–", "SS401: no"]
    assert flink.cells("q3", _measured("1 rows missing"), "refused") == [
        "q3", "–", "–", "–", "5.0", "9.0", "900", "–", "refused; wrong: 1 rows missing",
    ]  # fmt: skip
    slow = flink.OnFlink(50, 0, 0, done=False)
    assert flink.cells("q3", _measured(), slow) == ["q3", "> 50", "–", "–", "5.0", "9.0", "900", "> 10.00", ""]
    assert flink.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def _flink():
    return flink.OnFlink(2.5, 4.0, 600)
