-- More of Flink's documentation.

-- tables
CREATE TABLE Orders (
  id BIGINT, order_id STRING, orderId BIGINT, `user` BIGINT, product STRING, product_id BIGINT, amount INT, price DECIMAL(32, 2), currency STRING, customer_id INT, is_new BOOLEAN, users MULTISET<STRING>, tags ARRAY<STRING>,
  order_time TIMESTAMP(3), proctime AS PROCTIME(), WATERMARK FOR order_time AS order_time - INTERVAL '15' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');
CREATE TABLE Shipments (id BIGINT, order_id STRING, ship_time TIMESTAMP(3), WATERMARK FOR ship_time AS ship_time - INTERVAL '15' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE Customers (id INT, name STRING, country STRING, zip STRING) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://h:5432/customerdb', 'table-name' = 'customers');
CREATE TABLE Ticker (symbol STRING, rowtime TIMESTAMP(3), price BIGINT, tax BIGINT, WATERMARK FOR rowtime AS rowtime - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE Bid (bidtime TIMESTAMP(3), price DECIMAL(10, 2), item STRING, supplier_id STRING, proctime AS PROCTIME(), WATERMARK FOR bidtime AS bidtime - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE DailySales (product_id BIGINT, sales BIGINT, dt STRING) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'parquet');
CREATE TABLE ShopSales (product_id BIGINT, category STRING, product_name STRING, sales BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE t1 (s STRING, c1 INT, c2 INT) WITH ('connector' = 'datagen');
CREATE TABLE t2 (s STRING, c1 INT, c2 INT) WITH ('connector' = 'datagen');
CREATE TABLE sink (a BIGINT, b BIGINT) WITH ('connector' = 'blackhole');

SELECT order_id, price FROM (VALUES (1, 2.0), (2, 3.1)) AS t (order_id, price);

SELECT price + tax FROM Ticker WHERE symbol = 'A';

SELECT DISTINCT users FROM Orders;

SELECT `Orders`.`product` FROM `Orders` AS `Orders`;

SELECT t.* FROM Orders AS t;

SELECT order_id AS `order`, price `p` FROM Orders;

SELECT * FROM Orders WHERE is_new;

SELECT * FROM Orders WHERE NOT is_new OR amount % 2 = 0;

SELECT COUNT(*) FROM Orders GROUP BY order_id;

SELECT `user`, SUM(amount) AS s FROM Orders GROUP BY `user` HAVING SUM(amount) > 50 AND COUNT(*) > 1;

SELECT COUNT(*), `user` FROM Orders GROUP BY CUBE (`user`, product);

SELECT pv.day1, COUNT(DISTINCT id) AS total_uv, COUNT(DISTINCT CASE WHEN is_new THEN id ELSE NULL END) AS app_uv FROM (SELECT id, is_new, DATE_FORMAT(order_time, 'yyyy-MM-dd') AS day1 FROM Orders) AS pv GROUP BY pv.day1;

SELECT product, COUNT(DISTINCT id) FILTER (WHERE amount IN (1, 2)) AS app_uv FROM Orders GROUP BY product;

SELECT `user`, amount FROM Orders WHERE product NOT IN (SELECT product FROM Orders WHERE amount > 2);

SELECT * FROM Orders WHERE EXISTS (SELECT 1 FROM Shipments WHERE Shipments.order_id = Orders.order_id);

(SELECT s FROM t1) INTERSECT (SELECT s FROM t2);

(SELECT s FROM t1) EXCEPT ALL (SELECT s FROM t2);

CREATE VIEW v1(s) AS VALUES ('c'), ('a'), ('b'), ('b'), ('c');
CREATE VIEW v2(s) AS VALUES ('d'), ('e'), ('a'), ('b'), ('b');
(SELECT s FROM v1) UNION ALL (SELECT s FROM v2);

SELECT * FROM Orders INNER JOIN Shipments ON Orders.order_id = Shipments.order_id;

SELECT * FROM Orders o JOIN Shipments s ON o.order_id = s.order_id AND s.ship_time BETWEEN o.order_time AND o.order_time + INTERVAL '4' HOUR;

SELECT * FROM t1 CROSS JOIN t2;

SELECT * FROM t1 JOIN t2 USING (s);

SELECT * FROM t1 NATURAL JOIN t2;

SELECT * FROM t1, t2 WHERE t1.c1 = t2.c1 AND t1.c2 < t2.c2;

SELECT order_id, s.product_name FROM Orders JOIN LATERAL (SELECT product_name, sales FROM ShopSales WHERE ShopSales.product_id = Orders.product_id) AS s ON TRUE;

SELECT a.symbol, top.price FROM (SELECT DISTINCT symbol FROM Ticker) a, LATERAL (SELECT price FROM Ticker t WHERE t.symbol = a.symbol ORDER BY price DESC LIMIT 3) AS top;

SELECT order_id, tag FROM Orders, UNNEST(tags) AS t (tag);

SELECT order_id, pos, tag FROM Orders CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);

SELECT * FROM (VALUES (MAP['a', 1])) AS t (m) CROSS JOIN UNNEST(m) WITH ORDINALITY AS u (k, v, ord);

SELECT o.order_id, c.zip FROM Orders o LEFT JOIN Customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer_id = c.id;

CREATE TABLE versioned_rates (currency STRING, rate DECIMAL(38, 10), currency_time TIMESTAMP(3), WATERMARK FOR currency_time AS currency_time) WITH ('connector' = 'kafka', 'topic' = 'rates', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE VIEW versioned AS SELECT currency, rate, currency_time FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY currency_time DESC) AS rowNum FROM versioned_rates) WHERE rowNum = 1;
SELECT o.order_id, o.price * r.rate FROM Orders AS o LEFT JOIN versioned FOR SYSTEM_TIME AS OF o.order_time AS r ON o.currency = r.currency;

-- windows
SELECT window_start, window_end, window_time, SUM(price) FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, window_time;

SELECT * FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) WHERE price > 3;

SELECT * FROM TABLE(TUMBLE(DATA => TABLE Bid, TIMECOL => DESCRIPTOR(bidtime), SIZE => INTERVAL '10' MINUTES, `OFFSET` => INTERVAL '1' MINUTES));

SELECT window_start, window_end, SUM(price) AS total_price FROM HOP(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES) GROUP BY window_start, window_end;

SELECT window_start, window_end, supplier_id, SUM(price) AS total_price FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, CUBE (supplier_id);

SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(proctime), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;

SELECT * FROM SESSION(TABLE Bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES);

SELECT * FROM TABLE(TUMBLE(TABLE Orders /*+ OPTIONS('scan.startup.mode'='earliest-offset') */, DESCRIPTOR(order_time), INTERVAL '10' MINUTES));

SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rownum FROM TABLE(TUMBLE(TABLE Bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))) WHERE rownum <= 3;

SELECT `user`, TUMBLE_START(proctime, INTERVAL '1' DAY), COUNT(*) FROM Orders GROUP BY TUMBLE(proctime, INTERVAL '1' DAY), `user`;

SELECT SESSION_START(order_time, INTERVAL '12' HOUR) AS sStart, SESSION_ROWTIME(order_time, INTERVAL '12' HOUR) AS snd, SUM(amount) FROM Orders GROUP BY SESSION(order_time, INTERVAL '12' HOUR);

-- over, topn, dedup
SELECT order_id, order_time, amount, SUM(amount) OVER (PARTITION BY product ORDER BY order_time RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM Orders;

SELECT AVG(amount) OVER (PARTITION BY product ORDER BY proctime ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM Orders;

SELECT product_id, category, product_name, sales, row_num FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY category ORDER BY sales DESC) AS row_num FROM ShopSales) WHERE row_num <= 5;

SELECT product_id, sales FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY sales DESC) AS rn FROM ShopSales) WHERE rn <= 10;

SELECT order_id, `user`, product, num FROM (SELECT *, amount AS num, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime ASC) AS row_num FROM Orders) WHERE row_num = 1;

SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY category ORDER BY sales DESC) AS rk FROM ShopSales) WHERE rk <= 3;

SELECT symbol, SUM(price) OVER w, LAST_VALUE(price) OVER w FROM Ticker WINDOW w AS (PARTITION BY symbol ORDER BY rowtime);

-- match recognize
SELECT * FROM Ticker MATCH_RECOGNIZE (
 PARTITION BY symbol ORDER BY rowtime
 MEASURES START_ROW.rowtime AS start_tstamp, LAST(PRICE_DOWN.rowtime) AS bottom_tstamp, LAST(PRICE_UP.rowtime) AS end_tstamp
 ONE ROW PER MATCH AFTER MATCH SKIP TO LAST PRICE_UP
 PATTERN (START_ROW PRICE_DOWN+ PRICE_UP)
 DEFINE PRICE_DOWN AS (LAST(PRICE_DOWN.price, 1) IS NULL AND PRICE_DOWN.price < START_ROW.price) OR PRICE_DOWN.price < LAST(PRICE_DOWN.price, 1),
 PRICE_UP AS PRICE_UP.price > LAST(PRICE_DOWN.price, 1)) MR;

SELECT * FROM Ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rowtime MEASURES A.price AS firstPrice, B.price AS lastPrice, MATCH_ROWTIME() AS mt ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS A.price > 10, B AS B.price < 10) AS T;

SELECT * FROM Ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY rowtime MEASURES SUM(A.price) AS sumPrice, FIRST(rowtime) AS startTime, LAST(rowtime) AS endTime AFTER MATCH SKIP TO NEXT ROW PATTERN (A+ C) DEFINE A AS SUM(A.price) < 30);

SELECT * FROM Orders MATCH_RECOGNIZE (PARTITION BY product ORDER BY proctime MEASURES LAST(A.amount) AS a, MATCH_PROCTIME() AS p PATTERN (A B* C?) DEFINE A AS A.amount > 1, B AS B.amount > 2, C AS C.amount > 3) AS T;

-- process table functions, models
SELECT * FROM TO_CHANGELOG(input => TABLE Orders);

CREATE TABLE cdc (id INT, op STRING, name STRING) WITH ('connector' = 'datagen');
SELECT * FROM FROM_CHANGELOG(input => TABLE cdc PARTITION BY id, op => DESCRIPTOR(op));

-- refused SS101: there are no models
CREATE MODEL sentiment INPUT (text STRING) OUTPUT (sentiment STRING) WITH ('provider' = 'openai', 'endpoint' = 'https://api.openai.com/v1/chat/completions');

-- refused SS101: there are no models
SELECT * FROM ML_PREDICT(INPUT => TABLE ShopSales, MODEL => MODEL m, ARGS => DESCRIPTOR(category), CONFIG => MAP['async', 'true']);

-- insert
INSERT INTO sink SELECT id, orderId FROM Orders;

INSERT INTO sink (b) SELECT id FROM Orders;

INSERT INTO sink (a, b) VALUES (1, 2), (3, 4);

EXECUTE INSERT INTO sink VALUES (1, 2);

INSERT INTO sink /*+ OPTIONS('sink.parallelism'='2') */ (a) SELECT id FROM Orders;

INSERT INTO sink SELECT id, orderId FROM Orders ON CONFLICT DO DEDUPLICATE;

-- refused SS389: who comes first is known only to who keeps all rows of a key for ever
INSERT INTO sink SELECT id, orderId FROM Orders ON CONFLICT DO NOTHING;

EXECUTE STATEMENT SET BEGIN
INSERT INTO sink SELECT id, orderId FROM Orders;
INSERT INTO sink SELECT orderId, id FROM Orders;
END;

COMPILE AND EXECUTE PLAN '/tmp/absent/x.json' FOR STATEMENT SET BEGIN
INSERT INTO sink SELECT id, orderId FROM Orders;
INSERT INTO sink SELECT orderId, id FROM Orders;
END;

-- ddl
CREATE TABLE Orders_in_file (`user` BIGINT, product STRING, order_time_string STRING, order_time AS TO_TIMESTAMP(order_time_string)) PARTITIONED BY (`user`) WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'csv');
CREATE TABLE Orders_in_kafka (WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json') LIKE Orders_in_file (EXCLUDING ALL INCLUDING GENERATED);

CREATE TABLE Orders_with_watermark (WATERMARK FOR rowtime AS rowtime - INTERVAL '5' SECOND) WITH ('number-of-rows' = '4') LIKE Ticker (OVERWRITING WATERMARKS);

CREATE TABLE my_ctas_table (desc_name STRING, quantity DOUBLE, cost AS price * quantity, WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'blackhole') AS SELECT id, price, order_time FROM Orders;

CREATE TABLE ctas_d DISTRIBUTED BY HASH(id) INTO 4 BUCKETS WITH ('connector' = 'blackhole') AS SELECT id FROM Orders;

CREATE TABLE ctas_p PARTITIONED BY (product) WITH ('connector' = 'blackhole') AS SELECT id, product FROM Orders;

REPLACE TABLE t1 WITH ('connector' = 'blackhole') AS SELECT id FROM Orders;

CREATE OR REPLACE TABLE t9 WITH ('connector' = 'blackhole') AS SELECT id, product FROM Orders;

CREATE TABLE d1 (uid BIGINT, name STRING) DISTRIBUTED BY RANGE(uid) INTO 4 BUCKETS WITH ('connector' = 'datagen');

CREATE TABLE w (ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');

CREATE TABLE Orders9 (`user` BIGINT, product STRING, order_time TIMESTAMP(3) NOT NULL COMMENT 'x', WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND) COMMENT 'o' WITH ('connector' = 'datagen');

CREATE CATALOG my_catalog WITH ('type' = 'jdbc', 'default-database' = 'db', 'username' = 'u', 'password' = 'p', 'base-url' = 'jdbc:postgresql://h:5432');

-- refused SS536: there is no Hive
CREATE CATALOG hive WITH ('type' = 'hive', 'hive-conf-dir' = '/opt/hive-conf');

CREATE DATABASE IF NOT EXISTS my_db COMMENT 'c' WITH ('a' = 'b');

CREATE VIEW IF NOT EXISTS vw (a, b) COMMENT 'c' AS SELECT id, product FROM Orders;

CREATE TEMPORARY VIEW tv AS SELECT id FROM Orders;

CREATE TEMPORARY SYSTEM FUNCTION IF NOT EXISTS parse_it AS 'golden_functions:fee' LANGUAGE PYTHON;

-- refused SS352: files of functions come with their module
CREATE FUNCTION my_f AS 'golden_functions:fee' LANGUAGE PYTHON USING ARTIFACT '/tmp/a.zip';

CREATE FUNCTION default_catalog.default_database.f AS 'golden_functions:fee' LANGUAGE PYTHON;

-- alter
ALTER TABLE ShopSales ADD `c1` INT COMMENT 'new_column docs';

ALTER TABLE ShopSales ADD (`country` STRING COMMENT 'c', ts AS NOW(), PRIMARY KEY (product_id) NOT ENFORCED);

ALTER TABLE DailySales ADD PARTITION (dt = '2020-01-01');

-- refused SS358: partitions are folders, which have no options
ALTER TABLE IF EXISTS DailySales ADD IF NOT EXISTS PARTITION (dt = '2020-01-01') WITH ('k' = 'v');

ALTER TABLE DailySales ADD IF NOT EXISTS PARTITION (dt = '2020-01-01') PARTITION (dt = '2020-01-02');

ALTER TABLE DailySales DROP PARTITION (dt = '2020-01-01');

ALTER TABLE DailySales DROP IF EXISTS PARTITION (dt = '2020-01-01'), PARTITION (dt = '2020-01-02');

ALTER TABLE ShopSales MODIFY category STRING AFTER sales;

ALTER TABLE ShopSales MODIFY (product_name STRING FIRST);

ALTER TABLE Ticker MODIFY WATERMARK FOR rowtime AS rowtime - INTERVAL '10' SECOND;

ALTER TABLE ShopSales ADD (ts TIMESTAMP(3), WATERMARK FOR ts AS ts);

ALTER TABLE ShopSales ADD DISTRIBUTION BY HASH(product_id) INTO 4 BUCKETS;

CREATE TABLE dd (uid BIGINT) DISTRIBUTED BY (uid) INTO 4 BUCKETS WITH ('connector' = 'datagen');
ALTER TABLE dd DROP DISTRIBUTION;

CREATE TABLE dd (uid BIGINT) DISTRIBUTED BY (uid) INTO 4 BUCKETS WITH ('connector' = 'datagen');
ALTER TABLE dd MODIFY DISTRIBUTION BY HASH(uid) INTO 8 BUCKETS;

ALTER TABLE ShopSales DROP COLUMN sales;

ALTER TABLE ShopSales RENAME TO Sales2;

ALTER TABLE ShopSales SET ('rows-per-second' = '10', 'number-of-rows' = '5');

ALTER VIEW IF EXISTS nov RENAME TO nov2;

ALTER DATABASE default_database SET ('k' = 'v');

ALTER TEMPORARY SYSTEM FUNCTION IF EXISTS absent AS 'golden_functions:fee' LANGUAGE PYTHON;

ALTER FUNCTION IF EXISTS absent AS 'golden_functions:fee' LANGUAGE PYTHON;

-- refused SS101: there are no models
ALTER MODEL IF EXISTS m SET ('k' = 'v');

-- refused SS101: there are no models
ALTER MODEL m RENAME TO m2;

DROP CATALOG IF EXISTS cat_x;

DROP TEMPORARY VIEW IF EXISTS tvx;

DROP TEMPORARY TABLE IF EXISTS ttx;

DROP FUNCTION IF EXISTS absent;

DROP DATABASE IF EXISTS dbx RESTRICT;

-- show, describe, use, analyze
SHOW CREATE TABLE Orders;

SHOW TABLES FROM default_catalog.default_database LIKE 'O%';

SHOW DATABASES IN default_catalog NOT LIKE 'x%';

SHOW DATABASES NOT ILIKE 'x%';

SHOW FUNCTIONS IN default_catalog.default_database;

SHOW USER FUNCTIONS LIKE 'f%';

SHOW PROCEDURES FROM default_database ILIKE 'x%';

SHOW PROCEDURES NOT LIKE 'x%';

SHOW VIEWS FROM default_database NOT LIKE 'x%';

SHOW CURRENT CATALOG;

SHOW FULL MODULES;

SHOW JARS;

SHOW JOBS;

SHOW CATALOGS NOT LIKE 'x%';

-- refused SS101: there are no models
SHOW CREATE MODEL m;

SHOW MODELS LIKE 'x%';

DESCRIBE FUNCTION EXTENDED SUM;

DESC FUNCTION upper;

DESCRIBE CATALOG EXTENDED default_catalog;

DESCRIBE DATABASE EXTENDED default_database;

-- refused SS101: there are no models
DESCRIBE MODEL m;

DESCRIBE JOB '228d70913eab60dda85c5e7f78b5782c';

DESC EXTENDED Orders;

USE CATALOG default_catalog;

-- refused SS106: the module is there
LOAD MODULE core;

-- refused SS106: the module stays
UNLOAD MODULE core;

-- refused SS106: modules are Java
LOAD MODULE hive WITH ('hive-version' = '3.1.3');

-- refused SS106: tables of statistics are Spark's
ANALYZE TABLE ShopSales COMPUTE STATISTICS FOR ALL COLUMNS;

-- refused SS106: tables of statistics are Spark's
ANALYZE TABLE ShopSales PARTITION (category = 'a') COMPUTE STATISTICS FOR COLUMNS sales;

-- refused SS106: there are no procedures
CALL `cat`.sys.generate_n(4);

STOP JOB '228d70913eab60dda85c5e7f78b5782c';

STOP JOB 'abc' WITH DRAIN;

TRUNCATE TABLE sink;

-- refused SS106: rows of a sink are not changed in place
DELETE FROM sink WHERE a = 1;

-- refused SS106: rows of a sink are not changed in place
UPDATE sink SET b = 2 WHERE a = 1;

EXPLAIN PLAN_ADVICE INSERT INTO sink SELECT id, orderId FROM Orders;

EXPLAIN JSON_EXECUTION_PLAN SELECT * FROM Orders;

EXPLAIN EXECUTE STATEMENT SET BEGIN
INSERT INTO sink SELECT id, orderId FROM Orders;
END;

-- sql client
SET 'sql-client.execution.result-mode' = 'tableau';

SET 'sql-client.display.print-time-cost' = 'false';

SET 'sql-client.display.color-schema' = 'default';

SET 'sql-client.session.timeout' = '1h';

SET 'table.exec.state.ttl' = '36 h';

SET 'table.exec.sink.upsert-materialize' = 'AUTO';

SET 'table.exec.emit.late-fire.enabled' = 'true';

SET 'table.exec.emit.allow-lateness' = '1 h';

SET 'table.exec.async-lookup.key-ordered-enabled' = 'true';

SET 'table.exec.async-scalar.max-concurrent-operations' = '10';

SET 'table.exec.async-scalar.buffer-capacity' = '10';

SET 'table.exec.async-scalar.timeout' = '3 min';

SET 'table.exec.async-table.max-concurrent-operations' = '10';

SET 'table.exec.async-state.enabled' = 'true';

SET 'table.exec.delta-join.cache-enabled' = 'true';

SET 'table.optimizer.delta-join.strategy' = 'AUTO';

SET 'table.exec.local-hash-agg.adaptive.enabled' = 'true';

SET 'table.exec.sort.default-limit' = '100';

SET 'table.exec.sort.async-merge-enabled' = 'true';

SET 'table.exec.resource.hash-agg.memory' = '128 mb';

SET 'table.exec.resource.external-buffer-memory' = '10 mb';

SET 'table.exec.sink.nested-constraint-enforcer' = 'ERROR';

SET 'table.exec.source.cdc-events-duplicate' = 'true';

SET 'table.exec.unbounded-over.version' = '2';

SET 'table.exec.mini-batch.size' = '1000';

SET 'table.exec.shuffle-mode' = 'ALL_EXCHANGES_PIPELINED';

SET 'table.legacy-nested-row-nullability' = 'false';

SET 'table.display.max-column-width' = '30';

SET 'table.resources.download-dir' = '/tmp';

-- refused SS350: listeners are classes of Java
SET 'table.catalog-modification.listeners' = 'a';

-- refused SS350: sqlstream.toml names catalogs that stay
SET 'table.catalog-store.kind' = 'file';

-- refused SS350: sqlstream.toml names catalogs that stay
SET 'table.catalog-store.file.path' = 'file:///tmp/catalog';

SET 'table.optimizer.source.aggregate-pushdown-enabled' = 'true';

SET 'table.optimizer.adaptive-broadcast-join.strategy' = 'AUTO';

SET 'table.optimizer.skewed-join-optimization.strategy' = 'AUTO';

SET 'table.optimizer.bushy-join-reorder-threshold' = '12';

SET 'table.optimizer.runtime-filter.enabled' = 'true';

SET 'table.optimizer.union-all-as-breakpoint-enabled' = 'true';

SET 'python.executable' = '/usr/bin/python3';

SET 'python.fn-execution.bundle.size' = '1000';

SET 'python.files' = '/tmp/a.py';

SET 'python.execution-mode' = 'thread';

SET 'execution.batch-shuffle-mode' = 'ALL_EXCHANGES_BLOCKING';

SET 'execution.batch.adaptive.auto-parallelism.enabled' = 'true';

SET 'execution.sorted-inputs.enabled' = 'true';

SET 'execution.state-recovery.claim-mode' = 'NO_CLAIM';

SET 'execution.savepoint-restore-mode' = 'CLAIM';

-- refused SS350: a query that the state does not fit does not start
SET 'execution.savepoint.ignore-unclaimed-state' = 'true';

SET 'execution.checkpointing.snapshot-compression' = 'true';

SET 'execution.checkpointing.interval-during-backlog' = '10 min';

SET 'execution.checkpointing.file-merging.enabled' = 'true';

SET 'execution.checkpointing.local-backup.enabled' = 'true';

SET 'execution.checkpointing.aligned-checkpoint-timeout' = '30 s';

SET 'execution.checkpointing.data-inline-threshold' = '20kb';

SET 'execution.checkpointing.write-buffer-size' = '4096';

SET 'execution.checkpointing.cleaner.parallel-mode' = 'true';

SET 'execution.checkpointing.unaligned.interruptible-timers.enabled' = 'true';

SET 'execution.checkpointing.checkpoints-after-tasks-finish' = 'true';

SET 'execution.buffer-timeout' = '100 ms';

SET 'execution.buffer-timeout.interval' = '100 ms';

-- refused SS350: listeners are classes of Java
SET 'execution.job-status-changed-listeners' = 'x';

SET 'pipeline.generic-types' = 'true';

SET 'pipeline.force-avro' = 'true';

SET 'pipeline.cached-files' = 'name:file1,path:/tmp/a';

SET 'pipeline.default-kryo-serializers' = 'x';

SET 'pipeline.global-job-parameters' = 'a:b';

SET 'pipeline.closure-cleaner-level' = 'RECURSIVE';

SET 'pipeline.vertex-description-mode' = 'TREE';

SET 'pipeline.watermark-alignment.allow-unaligned-source-splits' = 'true';

SET 'pipeline.jobvertex-parallelism-overrides' = 'a:1';

SET 'restart-strategy.exponential-delay.initial-backoff' = '10 s';

SET 'restart-strategy.failure-rate.max-failures-per-interval' = '3';

SET 'restart-strategy' = 'none';

SET 'restart-strategy.type' = 'disable';

SET 'state.backend.rocksdb.memory.managed' = 'true';

SET 'state.backend.local-recovery' = 'true';

SET 'state.savepoints.dir' = 'hdfs:///flink/savepoints';

SET 'state.checkpoints.num-retained' = '2';

SET 'state.latency-track.keyed-state-enabled' = 'true';

SET 'jobmanager.memory.process.size' = '1600m';

SET 'taskmanager.numberOfTaskSlots' = '2';

SET 'parallelism.default' = '1';

SET 'fs.default-scheme' = 'hdfs://h:8020';

SET 's3.access-key' = 'a';

SET 'security.delegation.tokens.enabled' = 'false';

SET 'high-availability.type' = 'zookeeper';

SET 'heartbeat.interval' = '10000';

SET 'resourcemanager.taskmanager-timeout' = '30000';

SET 'classloader.resolve-order' = 'parent-first';

SET 'user.artifacts.base-dir' = '/tmp';

SET 'traces.reporters' = 'a';

SET 'events.reporters' = 'a';

SET 'rest.port' = '8081';

SET 'sql-gateway.session.idle-timeout' = '10 min';

SET 'workflow-scheduler.type' = 'embedded';

SET 'job-result-store.delete-on-commit' = 'true';

SET 'scheduler-mode' = 'reactive';

SET 'jobmanager.scheduler' = 'Adaptive';

SET 'slot.idle.timeout' = '50000';

SET 'web.submit.enable' = 'false';

SET 'env.java.opts.all' = '-Xmx1g';

RESET 'table.exec.mini-batch.enabled';

