"""Row pattern matching (MATCH_RECOGNIZE): rows of a key in order of time, and the stretches of them that match."""
