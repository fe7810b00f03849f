-- Of the pages on concepts, time attributes, time zones, versioned tables, connectors and the SQL client.

-- tables
CREATE TABLE clicks (`user` STRING, cTime TIMESTAMP(3), url STRING, WATERMARK FOR cTime AS cTime - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE user_actions (user_name STRING, data STRING, user_action_time TIMESTAMP(3), WATERMARK FOR user_action_time AS user_action_time - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE p_actions (user_name STRING, data STRING, user_action_time AS PROCTIME()) WITH ('connector' = 'datagen');
CREATE TABLE bids (item STRING, price DOUBLE, bidtime TIMESTAMP(3), proctime AS PROCTIME(), WATERMARK FOR bidtime AS bidtime - INTERVAL '10' SECOND) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '9999', 'format' = 'csv');
CREATE TABLE out_print (a STRING, b BIGINT) WITH ('connector' = 'print');
CREATE TABLE employee_information (emp_id INT, name VARCHAR, dept_id INT) WITH ('connector' = 'filesystem', 'path' = '/path/to/something.csv', 'format' = 'csv');
CREATE TABLE department_counts (dept_id INT, emp_count BIGINT NOT NULL) WITH ('connector' = 'blackhole');
CREATE TABLE pageviews (user_id BIGINT, page_id BIGINT, viewtime TIMESTAMP(3), user_region STRING, proctime AS PROCTIME()) WITH ('connector' = 'kafka', 'topic' = 'p', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

SELECT `user`, COUNT(url) AS cnt FROM clicks GROUP BY `user`;

SELECT `user`, TUMBLE_START(cTime, INTERVAL '1' HOUR) AS endT, COUNT(url) AS cnt FROM clicks GROUP BY `user`, TUMBLE(cTime, INTERVAL '1' HOUR);

SELECT `user`, RANK() OVER (ORDER BY lastAction) FROM (SELECT `user`, MAX(cTime) AS lastAction FROM clicks GROUP BY `user`);

SELECT TUMBLE_START(user_action_time, INTERVAL '10' MINUTE), COUNT(DISTINCT user_name) FROM user_actions GROUP BY TUMBLE(user_action_time, INTERVAL '10' MINUTE);

SELECT TUMBLE_START(user_action_time, INTERVAL '10' MINUTE), COUNT(DISTINCT user_name) FROM p_actions GROUP BY TUMBLE(user_action_time, INTERVAL '10' MINUTE);

CREATE TABLE ltz_actions (user_name STRING, data STRING, ts BIGINT, time_ltz AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR time_ltz AS time_ltz - INTERVAL '5' SECOND) WITH ('connector' = 'datagen');
SELECT TUMBLE_START(time_ltz, INTERVAL '10' MINUTE), COUNT(DISTINCT user_name) FROM ltz_actions GROUP BY TUMBLE(time_ltz, INTERVAL '10' MINUTE);

CREATE VIEW v1 AS SELECT LOCALTIME, LOCALTIMESTAMP, CURRENT_DATE, CURRENT_TIME, CURRENT_TIMESTAMP, CURRENT_ROW_TIMESTAMP(), NOW(), PROCTIME();
DESC v1;

CREATE VIEW t1 AS SELECT TO_TIMESTAMP_LTZ(4001, 3);
SET 'table.local-time-zone' = 'America/Los_Angeles';
SELECT * FROM t1;

CREATE VIEW my_view1 AS SELECT TO_TIMESTAMP_LTZ(4001, 3) AS ltz, TIMESTAMP '1970-01-01 00:00:01.001' AS ntz;
SELECT CAST(ltz AS TIMESTAMP(3)), CAST(ntz AS TIMESTAMP_LTZ(3)), ltz + INTERVAL '1' DAY FROM my_view1;

SELECT TIMESTAMP '1970-01-01 00:00:04.001';

CREATE VIEW my_view3 AS SELECT TUMBLE_START(bidtime, INTERVAL '10' MINUTE) AS window_start, TUMBLE_END(bidtime, INTERVAL '10' MINUTE) AS window_end, TUMBLE_ROWTIME(bidtime, INTERVAL '10' MINUTE) AS window_rowtime, item, MAX(price) AS max_price FROM bids GROUP BY TUMBLE(bidtime, INTERVAL '10' MINUTE), item;
DESC my_view3;

CREATE VIEW p_view AS SELECT TUMBLE_START(proctime, INTERVAL '10' MINUTE) AS window_start, TUMBLE_PROCTIME(proctime, INTERVAL '10' MINUTE) AS window_proctime, item, MAX(price) AS max_price FROM bids GROUP BY TUMBLE(proctime, INTERVAL '10' MINUTE), item;
SELECT * FROM p_view;

-- versioned tables
CREATE TABLE products (product_id STRING, product_name STRING, price DECIMAL(32, 2), update_time TIMESTAMP(3) METADATA FROM 'value.source.timestamp' VIRTUAL, PRIMARY KEY (product_id) NOT ENFORCED, WATERMARK FOR update_time AS update_time)
WITH ('connector' = 'kafka', 'topic' = 'p', 'properties.bootstrap.servers' = 'h:9092', 'value.format' = 'debezium-json');

CREATE TABLE currency_rates (currency STRING, rate DECIMAL(38, 10), update_time TIMESTAMP(3), WATERMARK FOR update_time AS update_time) WITH ('connector' = 'kafka', 'topic' = 'rates', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json');
CREATE VIEW versioned_rates AS SELECT currency, rate, update_time FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY update_time DESC) AS rownum FROM currency_rates) WHERE rownum = 1;
SELECT * FROM versioned_rates;

-- the SQL client
SELECT dept_id, COUNT(*) AS emp_count FROM employee_information GROUP BY dept_id;

INSERT INTO department_counts SELECT dept_id, COUNT(*) AS emp_count FROM employee_information GROUP BY dept_id;

SELECT name, COUNT(*) AS cnt FROM (VALUES ('Bob'), ('Alice'), ('Greg'), ('Bob')) AS NameTable(name) GROUP BY name;

SELECT 'Hello World';

SELECT CURRENT_TIMESTAMP;

CREATE TEMPORARY TABLE users (user_id BIGINT, user_name STRING, user_level STRING, region STRING, PRIMARY KEY (user_id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'users', 'properties.bootstrap.servers' = '...', 'key.format' = 'csv', 'value.format' = 'json');

SET 'execution.runtime-mode' = 'streaming';
SET 'sql-client.execution.result-mode' = 'table';
SET 'sql-client.execution.max-table-result.rows' = '10000';
SET 'parallelism.default' = '1';
SET 'pipeline.auto-watermark-interval' = '200';
SET 'pipeline.max-parallelism' = '10';
SET 'table.exec.state.ttl' = '1000';
SET 'restart-strategy.type' = 'fixed-delay';
SET 'table.optimizer.join-reorder-enabled' = 'true';
SET 'table.exec.spill-compression.enabled' = 'true';
SET 'table.exec.spill-compression.block-size' = '128kb';

SET 'execution.savepoint.path' = '/tmp/flink-savepoints/savepoint-cca7bc-bb1e257f0dab';
RESET 'execution.savepoint.path';

STOP JOB '228d70913eab60dda85c5e7f78b5782c' WITH SAVEPOINT;

EXECUTE STATEMENT SET
BEGIN
  INSERT INTO out_print SELECT user_region, COUNT(1) FROM pageviews GROUP BY user_region;
  INSERT INTO out_print SELECT user_region, COUNT(DISTINCT user_id) FROM pageviews GROUP BY user_region;
END;

-- connectors
CREATE TABLE KafkaTable (`user_id` BIGINT, `item_id` BIGINT, `behavior` STRING, `ts` TIMESTAMP(3) METADATA FROM 'timestamp')
WITH ('connector' = 'kafka', 'topic' = 'user_behavior', 'properties.bootstrap.servers' = 'localhost:9092', 'properties.group.id' = 'testGroup', 'scan.startup.mode' = 'earliest-offset', 'format' = 'csv');

CREATE TABLE KafkaTable2 (`event_time` TIMESTAMP(3) METADATA FROM 'timestamp', `partition` BIGINT METADATA VIRTUAL, `offset` BIGINT METADATA VIRTUAL, `user_id` BIGINT)
WITH ('connector' = 'kafka', 'topic' = 'user_behavior', 'properties.bootstrap.servers' = 'localhost:9092', 'scan.startup.mode' = 'latest-offset', 'format' = 'csv');

CREATE TABLE KafkaKeys (`ts` TIMESTAMP(3) METADATA FROM 'timestamp', `user_id` BIGINT, `item_id` BIGINT, `behavior` STRING)
WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'key.format' = 'json', 'key.json.ignore-parse-errors' = 'true', 'key.fields' = 'user_id;item_id', 'value.format' = 'json', 'value.json.fail-on-missing-field' = 'false', 'value.fields-include' = 'ALL');

CREATE TABLE KafkaPrefix (`k_version` INT, `k_user_id` BIGINT, `version` INT, `behavior` STRING)
WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'key.format' = 'json', 'key.fields-prefix' = 'k_', 'key.fields' = 'k_version;k_user_id', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY');

CREATE TABLE KafkaOffsets (a INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:42;partition:1,offset:300', 'format' = 'json');

CREATE TABLE KafkaTimes (a INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1700000000000', 'format' = 'json');

CREATE TABLE KafkaGroup (a INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'properties.group.id' = 'g', 'scan.startup.mode' = 'group-offsets', 'format' = 'json');

CREATE TABLE KafkaBounded (a INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');

CREATE TABLE KafkaTopics (a INT) WITH ('connector' = 'kafka', 'topic' = 'a;b', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE KafkaPattern (a INT) WITH ('connector' = 'kafka', 'topic-pattern' = 'b.*', 'properties.bootstrap.servers' = 'h:9092', 'scan.topic-partition-discovery.interval' = '5 min', 'format' = 'json');

CREATE TABLE KafkaExactly (a INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'sink.delivery-guarantee' = 'at-least-once', 'format' = 'json');

CREATE TABLE KafkaSecure (a INT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'properties.security.protocol' = 'SASL_SSL', 'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.jaas.config' = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";', 'format' = 'json');

CREATE TABLE pageviews_per_region (user_region STRING, pv BIGINT, uv BIGINT, PRIMARY KEY (user_region) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'pageviews_per_region', 'properties.bootstrap.servers' = '...', 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO pageviews_per_region SELECT user_region, COUNT(*), COUNT(DISTINCT user_id) FROM pageviews GROUP BY user_region;

CREATE TABLE MyUserTable (id BIGINT, name STRING, age INT, status BOOLEAN, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:5432/mydatabase', 'table-name' = 'users');
INSERT INTO MyUserTable SELECT id, name, age, status FROM (VALUES (1, 'a', 3, TRUE)) AS T (id, name, age, status);

CREATE TABLE MyUserTable (id BIGINT, name STRING, age INT, status BOOLEAN, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:5432/mydatabase', 'table-name' = 'users', 'username' = 'u', 'password' = 'p');
SELECT id, name, age, status FROM MyUserTable;

CREATE TABLE MyUserTable (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost:5432/mydatabase', 'table-name' = 'users', 'lookup.cache' = 'PARTIAL', 'lookup.partial-cache.max-rows' = '1000', 'lookup.partial-cache.expire-after-write' = '10 min', 'lookup.max-retries' = '3');
SELECT p.page_id, u.name FROM pageviews AS p LEFT JOIN MyUserTable FOR SYSTEM_TIME AS OF p.proctime AS u ON p.user_id = u.id;

CREATE TABLE MyUserTable (column_name1 INT, column_name2 STRING, part_name1 INT, part_name2 STRING) PARTITIONED BY (part_name1, part_name2)
WITH ('connector' = 'filesystem', 'path' = 'file:///path/to/whatever', 'format' = 'json', 'source.monitor-interval' = '10 s');

CREATE TABLE fs_table (user_id STRING, order_amount DOUBLE, dt STRING, `hour` STRING) PARTITIONED BY (dt, `hour`) WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'parquet');
INSERT INTO fs_table SELECT `user`, 1.5, DATE_FORMAT(cTime, 'yyyy-MM-dd'), DATE_FORMAT(cTime, 'HH') FROM clicks;

CREATE TABLE fs_csv (a STRING, `file.path` STRING NOT NULL METADATA, `file.name` STRING METADATA, `file.size` BIGINT NOT NULL METADATA, `file.modification-time` TIMESTAMP_LTZ(3) NOT NULL METADATA) WITH ('connector' = 'filesystem', 'path' = '/tmp/absent', 'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.ignore-parse-errors' = 'true', 'csv.null-literal' = 'n/a', 'csv.allow-comments' = 'true');

CREATE TABLE Gen (f_sequence INT, f_random INT, f_random_str STRING, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen', 'rows-per-second' = '5', 'fields.f_sequence.kind' = 'sequence', 'fields.f_sequence.start' = '1', 'fields.f_sequence.end' = '1000', 'fields.f_random.min' = '1', 'fields.f_random.max' = '1000', 'fields.f_random_str.length' = '10');

CREATE TABLE Gen2 (order_number BIGINT, price DECIMAL(32, 2), buyer ROW<first_name STRING, last_name STRING>, order_time TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '10');

CREATE TABLE print_table (f0 INT, f1 INT, f2 STRING, f3 DOUBLE) WITH ('connector' = 'print', 'print-identifier' = 'p', 'standard-error' = 'true', 'sink.parallelism' = '1');

CREATE TABLE print_like WITH ('connector' = 'print') LIKE clicks (EXCLUDING ALL);
INSERT INTO print_like SELECT * FROM clicks;

CREATE TABLE blackhole_like WITH ('connector' = 'blackhole') LIKE clicks (EXCLUDING ALL);

CREATE TABLE topic_products (id BIGINT, name STRING, description STRING, weight DECIMAL(10, 2)) WITH ('connector' = 'kafka', 'topic' = 'products_binlog', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'debezium-json', 'debezium-json.ignore-parse-errors' = 'true');
SELECT name, AVG(weight) FROM topic_products GROUP BY name;

CREATE TABLE topic_canal (id BIGINT, name STRING) WITH ('connector' = 'kafka', 'topic' = 'p', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'canal-json', 'canal-json.ignore-parse-errors' = 'true');

CREATE TABLE topic_maxwell (id BIGINT, name STRING, origin_database STRING METADATA FROM 'value.database' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 'p', 'properties.bootstrap.servers' = 'h:9092', 'value.format' = 'maxwell-json');

CREATE TABLE topic_ogg (id BIGINT, name STRING) WITH ('connector' = 'kafka', 'topic' = 'p', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'ogg-json');

CREATE TABLE user_json (user_id BIGINT, item_id BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json', 'json.fail-on-missing-field' = 'false', 'json.ignore-parse-errors' = 'true', 'json.timestamp-format.standard' = 'ISO-8601');

CREATE TABLE nginx_log (log STRING) WITH ('connector' = 'kafka', 'topic' = 'nginx_log', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'raw', 'raw.charset' = 'UTF-8');
SELECT SPLIT_INDEX(log, ' ', 0), REGEXP_EXTRACT(log, '"(.*)"', 1) FROM nginx_log;

CREATE TABLE user_avro (user_id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'b', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'avro');

CREATE TABLE simple_test (uid BIGINT, name STRING, category_type INT, content BINARY, price DOUBLE, value_map MAP<STRING, ROW<v1 BIGINT, v2 INT>>, value_arr ARRAY<ROW<v1 BIGINT, v2 INT>>, modified_columns STRING) WITH ('connector' = 'kafka', 'topic' = 'user_behavior', 'properties.bootstrap.servers' = 'localhost:9092', 'properties.group.id' = 'testGroup', 'format' = 'protobuf', 'protobuf.message-class-name' = 'com.example.SimpleTest', 'protobuf.ignore-parse-errors' = 'true', 'protobuf.schema' = 'syntax = "proto2"; package com.example; message SimpleTest { optional int64 uid = 1; }');

CREATE TABLE user_created (the_kafka_key STRING, id STRING, name STRING, email STRING) WITH ('connector' = 'kafka', 'topic' = 'user_events_example1', 'properties.bootstrap.servers' = 'localhost:9092', 'key.format' = 'raw', 'key.fields' = 'the_kafka_key', 'value.fields-include' = 'EXCEPT_KEY', 'format' = 'avro-confluent', 'avro-confluent.url' = 'http://localhost:8082');

CREATE TABLE user_created_keys (kafka_key_id STRING, id STRING, name STRING, email STRING) WITH ('connector' = 'kafka', 'topic' = 'user_events_example2', 'properties.bootstrap.servers' = 'localhost:9092', 'key.format' = 'avro-confluent', 'key.avro-confluent.url' = 'http://localhost:8082', 'key.fields' = 'kafka_key_id', 'value.fields-include' = 'EXCEPT_KEY', 'key.fields-prefix' = 'kafka_key_', 'format' = 'avro-confluent', 'avro-confluent.url' = 'http://localhost:8082', 'avro-confluent.subject' = 'user_events_example2-value2', 'key.avro-confluent.subject' = 'user_events_example2-key2');

-- refused SS501: there is no Elasticsearch
CREATE TABLE es (user_id STRING, PRIMARY KEY (user_id) NOT ENFORCED) WITH ('connector' = 'elasticsearch-7', 'hosts' = 'http://localhost:9200', 'index' = 'users');

-- determinism, recipes of the performance page
CREATE TEMPORARY VIEW agg AS SELECT color, SUM(id) AS s FROM (VALUES (1, 'red'), (2, 'blue')) AS T (id, color) GROUP BY color;
SELECT * FROM agg;

SELECT MOD(HASH_CODE_KEY, 1024), COUNT(1) FROM (SELECT ABS(page_id) AS HASH_CODE_KEY FROM pageviews) GROUP BY MOD(HASH_CODE_KEY, 1024);

SELECT user_region, SUM(cnt) FROM (SELECT user_region, COUNT(DISTINCT user_id) AS cnt FROM pageviews GROUP BY user_region, MOD(user_id, 1024)) GROUP BY user_region;

SELECT user_region, COUNT(DISTINCT user_id) AS total_uv, COUNT(DISTINCT CASE WHEN page_id IN (1, 2) THEN user_id ELSE NULL END) AS app_uv FROM pageviews GROUP BY user_region;
