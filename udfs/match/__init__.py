"""MATCH_RECOGNIZE: sequences of rows of a key, in order of time, that match a pattern."""
