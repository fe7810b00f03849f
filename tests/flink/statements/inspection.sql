-- SHOW, DESCRIBE, EXPLAIN, USE, modules, jars and jobs.

-- tables
CREATE TABLE orders (
  order_id BIGINT, `user` BIGINT, product STRING, amount INT, order_time TIMESTAMP(3),
  WATERMARK FOR order_time AS order_time - INTERVAL '5' SECOND
) WITH ('connector' = 'datagen');
CREATE TABLE mine1 (`count` BIGINT, word VARCHAR(256)) WITH ('connector' = 'datagen');
CREATE TABLE mine2 (`count` BIGINT, word VARCHAR(256)) WITH ('connector' = 'datagen');
CREATE TABLE out1 (`count` BIGINT, word VARCHAR(256)) WITH ('connector' = 'blackhole');
CREATE TABLE out2 (`count` BIGINT, word VARCHAR(256)) WITH ('connector' = 'blackhole');
CREATE VIEW v AS SELECT `count`, word FROM mine1;

SHOW CATALOGS;

SHOW CATALOGS LIKE '%cat%';

SHOW CURRENT CATALOG;

SHOW CREATE CATALOG default_catalog;

SHOW DATABASES;

SHOW DATABASES FROM default_catalog LIKE 'd%';

SHOW CURRENT DATABASE;

SHOW TABLES;

SHOW TABLES FROM default_database;

SHOW TABLES IN default_catalog.default_database LIKE '%o%';

SHOW TABLES NOT LIKE 'o%';

SHOW CREATE TABLE orders;

SHOW COLUMNS FROM orders;

SHOW COLUMNS IN orders LIKE '%user%';

SHOW COLUMNS FROM default_catalog.default_database.orders NOT LIKE '%_id';

CREATE TABLE parted (a INT, dt STRING) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'json');
SHOW PARTITIONS parted;

CREATE TABLE parted (a INT, dt STRING) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'json');
SHOW PARTITIONS parted PARTITION (dt = '2020-01-01');

SHOW PROCEDURES;

SHOW VIEWS;

SHOW VIEWS LIKE 'v%';

SHOW CREATE VIEW v;

SHOW FUNCTIONS;

SHOW USER FUNCTIONS;

SHOW FUNCTIONS LIKE 'to%';

SHOW FUNCTIONS FROM default_database ILIKE 'TO%';

SHOW MODULES;

SHOW FULL MODULES;

SHOW JARS;

SHOW JOBS;

SHOW MODELS;

SHOW MATERIALIZED TABLES;

DESCRIBE orders;

DESC orders;

DESCRIBE EXTENDED orders;

DESCRIBE default_catalog.default_database.orders;

DESCRIBE v;

DESCRIBE CATALOG default_catalog;

DESCRIBE CATALOG EXTENDED default_catalog;

DESC DATABASE default_database;

DESCRIBE FUNCTION EXTENDED upper;

DESCRIBE JOB 'abc';

-- EXPLAIN
EXPLAIN SELECT `count`, word FROM mine1 WHERE word LIKE 'F%';

EXPLAIN PLAN FOR SELECT `count`, COUNT(word) FROM (SELECT `count`, word FROM mine1 WHERE word LIKE 'F%' UNION ALL SELECT `count`, word FROM mine2) tmp GROUP BY `count`;

EXPLAIN ESTIMATED_COST SELECT `count` FROM mine1;

EXPLAIN CHANGELOG_MODE SELECT `count`, COUNT(word) FROM mine1 GROUP BY `count`;

EXPLAIN JSON_EXECUTION_PLAN SELECT `count` FROM mine1;

EXPLAIN PLAN_ADVICE SELECT AVG(`count`) AS a, COUNT(*) AS c, MAX(word) FILTER (WHERE `count` > 1) AS m FROM mine1;

EXPLAIN ESTIMATED_COST, CHANGELOG_MODE, PLAN_ADVICE, JSON_EXECUTION_PLAN SELECT `count`, COUNT(word) FROM (SELECT `count`, word FROM mine1 WHERE word LIKE 'F%' UNION ALL SELECT `count`, word FROM mine2) tmp GROUP BY `count`;

EXPLAIN INSERT INTO out1 SELECT `count`, word FROM mine1;

EXPLAIN CHANGELOG_MODE INSERT INTO out1 SELECT `count`, word FROM mine1;

EXPLAIN STATEMENT SET BEGIN
INSERT INTO out1 SELECT `count`, word FROM mine1;
INSERT INTO out2 SELECT `count`, word FROM mine2;
END;

EXPLAIN PLAN FOR STATEMENT SET BEGIN
INSERT INTO out1 SELECT `count`, word FROM mine1;
INSERT INTO out2 SELECT `count`, word FROM mine2;
END;

-- USE, modules, jars, jobs
USE CATALOG default_catalog;

USE default_database;

USE default_catalog.default_database;

CREATE DATABASE dbu;
USE dbu;

USE MODULES core;

-- refused SS106: modules are Java
LOAD MODULE hive WITH ('hive-version' = '3.1.3');

-- refused SS106: modules are Java
UNLOAD MODULE hive;

-- refused SS106: jars belong to Java
ADD JAR '/tmp/udf.jar';

-- refused SS106: jars belong to Java
REMOVE JAR '/tmp/udf.jar';

STOP JOB '228d70913eab60dda85c5e7f78b5782c' WITH SAVEPOINT;

STOP JOB '228d70913eab60dda85c5e7f78b5782c' WITH SAVEPOINT WITH DRAIN;

-- refused SS106: tables of statistics are Spark's
ANALYZE TABLE orders COMPUTE STATISTICS;

-- refused SS106: tables of statistics are Spark's
ANALYZE TABLE orders COMPUTE STATISTICS FOR COLUMNS product, amount;

-- refused SS106: there are no procedures
CALL `system`.generate_n(4);

TRUNCATE TABLE out1;
