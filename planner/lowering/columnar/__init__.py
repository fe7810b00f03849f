"""The columnar gear: operators with state as kernels that run per key group.

What ``lower`` returns
----------------------
The columns of the plan's root, as on the native gear, and after them hidden columns where the plan needs them:

* ``__row_kind STRING`` (+I, -U, +U, -D) where the plan's changelog is not append-only (``properties.changelog_mode``).
* ``__late_table STRING`` and ``__late BINARY`` where a window sends late rows TO a table. A row with ``__late_table``
  holds late rows of that table as bytes, and NULL in all other columns; sinks of the main result must not
  see it. ``late_data.main_rows(rows)`` leaves such rows and both columns out, ``late_data.late_rows(rows, plan,
  table)`` gives the late rows of one table with its physical columns; ``late_data.late_tables(plan)`` lists the
  tables. The
  state advances with each evaluation of the rows, so a runner persists a micro-batch before it splits it.

What it asks of the runtime
---------------------------
* ``gear`` and ``max_parallelism``, the number of key groups, which a checkpoint fixes.
* ``clock()``: a stream of ticks of processing time, where ``clocks.needs_ticks(plan)`` says so. Windows on processing
  time in a plan without event time take the watermark of their tables as the clock, as on the native gear. At the end
  of a bounded input a tick of ``END_OF_INPUT_MS`` ends processing time where ``clocks.ends_by_tick(plan)`` says so
  (there is no watermark to do it).

Counters
--------
Each operator is observed under the name ``operator/<number>`` (top down, from 0, in the order of ``Node.walk`` over
the nodes with state) with the metric ``late_rows``: rows that no window took in this micro-batch.
"""
