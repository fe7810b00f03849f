"""Settings of Flink that change nothing here, each with the reason, and older names of those that change something."""

from __future__ import annotations

from sqlstream.options import BOOLEAN, DURATION, PATH, STRING, Option, OptionKind, integer, one_of

_ANYWAY = "Changes nothing here, for scripts written for Flink:"
_NO_CLUSTER = "Spark runs the jobs, no cluster of Flink; settings that begin with spark. and --master say how."
_WRITTEN = "Spark writes the files of checkpoints; see spark.sql.streaming.*."
_EXCHANGED = "Spark exchanges rows, by files, once per micro-batch."
_FILE_SYSTEMS = "Spark reads and writes files; see spark.hadoop.fs.*."
_NO_OPTIMIZER = "sqlstream's rules and Spark's optimizer decide that; EXPLAIN TRACE shows the rules."


_OF_CLUSTERS = (
    "akka", "blob", "classloader", "cleanup-strategy", "client.heartbeat", "cluster", "deployment", "env", "events",
    "external-resource", "heartbeat", "high-availability", "historyserver", "io", "job-event", "job-result-store",
    "jobmanager", "jobstore", "kubernetes", "metrics", "pekko", "plugin", "process", "queryable-state",
    "resourcemanager", "rest", "security", "slot", "slotmanager", "sql-gateway", "task", "taskmanager", "traces",
    "user.artifacts", "web", "workflow-scheduler", "yarn", "zookeeper",
)  # fmt: skip


def _taken(key: str, kind: OptionKind, why: str, default: str | None = None) -> Option:
    return Option(key, kind, f"{_ANYWAY} {why}", default)


TAKEN = (
    _taken("client.timeout", DURATION, "statements run in this process, and wait for what they started."),
    _taken(
        "execution.checkpointing.incremental", BOOLEAN,
        "each checkpoint writes the state that has changed, and no more.", "true",
    ),
    _taken(
        "execution.checkpointing.max-concurrent-checkpoints", integer(1),
        "a micro-batch is one epoch, and the next one begins behind it.", "1",
    ),
    _taken(
        "execution.checkpointing.mode", one_of("EXACTLY_ONCE", "AT_LEAST_ONCE"),
        "state is exactly as after each row once, which is at least once too.", "EXACTLY_ONCE",
    ),
    _taken(
        "execution.checkpointing.storage", one_of("filesystem", "jobmanager"),
        "checkpoints are files. See execution.checkpointing.dir.", "filesystem",
    ),
    _taken(
        "execution.checkpointing.unaligned.enabled", BOOLEAN,
        "a micro-batch has no barriers that could wait for each other.", "false",
    ),
    _taken(
        "execution.checkpointing.unaligned.#", STRING,
        "a micro-batch has no barriers that could wait for each other.",
    ),
    _taken("execution.attached", BOOLEAN, _NO_CLUSTER),
    _taken("execution.buffer-timeout", DURATION, _EXCHANGED),
    _taken("execution.buffer-timeout.enabled", BOOLEAN, _EXCHANGED),
    _taken("execution.buffer-timeout.interval", DURATION, _EXCHANGED),
    _taken("execution.batch-shuffle-mode", STRING, _EXCHANGED),
    _taken("execution.batch.#", STRING, "Spark plans queries over finished data; see spark.sql.adaptive.*."),
    _taken("execution.sorted-inputs.#", BOOLEAN, "Spark plans queries over finished data, and sorts where it has to."),
    _taken(
        "execution.checkpointing.aligned-checkpoint-timeout", DURATION,
        "a micro-batch has no barriers that could wait for each other.",
    ),
    _taken(
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled", BOOLEAN,
        "a source that has ended holds no checkpoint back.", "true",
    ),
    *(
        _taken(f"execution.checkpointing.{key}", STRING, _WRITTEN)
        for key in (
            "cleaner.#", "create-subdir", "data-inline-threshold", "file-merging.#", "local-backup.#",
            "snapshot-compression", "write-buffer-size",
        )
    ),
    _taken(
        "execution.checkpointing.interval-during-backlog", DURATION,
        "no source tells that it is behind. See execution.checkpointing.interval.",
    ),
    _taken(
        "execution.state-recovery.claim-mode", one_of("NO_CLAIM", "CLAIM", "LEGACY"),
        "a job copies its savepoint, which stays as it is.", "NO_CLAIM",
    ),
    _taken("execution.shutdown-on-attached-exit", BOOLEAN, _NO_CLUSTER),
    _taken("execution.target", STRING, _NO_CLUSTER),
    _taken(
        "pipeline.auto-watermark-interval", DURATION,
        "watermarks advance with each micro-batch. See execution.checkpointing.interval.",
    ),
    _taken(
        "pipeline.auto-generate-uids", BOOLEAN,
        "operators are told apart by what they do; EXPLAIN PHYSICAL numbers them.", "true",
    ),
    _taken("pipeline.closure-cleaner-level", STRING, "functions are Python; see CREATE FUNCTION."),
    _taken("pipeline.global-job-parameters", STRING, "${NAME} stands for variables of the project."),
    _taken("pipeline.jobvertex-parallelism-overrides", STRING, "see parallelism.default."),
    *(
        _taken(f"pipeline.{key}", STRING, "rows are columns of Arrow and Spark; no class of Java is serialized.")
        for key in (
            "default-kryo-serializers", "force-avro", "force-kryo", "force-kryo-avro", "generic-types",
            "registered-kryo-types", "registered-pojo-types", "serialization-config",
        )
    ),
    *(_taken(f"pipeline.{key}", STRING, "EXPLAIN shows operators as it does.") for key in (
        "vertex-description-mode", "vertex-name-include-index-prefix",
    )),
    _taken("pipeline.cached-files", STRING, "files for functions come with spark.files, or with their module."),
    _taken(
        "pipeline.watermark-alignment.allow-unaligned-source-splits", BOOLEAN,
        "a micro-batch reads all sources, and their watermarks pass together behind it.",
    ),
    _taken("python.#", STRING, "functions run in the Python of Spark; see spark.pyspark.python."),
    _taken("pipeline.object-reuse", BOOLEAN, "operators share columns, and copy nothing.", "false"),
    _taken("pipeline.classpaths", STRING, "functions are Python; see CREATE FUNCTION."),
    _taken("pipeline.jars", STRING, "functions are Python. Jars of Spark come with spark.jars."),
    _taken(
        "sql-client.verbose", BOOLEAN, "errors say what is wrong and where; --debug shows what Python says.", "false"
    ),
    _taken("sql-client.display.color-schema", STRING, "the shell has colours of its own."),
    _taken("sql-client.display.show-line-numbers", BOOLEAN, "the shell numbers no lines."),
    _taken("sql-client.display.print-time-cost", BOOLEAN, "the shell tells how long a statement took.", "true"),
    _taken(
        "execution.state-recovery.ignore-unclaimed-state", one_of("false", planned=("true",)),
        "a query that the state does not fit does not start.", "false",
    ),
    _taken(
        "sql-client.display.max-column-width", integer(1), "values are shown whole; only frames of tables have a width."
    ),
    _taken(
        "sql-client.execution.max-table-result.rows", integer(1),
        "a table on the terminal has as many rows as its page, and the others are counted.",
    ),
    *(
        _taken(f"sql-client.{key}", STRING, "the shell has a prompt of its own.")
        for key in ("prompt", "prompt.#", "right-prompt")
    ),
    _taken("sql-client.session.#", STRING, "statements run in this process, whose session ends with it."),
    _taken("scheduler-mode", STRING, _NO_CLUSTER),
    _taken("state.backend.type", STRING, "state is kept by the engine. See sqlstream.engine."),
    _taken("state.backend.#", STRING, "state is kept by the engine. See sqlstream.engine."),
    *(
        _taken(f"state.{key}", STRING, "state is kept by the engine. See sqlstream.engine.")
        for key in ("changelog.#", "latency-track.#", "size-track.#", "storage.#")
    ),
    *(
        _taken(f"table.exec.{key}.#", STRING, "asynchronous functions are lookups. See table.exec.async-lookup.*.")
        for key in ("async-agg", "async-ml-predict", "async-scalar", "async-table", "async-vector-search")
    ),
    _taken("table.exec.async-state.#", STRING, "state is read and written in columns, for many keys at once."),
    _taken("table.exec.delta-join.#", STRING, "each join of streams keeps its own rows."),
    _taken("table.exec.local-hash-agg.#", STRING, "a micro-batch is aggregated before the exchange."),
    _taken("table.exec.resource.#", STRING, "Spark divides the memory; see spark.memory.*."),
    _taken(
        "table.exec.sink.nested-constraint-enforcer", one_of("ERROR", planned=("ignore",)),
        "a NULL in a NOT NULL member of a column fails the job, as one in a column does.", "ERROR",
    ),
    _taken(
        "table.legacy-nested-row-nullability", one_of("false", planned=("true",)),
        "a ROW that is NOT NULL may have members that are NULL, and the other way round.", "false",
    ),
    _taken("table.resources.download-dir", PATH, "nothing is downloaded for functions."),
    _taken(
        "table.catalog-store.kind", one_of("generic_in_memory", planned=("file",)),
        "sqlstream.toml names catalogs that stay, and those of the type file stay.", "generic_in_memory",
    ),
    _taken(
        "table.builtin-catalog-name", STRING, "the catalog in memory is default_catalog.", "default_catalog"
    ),
    _taken(
        "table.builtin-database-name", STRING, "its database is default_database.", "default_database"
    ),
    _taken(
        "table.display.max-column-width", integer(1), "values are shown whole; only columns of the frame have a width."
    ),
    _taken(
        "table.exec.deduplicate.insert-update-after-sensitive-enabled", BOOLEAN,
        "the first row of a key comes as +I, and the rows that take its place as +U.", "true",
    ),
    _taken(
        "table.exec.deduplicate.mini-batch.compact-changes-enabled", BOOLEAN,
        "what a micro-batch changes of a key comes out once.", "false",
    ),
    _taken("table.exec.disabled-operators", STRING, _NO_OPTIMIZER),
    _taken(
        "table.exec.interval-join.min-cleanup-interval", DURATION,
        "rows of interval joins go when the watermark has passed their partners.", "0 ms",
    ),
    _taken(
        "table.exec.legacy-cast-behaviour", one_of("enabled", "disabled", planned=("enabled",)),
        "CAST fails on bad input, and TRY_CAST gives NULL.", "disabled",
    ),
    _taken(
        "table.exec.mini-batch.allow-latency", DURATION,
        "rows wait for the micro-batch that they come in. See execution.checkpointing.interval.",
    ),
    _taken(
        "table.exec.mini-batch.enabled", BOOLEAN,
        "a micro-batch updates each result once, whatever of its rows change it.", "true",
    ),
    _taken("table.exec.mini-batch.size", integer(1), "sources say how many rows a micro-batch has."),
    _taken("table.exec.operator-fusion-codegen.enabled", BOOLEAN, _NO_OPTIMIZER),
    _taken(
        "table.exec.rank.topn-cache-size", integer(1), "the state server of Spark keeps its own cache."
    ),
    _taken("table.exec.shuffle-mode", STRING, "Spark exchanges rows, by files."),
    _taken("table.exec.simplify-operator-name-enabled", BOOLEAN, "EXPLAIN names operators as it does.", "true"),
    _taken(
        "table.exec.sink.keyed-shuffle", one_of("NONE", "AUTO", "FORCE"),
        "changes of a key reach a sink in the order in which they happened, whatever task writes them.", "AUTO",
    ),
    _taken(
        "table.exec.sink.rowtime-inserter", one_of("ENABLED", "DISABLED"),
        "a record of Kafka has the time that its METADATA column timestamp gives it.", "ENABLED",
    ),
    _taken("table.exec.sort.#", STRING, "Spark sorts; see spark.sql.execution.*."),
    _taken("table.exec.spill-compression.#", STRING, "Spark spills; see spark.shuffle.compress."),
    _taken("table.exec.uid.format", STRING, "operators are told apart by what they do."),
    _taken(
        "table.exec.uid.generation", one_of("PLAN_ONLY", "ALWAYS", "DISABLED"),
        "operators are told apart by what they do; a plan that was compiled names them.", "PLAN_ONLY",
    ),
    _taken("table.exec.unbounded-over.version", integer(1), "OVER has one operator for rows in order of time."),
    _taken(
        "table.exec.window-agg.buffer-size-limit", integer(1), "a micro-batch is aggregated before the exchange."
    ),
    _taken("table.generated-code.#", STRING, "Spark generates code; see spark.sql.codegen.*."),
    _taken(
        "table.optimizer.agg-phase-strategy", one_of("AUTO", "ONE_PHASE", "TWO_PHASE"),
        "rows are aggregated before the exchange wherever that is possible.", "AUTO",
    ),
    _taken(
        "table.optimizer.distinct-agg.split.enabled", BOOLEAN,
        "DISTINCT values are kept one by one, not with their group.", "false",
    ),
    _taken(
        "table.optimizer.distinct-agg.split.bucket-num", integer(1),
        "DISTINCT values are kept one by one, not with their group.", "1024",
    ),
    _taken(
        "table.optimizer.non-deterministic-update.strategy", one_of("IGNORE", "TRY_RESOLVE"),
        "answers of lookups are kept, and taken back as they were given.", "IGNORE",
    ),
    _taken("table.optimizer.#", STRING, _NO_OPTIMIZER),
    _taken("table.plan.#", STRING, "COMPILE PLAN keeps the definitions of its tables, and EXECUTE PLAN takes them."),
    _taken(
        "table.rtas-ctas.atomicity-enabled", BOOLEAN,
        "CREATE TABLE … AS defines no table where its job does not start.", "false",
    ),
    _taken(
        "table.sql-dialect", one_of("default", planned=("hive",)), "there is one dialect, and Spark's SQL is in it.",
        "default",
    ),
    *(_taken(f"{prefix}.#", STRING, _NO_CLUSTER) for prefix in _OF_CLUSTERS),
    *(_taken(f"{prefix}.#", STRING, _FILE_SYSTEMS) for prefix in ("fs", "s3", "gs")),
)  # fmt: skip

RENAMED = {
    "execution.checkpointing.unaligned": "execution.checkpointing.unaligned.enabled",
    "execution.checkpointing.checkpoints-after-tasks-finish": (
        "execution.checkpointing.checkpoints-after-tasks-finish.enabled"
    ),
    "execution.savepoint-restore-mode": "execution.state-recovery.claim-mode",
    "execution.savepoint.ignore-unclaimed-state": "execution.state-recovery.ignore-unclaimed-state",
    "execution.savepoint.path": "execution.state-recovery.path",
    "pipeline.operator-chaining": "pipeline.operator-chaining.enabled",
    "restart-strategy": "restart-strategy.type",
    "sqlstream.gear": "sqlstream.engine",
    "sqlstream.parquet-reader": "sqlstream.file-reader",
    "state.backend": "state.backend.type",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.checkpoint-storage": "execution.checkpointing.storage",
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.checkpoints.num-retained": "execution.checkpointing.num-retained",
    "state.savepoints.dir": "execution.checkpointing.savepoint-dir",
    "table.exec.resource.default-parallelism": "parallelism.default",
}
"""Names that Flink has had, or has for the same thing, to the one that is kept."""
