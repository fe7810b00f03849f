"""The columnar engine: operators with state as kernels that run per key group.

What ``lower`` returns
----------------------
The columns of the plan's root, as on the native engine, and after them hidden columns where the plan needs them:

* ``__row_kind STRING`` (+I, -U, +U, -D) where the plan's changelog is not append-only (``Node.changelog_mode``).
* ``__late_table STRING`` and ``__late BINARY`` where a window sends late rows TO a table or a lookup failed ones: see
  ``lowering.outputs``. The state advances with each evaluation of the rows, and lookups ask again, so a runner
  persists a micro-batch before it splits it.

What it asks of the runtime
---------------------------
* ``max_parallelism``, the number of key groups, which a checkpoint fixes.
* ``clock()``: a stream of ticks of processing time, where ``PlanClocks.needs_ticks`` says so. Windows on processing
  time in a plan without event time take the watermark of their tables as the clock, as on the native engine. At the end
  of a bounded input a tick of ``END_OF_INPUT_MS`` ends processing time where ``PlanClocks.ends_by_tick`` says so
  (there is no watermark to do it).

Counters
--------
Each operator is observed under the name ``operator/<number>`` (top down, from 0, in the order of ``Node.walk`` over
the nodes with state; after that of a chained operator stands ``/<number>`` of the lowest of its chain) with the
metrics ``late_rows``, rows that no window took in this micro-batch, ``pending``, rows that wait after it for lookups or
for barriers, ``rows_taken``, rows that reached the kernel, and ``rows_given``, results that it gave.
"""
