"""Golden files are read and written back without loss."""

from __future__ import annotations

import pytest

from sqlstream.testing.golden_format import Block, GoldenFormatError, lines_of, parse_golden, render_golden, steps_of

TEXT = """\
# What the file is about.

# a table
statement
CREATE TABLE bids (auction BIGINT) WITH ('connector' = 'test')

# the plan
plan optimized
SELECT *
FROM bids
----
Scan(bids)

stream
SELECT * FROM bids
----
> bids  1
+I 1
> finish

error
SELECT x FROM bids
----
SS201: column "x" does not exist
"""


def test_a_file_reads_and_prints_back():
    blocks = parse_golden(TEXT)
    assert [b.kind for b in blocks] == ["comment", "statement", "plan", "stream", "error"]
    assert blocks[2] == Block("plan", 8, "SELECT *\nFROM bids", ("the plan",), "optimized", ("Scan(bids)",))
    assert render_golden(blocks) == TEXT


def test_a_stream_block_is_inputs_with_their_outputs():
    stream = parse_golden(TEXT)[3]
    steps = steps_of(stream)
    assert [(s.words, s.output) for s in steps] == [("bids  1", ("+I 1",)), ("finish", ())]
    assert lines_of(steps) == stream.expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query\nSELECT 1\n----\n", "line 1: 'query' is no kind of block"),
        ("plan fast\nSELECT 1\n----\n", "line 1: 'plan fast' is no kind of block"),
        ("\n# why\nstream\nSELECT 1\n", "line 3: a stream block has a line ----"),
        ("statement\nSELECT 1\n----\n", "line 1: a statement block has no line ----"),
        ("error\n----\nSS101\n", "line 1: the error block has no SQL"),
    ],
)
def test_a_malformed_block_says_where(text, message):
    with pytest.raises(GoldenFormatError) as error:
        parse_golden(text)
    assert str(error.value).startswith(message)


def test_output_before_the_first_input_is_refused():
    with pytest.raises(GoldenFormatError, match="output before its first > line"):
        steps_of(Block("stream", 1, "SELECT 1", expected=("+I 1",)))
