-- Hints.

-- tables
CREATE TABLE k1 (id BIGINT, name STRING, age INT, pt AS PROCTIME()) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');
CREATE TABLE k2 (id BIGINT, name STRING, age INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');
CREATE TABLE t1 (id BIGINT, name STRING, age INT) WITH ('connector' = 'datagen');
CREATE TABLE t2 (id BIGINT, name STRING, age INT) WITH ('connector' = 'datagen');
CREATE TABLE t3 (id BIGINT, name STRING, age INT) WITH ('connector' = 'datagen');
CREATE TABLE customers (id BIGINT, name STRING, country STRING) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://h:5432/db', 'table-name' = 'customers');

SELECT id, name FROM k1 /*+ OPTIONS('scan.startup.mode'='earliest-offset') */;

SELECT * FROM k1 /*+ OPTIONS('scan.startup.mode'='earliest-offset') */ a JOIN k2 /*+ OPTIONS('scan.startup.mode'='latest-offset') */ b ON a.id = b.id;

INSERT INTO k2 /*+ OPTIONS('sink.partitioner'='round-robin') */ SELECT id, name, age FROM k1;

SELECT /*+ BROADCAST(t1) */ * FROM t1 JOIN t2 ON t1.id = t2.id;

SELECT /*+ BROADCAST(t1, t3) */ * FROM t1 JOIN t2 ON t1.id = t2.id JOIN t3 ON t1.id = t3.id;

SELECT /*+ BROADCAST(t1) */ * FROM t1 FULL OUTER JOIN t2 ON t1.id = t2.id;

SELECT /*+ BROADCAST(t2), BROADCAST(t1) */ * FROM t1 JOIN t2 ON t1.id = t2.id;

SELECT /*+ SHUFFLE_HASH(t1) */ * FROM t1 JOIN t2 ON t1.id = t2.id;

SELECT /*+ SHUFFLE_MERGE(t1, t3) */ * FROM t1 JOIN t2 ON t1.id = t2.id JOIN t3 ON t1.id = t3.id;

SELECT /*+ NEST_LOOP(t1) */ * FROM t1 JOIN t2 ON t1.id = t2.id;

SELECT /*+ BROADCAST(t1) SHUFFLE_HASH(t1) */ * FROM t1 JOIN t2 ON t1.id = t2.id;

SELECT /*+ MULTI_JOIN(t1, t2, t3) */ * FROM t1 JOIN t2 ON t1.id = t2.id JOIN t3 ON t1.id = t3.id;

SELECT /*+ MULTI_JOIN(t1, t2, t3), STATE_TTL('t1'='1d', 't2'='2d', 't3'='12h') */ * FROM t1 JOIN t2 ON t1.id = t2.id JOIN t3 ON t1.id = t3.id;

SELECT /*+ STATE_TTL('t1'='3d', 't2'='1d') */ * FROM t1 LEFT JOIN t2 ON t1.id = t2.id;

SELECT /*+ STATE_TTL('o' = '3d', 'l' = '1d', 'c' = '10d') */ * FROM t1 o LEFT OUTER JOIN t2 l ON o.id = l.id LEFT OUTER JOIN t3 c ON o.id = c.id;

CREATE TEMPORARY VIEW left_input AS SELECT id, age FROM t1 WHERE age > 1;
SELECT /*+ STATE_TTL('left_input' = '360000s', 't2' = '15h') */ * FROM left_input JOIN t2 ON left_input.id = t2.id;

SELECT /*+ STATE_TTL('t1' = '1d') */ id, SUM(age) AS total FROM t1 GROUP BY id;

SELECT /*+ STATE_TTL('tmp' = '1d') */ id, SUM(age) FROM (SELECT id, age FROM t1 WHERE age > 0) tmp GROUP BY id;

SELECT /*+ LOOKUP('table'='c', 'async'='true') */ k.id, c.name FROM k1 AS k JOIN customers FOR SYSTEM_TIME AS OF k.pt AS c ON k.id = c.id;

SELECT /*+ LOOKUP('table'='c', 'async'='true', 'output-mode'='allow_unordered', 'capacity'='100', 'timeout'='180s') */ k.id, c.name FROM k1 AS k JOIN customers FOR SYSTEM_TIME AS OF k.pt AS c ON k.id = c.id;

SELECT /*+ LOOKUP('table'='c', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='10s','max-attempts'='3') */ k.id, c.name FROM k1 AS k JOIN customers FOR SYSTEM_TIME AS OF k.pt AS c ON k.id = c.id;

SELECT /*+ LOOKUP('table'='customers', 'async'='false', 'shuffle'='true') */ k.id, customers.name FROM k1 AS k JOIN customers FOR SYSTEM_TIME AS OF k.pt ON k.id = customers.id;

SELECT /*+ LOOKUP('table'='c', 'async'='false', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='10s','max-attempts'='3', 'max-attempts'='4') */ k.id, c.name FROM k1 AS k LEFT JOIN customers FOR SYSTEM_TIME AS OF k.pt AS c ON k.id = c.id;
