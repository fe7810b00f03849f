-- SET and RESET.

SET;

SET 'table.local-time-zone' = 'Europe/Berlin';

SET 'table.local-time-zone' = 'UTC';

SET 'table.local-time-zone' = 'GMT-08:00';

SET table.local-time-zone = 'UTC';

SET execution.runtime-mode = streaming;

SET execution.runtime-mode=batch;

SET 'execution.runtime-mode' = 'batch';

SET 'execution.runtime-mode' = 'streaming';

SET 'sql-client.execution.result-mode' = 'table';

SET 'sql-client.execution.result-mode' = 'changelog';

SET 'sql-client.execution.result-mode' = 'tableau';

SET sql-client.execution.result-mode=tableau;

SET 'sql-client.execution.max-table-result.rows' = '10000';

SET 'sql-client.display.max-column-width' = '40';

SET 'sql-client.verbose' = 'true';

SET 'parallelism.default' = '4';

SET 'pipeline.name' = 'kafka-to-files';

SET 'pipeline.max-parallelism' = '128';

SET 'pipeline.auto-watermark-interval' = '200ms';

SET 'pipeline.object-reuse' = 'true';

SET 'pipeline.operator-chaining' = 'false';

SET 'pipeline.operator-chaining.enabled' = 'false';

SET 'execution.checkpointing.interval' = '3min';

SET 'execution.checkpointing.interval' = '10000';

SET 'execution.checkpointing.mode' = 'EXACTLY_ONCE';

SET 'execution.checkpointing.timeout' = '10min';

SET 'execution.checkpointing.min-pause' = '500ms';

SET 'execution.checkpointing.max-concurrent-checkpoints' = '1';

SET 'execution.checkpointing.tolerable-failed-checkpoints' = '3';

SET 'execution.checkpointing.externalized-checkpoint-retention' = 'RETAIN_ON_CANCELLATION';

SET 'execution.checkpointing.unaligned.enabled' = 'true';

SET 'execution.checkpointing.unaligned' = 'true';

SET 'execution.checkpointing.incremental' = 'true';

SET 'execution.checkpointing.storage' = 'filesystem';

SET 'execution.checkpointing.dir' = 'file:///tmp/flink-checkpoints';

SET 'execution.checkpointing.savepoint-dir' = 'file:///tmp/flink-savepoints';

SET 'execution.checkpointing.num-retained' = '10';

SET 'execution.savepoint.path' = '/tmp/savepoint-1';

SET 'execution.state-recovery.path' = '/tmp/savepoint-1';

-- refused SS350: a query that the state does not fit does not start
SET 'execution.state-recovery.ignore-unclaimed-state' = 'true';

SET 'state.backend' = 'rocksdb';

SET 'state.backend.type' = 'hashmap';

SET 'state.backend.incremental' = 'true';

SET 'state.checkpoints.dir' = 'file:///tmp/checkpoints';

SET 'state.savepoints.dir' = 'file:///tmp/savepoints';

SET 'restart-strategy' = 'fixed-delay';

SET 'restart-strategy.type' = 'fixed-delay';

SET 'restart-strategy.fixed-delay.attempts' = '3';

SET 'restart-strategy.fixed-delay.delay' = '10 s';

SET 'table.exec.state.ttl' = '1 h';

SET 'table.exec.source.idle-timeout' = '10 s';

SET 'table.exec.source.cdc-events-duplicate' = 'true';

SET 'table.exec.sink.not-null-enforcer' = 'DROP';

SET 'table.exec.sink.not-null-enforcer' = 'ERROR';

SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';

SET 'table.exec.sink.upsert-materialize' = 'NONE';

SET 'table.exec.sink.upsert-materialize' = 'FORCE';

SET 'table.exec.sink.keyed-shuffle' = 'AUTO';

SET 'table.exec.sink.rowtime-inserter' = 'ENABLED';

SET 'table.exec.mini-batch.enabled' = 'true';

SET 'table.exec.mini-batch.allow-latency' = '5s';

SET 'table.exec.mini-batch.size' = '5000';

SET 'table.exec.async-lookup.buffer-capacity' = '200';

SET 'table.exec.async-lookup.output-mode' = 'ALLOW_UNORDERED';

SET 'table.exec.async-lookup.timeout' = '180s';

SET 'table.exec.resource.default-parallelism' = '8';

SET 'table.exec.spill-compression.enabled' = 'true';

SET 'table.exec.legacy-cast-behaviour' = 'DISABLED';

SET 'table.exec.disabled-operators' = 'ShuffleHashJoin';

SET 'table.exec.window-agg.buffer-size-limit' = '100000';

SET 'table.exec.simplify-operator-name-enabled' = 'true';

SET 'table.exec.uid.generation' = 'PLAN_ONLY';

SET 'table.exec.emit.early-fire.enabled' = 'true';

SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';

SET 'table.optimizer.distinct-agg.split.enabled' = 'true';

SET 'table.optimizer.distinct-agg.split.bucket-num' = '1024';

SET 'table.optimizer.join-reorder-enabled' = 'true';

SET 'table.optimizer.join.broadcast-threshold' = '1048576';

SET 'table.optimizer.reuse-source-enabled' = 'true';

SET 'table.optimizer.reuse-sub-plan-enabled' = 'true';

SET 'table.optimizer.source.predicate-pushdown-enabled' = 'true';

SET 'table.optimizer.incremental-agg-enabled' = 'true';

SET 'table.optimizer.non-deterministic-update.strategy' = 'TRY_RESOLVE';

SET 'table.optimizer.multi-join.enabled' = 'true';

SET 'table.optimizer.dynamic-filtering.enabled' = 'true';

SET 'table.dml-sync' = 'true';

SET 'table.dynamic-table-options.enabled' = 'false';

SET 'table.generated-code.max-length' = '4000';

SET 'table.plan.compile.catalog-objects' = 'IDENTIFIER';

SET 'table.plan.restore.catalog-objects' = 'ALL';

SET 'table.plan.force-recompile' = 'true';

SET 'table.builtin-catalog-name' = 'default_catalog';

SET 'table.sql-dialect' = 'default';

-- refused SS350: the dialect of Hive is not there
SET 'table.sql-dialect' = 'hive';

SET 'table.rtas-ctas.atomicity-enabled' = 'true';

SET 'table.column-expansion-strategy' = 'EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS';

SET 'client.timeout' = '30 s';

SET 'execution.target' = 'yarn-per-job';

SET 'yarn.application.queue' = 'root';

SET 'taskmanager.memory.process.size' = '2g';

SET 'metrics.latency.interval' = '0';

RESET;

RESET 'table.local-time-zone';

RESET execution.runtime-mode;

RESET 'table.exec.state.ttl';
