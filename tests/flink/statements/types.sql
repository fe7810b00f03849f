-- Types.

CREATE TABLE t (a CHAR, b CHAR(5), c VARCHAR, d VARCHAR(10), e STRING) WITH ('connector' = 'datagen');

CREATE TABLE t (a BINARY(3), b VARBINARY(5), c BYTES, d BINARY, e VARBINARY) WITH ('connector' = 'datagen');

CREATE TABLE t (a DECIMAL, b DECIMAL(10), c DECIMAL(10, 2), d DEC(5, 1), e NUMERIC(5)) WITH ('connector' = 'datagen');

CREATE TABLE t (a TINYINT, b SMALLINT, c INT, d INTEGER, e BIGINT, f FLOAT, g DOUBLE, h DOUBLE PRECISION) WITH ('connector' = 'datagen');

CREATE TABLE t (a DATE, b BOOLEAN) WITH ('connector' = 'datagen');

CREATE TABLE t (a TIME, b TIME(0), c TIME(3)) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t (a TIMESTAMP, b TIMESTAMP(3), c TIMESTAMP(6), d TIMESTAMP(0), e TIMESTAMP(3) WITHOUT TIME ZONE) WITH ('connector' = 'datagen');

-- refused SS105: times have microseconds
CREATE TABLE t (a TIMESTAMP(9)) WITH ('connector' = 'datagen');

CREATE TABLE t (a TIMESTAMP_LTZ, b TIMESTAMP_LTZ(3), c TIMESTAMP WITH LOCAL TIME ZONE, d TIMESTAMP(3) WITH LOCAL TIME ZONE) WITH ('connector' = 'datagen');

CREATE TABLE t (a TIMESTAMP(3) WITH TIME ZONE) WITH ('connector' = 'datagen');

CREATE TABLE t (a ARRAY<INT>, b ARRAY<INT NOT NULL>, c INT ARRAY) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t (a MAP<STRING, INT>, b MAP<STRING NOT NULL, INT>) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t (a MULTISET<STRING>, b STRING MULTISET) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t (a ROW<x INT, y STRING>, b ROW(x INT, y STRING), c ROW<x INT 'about x', y ROW<z BOOLEAN NOT NULL> NOT NULL>) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

CREATE TABLE t (a VARIANT) WITH ('connector' = 'kafka', 'topic' = 'a', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');

-- refused SS101: types of Java
CREATE TABLE t (a RAW('java.lang.Integer', 'AEZvcg==')) WITH ('connector' = 'datagen');

SELECT CAST(NULL AS INTERVAL DAY), CAST(NULL AS INTERVAL YEAR TO MONTH), CAST(NULL AS INTERVAL DAY TO SECOND(3));

SELECT CAST(1 AS VARCHAR(5)), CAST('ab' AS CHAR(4)), CAST('ab' AS BYTES), CAST('1' AS DEC(5, 2)), TRY_CAST('x' AS INT);

SELECT CAST('10:11:12' AS TIME), CAST(TIME '10:11:12' AS STRING);

SELECT CAST(ROW(1, 'a') AS ROW<x INT, y STRING>), CAST(ARRAY[1, 2] AS ARRAY<STRING>);

SELECT ARRAY[1, 2, 3][1], MAP['a', 1, 'b', 2]['a'], ROW(1, 'a'), (1, 'a');

SELECT r.x, r.y.z FROM (SELECT CAST(ROW(1, ROW(2)) AS ROW<x INT, y ROW<z INT>>) AS r);

SELECT CARDINALITY(ARRAY[1, 2]), CARDINALITY(MAP['a', 1]), ELEMENT(ARRAY[1]);

SELECT PARSE_JSON('{"a": 1}');
