"""What ``--help`` says below the options of each command: how it behaves, and examples."""

RUN = """\b
Statements run one after the other; files share one session. A query prints its rows as they come.
INSERT from bounded tables is waited for; other INSERTs run side by side until Ctrl-C.
Standard output has the results and nothing else. Standard error shows rows, rates and the watermark if it is
a terminal; elsewhere it gets what each bounded INSERT has written, with --progress a line every two seconds,
with --no-progress neither. Exit codes: 0 success, 1 the SQL is wrong, 2 the command is wrong, 3 a job failed,
130 interrupted.

\b
Examples:
  sqlstream run tables.sql query.sql --param data=/tmp/data
  sqlstream run tables.sql -e "SELECT * FROM t" --output jsonl | head
  sqlstream run job.sql --set execution.checkpointing.dir=/var/lib/checkpoints
  sqlstream run job.sql --metrics-port 9464 & curl localhost:9464/metrics
  sqlstream run job.sql --log-format json 2>> job.log
"""

SERVE = """\b
The scripts define tables and materialized views; each view has a job that goes on until Ctrl-C or SIGTERM, in one
Spark. A job that fails starts again from its checkpoint, at once and then after longer and longer times
(restart-strategy.type, exponential-delay here). After kill -9 the same command goes on from the checkpoints: no row
is lost or doubled. INSERT runs, too; a query does not.
Standard output has two lines, the address of the PostgreSQL server for psql and BI tools and that of the page, which
has the token that opens it; with --token it has not.
Without sqlstream.views.url the server is one of this machine that is started, on a port of 127.0.0.1.
Exit codes: 0 stopped by SIGTERM, 130 by Ctrl-C, 1 the SQL is wrong, 2 the command is wrong, 3 Spark or
the server did not start.

\b
Examples:
  sqlstream serve tables.sql views.sql
  sqlstream serve views.sql --port 8080 --set sqlstream.views.dir=/var/lib/views
  sqlstream serve views.sql --set 'sqlstream.views.url=postgresql://etl:${PASSWORD}@db:5432/shop'
"""

CHECK = """\b
Several files are checked as one script: tables of the first are known in the second.

\b
Examples:
  sqlstream check query.sql
  sqlstream check tables.sql query.sql --param data=/tmp/data
  sqlstream check --from flink job.sql
"""

EXPLAIN = """\b
Definitions of the script are carried out in a scratch session, nothing runs. The stage spark asks Spark.

\b
Examples:
  sqlstream explain tables.sql query.sql
  sqlstream explain tables.sql -e "SELECT * FROM t" --format mermaid
  sqlstream explain tables.sql query.sql --stage trace
  sqlstream explain tables.sql query.sql --format html > plan.html
"""

FORMAT = """\b
Examples:
  sqlstream format query.sql
  sqlstream format --write *.sql
  sqlstream format --check *.sql     exit code 1 where a file would change
"""

SHELL = """\b
Spark starts while you type. Ctrl-C cancels the running query, Ctrl-D leaves, \\? shows the shell's commands.
Ctrl-Z sends it to the background. Long results go through $PAGER.
A background job that fails is told of above the prompt. With piped input, statements run one after the other,
also after a wrong one; the exit code then is 1. ~/.config/sqlstream/shellrc runs before the first prompt; keys are
those of Emacs, or of vi where ~/.inputrc says "set editing-mode vi".

\b
Examples:
  sqlstream shell
  echo "SHOW CONNECTORS;" | sqlstream shell
  sqlstream shell -f tables.sql -c "SELECT * FROM clicks LIMIT 10" --format csv
  sqlstream shell -f tables.sql -v day=2026-11-25 -i
"""

JOBS = """\b
DIR is what jobs have as execution.checkpointing.dir; each keeps a record there, which is read without Spark.
Without --dir it is about the jobs that the shell has submitted as processes of their own.
What is asked of a job, its own process does. A JOB is a name or an id. LOST is a job whose process is gone.
Exit codes: 0 success, 1 the job cannot do what is asked, 2 there is no such job, 3 it has not answered or has failed.

\b
Examples:
  sqlstream jobs list
  sqlstream jobs list --dir /var/lib/checkpoints
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint
  sqlstream jobs checkpoints insert_into_totals --dir /var/lib/checkpoints --output jsonl
"""

SHOW = """\b
With --expect the exit code is 0 in such a state, 1 in another one that may come to it, 2 where there is no such job,
and 3 where it is FAILED, LOST or DAMAGED.

\b
Examples:
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints --expect RUNNING --expect FINISHED
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs show insert_into_totals --dir /var/lib/checkpoints --record | jq .description.plan
"""

STOP = """\b
A job that does not run any more is left as it is. With --savepoint or --drain it must run.

\b
Examples:
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint --drain
  sqlstream jobs stop --all --dir /var/lib/checkpoints --savepoint
  sqlstream jobs stop insert_into_totals --dir /var/lib/checkpoints --savepoint-path /var/lib/savepoints/monday
"""

PLAN = """\b
The page shows the plan as sqlstream explain --format html does, and beside each operator what the job has counted:
rows read of each table, rows that exchanges brought to operators with state, their results, late rows and state, rows
written. Filters and projections have no counts of their own, Spark runs them together with what is around them.
Counts are of the time since the job was started and change with each micro-batch; rates are those of the
last ten seconds. The page is on 127.0.0.1 alone and refreshes itself until Ctrl-C; the job goes on. The address that is
printed has the token that opens it, unless it is given.

\b
Examples:
  sqlstream jobs plan insert_into_totals --dir /var/lib/checkpoints
  sqlstream jobs plan insert_into_totals --dir /var/lib/checkpoints --to plan.html
"""

SERVE_JOBS = """\b
The pages show each job with its plan and live counts, its metrics of the last hour as charts, checkpoints, savepoints,
failures with hints, and the newest rows of its tables for bad and late rows; they ask jobs for a checkpoint or a
savepoint, and stop and restart them. All of that is behind a token. Without --token one is made, and the address that
is printed has it. The command reads the records of the jobs and starts no Spark; the last hour begins with it.
--start-with is run by the shell to restart a job, with its name in SQLSTREAM_JOB and its folder in
SQLSTREAM_CHECKPOINT; it may start the job itself and go on, or tell somebody else to. A job that runs is stopped first.
Another --host than one of this machine opens the pages to others, without encryption: put a proxy with TLS before it.
With --editor whoever has the token may also run SQL with the rights of this command, of which INSERT and other jobs are
refused: Spark starts with the first query, completions are those of sqlstream lsp, rows appear as they come. Each run
has its own definitions beside those of FILE, and is stopped when its page has been closed for three minutes.

\b
Examples:
  sqlstream jobs serve --dir /var/lib/checkpoints
  sqlstream jobs serve --dir /var/lib/checkpoints --editor tables.sql
  sqlstream jobs serve --dir /var/lib/checkpoints --start-with 'systemctl start "shop@$SQLSTREAM_JOB"'
  SQLSTREAM_JOBS_TOKEN=$(cat token) sqlstream jobs serve --dir /var/lib/checkpoints --host 0.0.0.0
"""

DEPLOY = """\b
Writes the files that run scripts for good, with their checkpoints, /health, /ready and /metrics, restarts after a
failure, and a savepoint when they are stopped. Scripts name secrets as ${NAME}; the files name the variables and never
have their values, and a script with the value of a secret is refused (SS478).
systemd: a unit. compose: an image and a service. kubernetes: the image, and a Deployment with what it needs.
helm: the same as a chart. spark-operator: a SparkApplication of Kubeflow's operator, with executors in pods.
spark-submit: a program for a cluster of Spark, and scripts that start and stop it.
Scripts are checked first. With --dry-run the files are printed, and none is written.

\b
Examples:
  sqlstream deploy job.sql --target systemd --to /tmp/job
  sqlstream deploy tables.sql job.sql --target kubernetes --image registry/shop:1 --dir s3a://bucket/jobs
  sqlstream deploy job.sql --target compose --set parallelism.default=4 --dry-run
  sqlstream deploy job.sql --target spark-submit --master spark://host:7077 --dir hdfs://name/jobs
"""

UPGRADE = """\b
The running jobs are found by their names below the directory of checkpoints. Each part of their plans is listed
with what becomes of its state. A job whose state does not carry over is refused before anything stops, unless
--discard-state is given. Each job stops with a savepoint, and the new scripts start in a process of their own
that goes on when this command ends (sqlstream jobs lists it), or by --start-with. It has the files and options that
are given here, so give those of sqlstream run again, the files of tables and --metrics-port among them. Where a
job fails before its first epochs are complete, the former scripts of --previous start again.
Exit codes: 0 upgraded, 1 the SQL is wrong, 2 the command is wrong, 3 the state does not carry over, or the new
jobs failed.

\b
Examples:
  sqlstream upgrade job.sql --dir /var/lib/jobs --dry-run
  sqlstream upgrade job.sql --dir /var/lib/jobs --previous old/job.sql --epochs 5
  sqlstream upgrade job.sql --dir /var/lib/jobs --start-with "systemctl start shop"
"""

METRICS = """\b
A process that runs jobs shows their metrics with --metrics-port N or SET 'metrics.prometheus.port' = 'N', and sends
them with SET 'metrics.otlp.url' = '…'. What is printed here is made from the list of metrics, and needs no job.

\b
Examples:
  sqlstream metrics list
  sqlstream metrics dashboard > sqlstream.json      import it into Grafana
  sqlstream metrics alerts > sqlstream.rules.yml    rule_files of prometheus.yml
"""

TEST = """\b
Tests are blocks of golden files (*.golden) and EXECUTE UNIT TEST in SQL files (*.sql), below each
PATH, by default the current directory; --cases adds case files (*.json). All run in one process on
one Spark, which starts with the first of them that needs it.

\b
Prints one line a test, PASS or FAIL, below the latter what is different; of case files also
REFUSED with code and message. Then totals. Exit code 1 where a test fails.

\b
Examples:
  sqlstream test
  sqlstream test tests/revenue.golden -k "late and not session" -x
  sqlstream test tests --bless
  sqlstream test tests -n 4 --junit report.xml
  sqlstream test tests --watch
  sqlstream test --cases cases --json report.json --select windows/
"""

TOPICS = """\b
BROKERS is host:port, with commas. Without a TOPIC all are listed but those of Kafka itself. Offsets are what
readers of committed messages see: begin is that of the first message, end follows the last one. With --group
also the offset that the group has committed, and how many messages are behind it. With --messages the last messages
themselves: time, key, headers, value. What is no text is hexadecimal, in JSON Base64.

\b
Examples:
  sqlstream topics localhost:9092
  sqlstream topics localhost:9092 orders --messages 5 --output vertical
  sqlstream topics localhost:9092 clicks orders --group reports --output jsonl
  sqlstream topics kafka:9093 --property security.protocol=SSL --property ssl.truststore.location=ca.pem
"""

INFER = """\b
SOURCE is a file, a directory or a pattern of csv, json, parquet, orc, avro or arrow, or a topic of Kafka. The statement
has columns with types, the event time with its watermark, and the options that read the source; what is a guess is
said in comments. Of text the first records are looked at, of a topic the last messages.

\b
Examples:
  sqlstream infer clicks.csv > tables.sql
  sqlstream infer 'data/*.json' --name clicks --rows 100000
  sqlstream infer kafka://localhost:9092/orders
  sqlstream infer kafka://localhost:9092/orders --registry http://localhost:8081
"""

LSP = """\b
The files are definitions that all documents know; the folder's sqlstream.toml holds, too.

\b
Examples:
  sqlstream lsp
  sqlstream lsp tables.sql
"""
