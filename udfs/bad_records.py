"""What is said of records that cannot be read, wherever they are read."""

from __future__ import annotations

from sqlstream.errors import repeating

BAD = "__bad"
"""The hidden column in which a source that parses records tells of each its bytes, what is wrong with it (NULL:
nothing) and where it came from: ``STRUCT<record: BINARY, error: STRING, place: STRING>``."""

READ_FROM = "__read_from"
"""The hidden column of rows out of files that are checked while they are read: the URL of their file."""

READ_LINE = "__read_line"
"""The hidden BIGINT column with the line, from 1, in which such a row begins in its file of text; NULL if unknown."""

BAD_ROW = repeating("SS402")
BAD_ROW_HINT = "Correct the row or the type of its column, or let the option on-error of its table skip it."
