"""Random queries over random tables, of which every way to run them gives the same rows.

``tables`` makes tables and their changes, ``queries`` makes queries. ``ways`` run them: as streams by the kernels
alone, as streams on Spark, as finished data on Spark, and in DuckDB (``reference``). ``oracles`` say what must be
equal, ``reduction`` makes a difference small, ``report`` spells it as a golden file, and ``campaign`` repeats all that.
"""
