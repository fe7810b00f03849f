-- CREATE TABLE, CREATE VIEW, CREATE FUNCTION and what changes and removes them.

-- tables
CREATE TABLE orders (
  order_id BIGINT, `user` BIGINT, product STRING, amount INT, order_time TIMESTAMP(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');
CREATE TABLE rubber (product STRING, amount INT) WITH ('connector' = 'blackhole');
CREATE TABLE plain (id BIGINT, price DOUBLE, quantity DOUBLE, order_time TIMESTAMP(3)) WITH ('connector' = 'datagen');

CREATE TABLE t1 (`user` BIGINT, product STRING, amount INT) WITH ('connector' = 'datagen');

CREATE TABLE t2 (
  `user_id` BIGINT,
  `name` STRING
) WITH (
  'connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'properties.group.id' = 'g'
);

-- metadata columns
CREATE TABLE t3 (`user_id` BIGINT, `record_time` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp')
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t4 (`user_id` BIGINT, `timestamp` TIMESTAMP_LTZ(3) METADATA)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t5 (`user_id` BIGINT, `timestamp` BIGINT METADATA)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t6 (`timestamp` TIMESTAMP(3) METADATA, `offset` BIGINT METADATA VIRTUAL, `user_id` BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t7 (
  event_time TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', `partition` BIGINT METADATA VIRTUAL,
  headers MAP<STRING, BYTES> METADATA, user_id BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'csv');

CREATE TABLE t8 (`topic` STRING NOT NULL METADATA VIRTUAL, id BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t9 (origin_ts TIMESTAMP(3) METADATA FROM 'value.ingestion-timestamp' VIRTUAL, id BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'value.format' = 'debezium-json');

CREATE TABLE t10 (name STRING, `file.path` STRING NOT NULL METADATA, `file.size` BIGINT NOT NULL METADATA)
WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'json');

-- computed columns
CREATE TABLE t11 (`user_id` BIGINT, `price` DOUBLE, `quantity` DOUBLE, `cost` AS price * quantity) WITH ('connector' = 'datagen');

CREATE TABLE t12 (id INT, cost AS id * 2 COMMENT 'twice') COMMENT 'of a test' WITH ('connector' = 'datagen');

CREATE TABLE t13 (user_action_time STRING, ts AS TO_TIMESTAMP(user_action_time), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen');

CREATE TABLE t14 (ts BIGINT, time_ltz AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR time_ltz AS time_ltz - INTERVAL '5' SECOND)
WITH ('connector' = 'datagen');

CREATE TABLE t15 (user_name STRING, user_action_time AS PROCTIME()) WITH ('connector' = 'datagen');

-- watermarks
CREATE TABLE t16 (order_time TIMESTAMP(3), WATERMARK FOR order_time AS order_time) WITH ('connector' = 'datagen');

CREATE TABLE t17 (order_time TIMESTAMP(3), WATERMARK FOR order_time AS order_time - INTERVAL '0.001' SECOND) WITH ('connector' = 'datagen');

CREATE TABLE t18 (a TIMESTAMP(3), b INT, WATERMARK FOR a AS CASE WHEN b > 0 THEN a - INTERVAL '1' SECOND ELSE a - INTERVAL '5' SECOND END) WITH ('connector' = 'datagen');

CREATE TABLE t19 (ts TIMESTAMP(3), id INT, WATERMARK FOR ts AS SOURCE_WATERMARK()) WITH ('connector' = 'datagen');

-- refused SS214: tables in memory have no watermark of their own
CREATE TABLE t19b (ts TIMESTAMP(3), id INT, WATERMARK FOR ts AS SOURCE_WATERMARK()) WITH ('connector' = 'memory');

CREATE TABLE t20 (ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json',
  'scan.watermark.emit.strategy' = 'on-event', 'scan.watermark.idle-timeout' = '1min');

CREATE TABLE t21 (ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json',
  'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1min', 'scan.watermark.alignment.update-interval' = '1s');

-- keys
CREATE TABLE t22 (id BIGINT PRIMARY KEY NOT ENFORCED, name STRING) WITH ('connector' = 'datagen');

CREATE TABLE t23 (id BIGINT, name STRING, CONSTRAINT k PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen');

CREATE TABLE t24 (id BIGINT CONSTRAINT k PRIMARY KEY NOT ENFORCED, name STRING) WITH ('connector' = 'datagen');

CREATE TABLE t25 (id INT NOT NULL, name STRING NULL COMMENT 'of the user', PRIMARY KEY (id, name) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'key.format' = 'json', 'value.format' = 'json');

-- PARTITIONED BY, DISTRIBUTED
-- refused SS350: files are there when their micro-batch is committed, and partitions of a stream are never complete
CREATE TABLE t26 (user_id STRING, amount DOUBLE, dt STRING, `hour` STRING) PARTITIONED BY (dt, `hour`)
WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'parquet', 'sink.partition-commit.delay' = '1 h', 'sink.partition-commit.policy.kind' = 'success-file');

CREATE TABLE t27 (uid BIGINT, name STRING) DISTRIBUTED BY HASH(uid) INTO 4 BUCKETS WITH ('connector' = 'datagen');

CREATE TABLE t28 (uid BIGINT, name STRING) DISTRIBUTED BY (uid) INTO 4 BUCKETS WITH ('connector' = 'datagen');

CREATE TABLE t29 (uid BIGINT, name STRING) DISTRIBUTED INTO 4 BUCKETS WITH ('connector' = 'datagen');

-- LIKE
CREATE TABLE t30 (WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND) WITH ('rows-per-second' = '2') LIKE plain;

CREATE TABLE t31 (order_day AS CAST(order_time AS DATE)) WITH ('connector' = 'print') LIKE orders (EXCLUDING ALL INCLUDING GENERATED);

CREATE TABLE t32 LIKE orders;

CREATE TABLE t33 WITH ('connector' = 'print') LIKE orders (EXCLUDING OPTIONS, OVERWRITING WATERMARKS);

CREATE TEMPORARY TABLE t34 WITH ('connector' = 'print') LIKE orders (EXCLUDING ALL);

-- AS
CREATE TABLE t35 WITH ('connector' = 'blackhole') AS SELECT order_id, product FROM orders WHERE MOD(order_id, 10) = 0;

CREATE TABLE t36 (note STRING, quantity DOUBLE, cost AS price * quantity, WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND)
WITH ('connector' = 'blackhole') AS SELECT id, price, quantity, order_time FROM plain;

CREATE TABLE t37 (order_time, price, quantity, id) WITH ('connector' = 'blackhole') AS SELECT id, price, quantity, order_time FROM plain;

CREATE OR REPLACE TABLE t38 WITH ('connector' = 'blackhole') AS SELECT order_id, product FROM orders;

REPLACE TABLE rubber WITH ('connector' = 'blackhole') AS SELECT product, amount FROM orders;

CREATE TABLE IF NOT EXISTS orders (a INT) WITH ('connector' = 'datagen');

CREATE TEMPORARY TABLE t39 (a INT) WITH ('connector' = 'datagen');

CREATE TABLE default_catalog.default_database.t40 (a INT) WITH ('connector' = 'datagen');

-- catalogs, databases
CREATE CATALOG cat1 WITH ('type' = 'generic_in_memory');

CREATE CATALOG IF NOT EXISTS cat2 COMMENT 'of a test' WITH ('type' = 'generic_in_memory', 'default-database' = 'db');

CREATE DATABASE db1;

CREATE DATABASE IF NOT EXISTS db2 COMMENT 'of a test' WITH ('k' = 'v');

CREATE CATALOG cat3 WITH ('type' = 'generic_in_memory');
CREATE DATABASE cat3.db1;

-- views, functions
CREATE VIEW v1 AS SELECT product, amount FROM orders WHERE product LIKE '%Rubber%';

CREATE VIEW IF NOT EXISTS v2 (p, a) COMMENT 'of a test' AS SELECT product, amount FROM orders;

CREATE TEMPORARY VIEW v3 AS SELECT order_id, SUM(amount) AS total FROM orders GROUP BY order_id;

CREATE FUNCTION f1 AS 'golden_functions:fee' LANGUAGE PYTHON;

CREATE TEMPORARY FUNCTION IF NOT EXISTS f2 AS 'golden_functions:fee' LANGUAGE PYTHON;

CREATE TEMPORARY SYSTEM FUNCTION f3 AS 'golden_functions:fee' LANGUAGE PYTHON;

-- refused SS352: a class of Java
CREATE FUNCTION f4 AS 'com.example.F';

-- refused SS352: a class of Java
CREATE FUNCTION f5 AS 'com.example.F' LANGUAGE JAVA USING JAR '/tmp/f.jar';

-- refused SS101: there are no models
CREATE MODEL m INPUT (text STRING) OUTPUT (label STRING) WITH ('provider' = 'openai');

CREATE MATERIALIZED TABLE mt FRESHNESS = INTERVAL '3' MINUTE AS SELECT product FROM orders;

CREATE MATERIALIZED TABLE mt (PRIMARY KEY (product) NOT ENFORCED) COMMENT 'of a test' WITH ('connector' = 'filesystem', 'path' = '/tmp/mt', 'format' = 'parquet') FRESHNESS = INTERVAL '30' SECOND REFRESH_MODE = CONTINUOUS AS SELECT product, SUM(amount) AS total FROM orders GROUP BY product;

CREATE MATERIALIZED TABLE mt PARTITIONED BY (product) WITH ('connector' = 'filesystem', 'path' = '/tmp/mt', 'format' = 'json') FRESHNESS = INTERVAL '3' MINUTE AS SELECT product, amount FROM orders;

CREATE OR ALTER MATERIALIZED TABLE mt AS SELECT product, COUNT(*) AS n FROM orders GROUP BY product;

-- refused SS691: a job keeps the table, no schedule
CREATE MATERIALIZED TABLE mt FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT product FROM orders;

CREATE MATERIALIZED TABLE mt AS SELECT product FROM orders;
ALTER MATERIALIZED TABLE mt SUSPEND;

CREATE MATERIALIZED TABLE mt AS SELECT product FROM orders;
ALTER MATERIALIZED TABLE mt RESUME;

CREATE MATERIALIZED TABLE mt AS SELECT product FROM orders;
ALTER MATERIALIZED TABLE mt REFRESH;

CREATE MATERIALIZED TABLE mt AS SELECT product FROM orders;
ALTER MATERIALIZED TABLE mt AS SELECT amount FROM orders;

CREATE MATERIALIZED TABLE mt AS SELECT product FROM orders;
SHOW CREATE MATERIALIZED TABLE mt;

CREATE MATERIALIZED TABLE mt AS SELECT product FROM orders;
DROP MATERIALIZED TABLE mt;

-- refused SS101: there are no connections
CREATE CONNECTION c WITH ('type' = 'basic');

-- ALTER
ALTER TABLE plain ADD `order` INT COMMENT 'order identifier' FIRST;

ALTER TABLE plain ADD (ts2 TIMESTAMP(3), category STRING AFTER price, PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts2 AS ts2 - INTERVAL '1' HOUR);

ALTER TABLE plain ADD (log_ts STRING COMMENT 'log timestamp' FIRST, ts AS TO_TIMESTAMP(log_ts) AFTER log_ts);

ALTER TABLE plain MODIFY price DECIMAL(10, 2) COMMENT 'in euro' AFTER id;

ALTER TABLE orders MODIFY (amount DOUBLE NOT NULL, product STRING COMMENT 'category' AFTER order_id, WATERMARK FOR order_time AS order_time);

ALTER TABLE orders DROP WATERMARK;

ALTER TABLE plain DROP price;

ALTER TABLE plain DROP (price, quantity);

CREATE TABLE keyed (id BIGINT, a INT, CONSTRAINT ck PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen');
ALTER TABLE keyed DROP PRIMARY KEY;

CREATE TABLE keyed (id BIGINT, a INT, CONSTRAINT ck PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen');
ALTER TABLE keyed DROP CONSTRAINT ck;

ALTER TABLE plain RENAME price TO cost;

ALTER TABLE plain RENAME TO plain2;

ALTER TABLE IF EXISTS absent RENAME TO absent2;

ALTER TABLE plain SET ('rows-per-second' = '10');

ALTER TABLE plain RESET ('rows-per-second');

CREATE VIEW v AS SELECT 1 AS a;
ALTER VIEW v RENAME TO v9;

CREATE VIEW v AS SELECT 1 AS a;
ALTER VIEW v AS SELECT 2 AS a;

CREATE DATABASE dba;
ALTER DATABASE dba SET ('k' = 'v');

CREATE CATALOG cata WITH ('type' = 'generic_in_memory');
ALTER CATALOG cata SET ('default-database' = 'db');

CREATE CATALOG cata WITH ('type' = 'generic_in_memory', 'default-database' = 'db');
ALTER CATALOG cata RESET ('default-database');

CREATE CATALOG cata WITH ('type' = 'generic_in_memory');
ALTER CATALOG cata COMMENT 'of a test';

CREATE FUNCTION fa AS 'golden_functions:fee' LANGUAGE PYTHON;
ALTER FUNCTION fa AS 'golden_functions:fee' LANGUAGE PYTHON;

-- DROP
DROP TABLE orders;

DROP TABLE IF EXISTS absent;

CREATE TEMPORARY TABLE tt (a INT) WITH ('connector' = 'datagen');
DROP TEMPORARY TABLE IF EXISTS tt;

CREATE CATALOG catd WITH ('type' = 'generic_in_memory');
DROP CATALOG catd;

DROP CATALOG IF EXISTS absent;

CREATE DATABASE dbd;
DROP DATABASE dbd RESTRICT;

DROP DATABASE IF EXISTS absent CASCADE;

DROP VIEW IF EXISTS absent;

CREATE TEMPORARY VIEW vd AS SELECT 1 AS a;
DROP TEMPORARY VIEW IF EXISTS vd;

DROP FUNCTION IF EXISTS absent;

DROP TEMPORARY SYSTEM FUNCTION IF EXISTS absent;

DROP MODEL IF EXISTS m;

DROP MATERIALIZED TABLE IF EXISTS mt;
