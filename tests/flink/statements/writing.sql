-- INSERT, statement sets, plans, DELETE and UPDATE.

-- tables
CREATE TABLE pageviews (user_id STRING, viewtime TIMESTAMP(3), pageid BIGINT, country STRING, `date` STRING, WATERMARK FOR viewtime AS viewtime) WITH ('connector' = 'datagen');
CREATE TABLE country_views (user_id STRING, cnt BIGINT, `date` STRING, country STRING) PARTITIONED BY (`date`, country) WITH ('connector' = 'blackhole');
CREATE TABLE pv (user_id STRING, pageid BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE pv2 (user_id STRING, pageid BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE sums (pageid BIGINT, c BIGINT, PRIMARY KEY (pageid) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE students (name STRING, age INT, gpa DECIMAL(3, 2)) WITH ('connector' = 'blackhole');
CREATE TABLE done (user_id STRING, pageid BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '10');

INSERT INTO pv SELECT user_id, pageid FROM pageviews;

INSERT INTO pv (user_id) SELECT user_id FROM pageviews;

EXECUTE INSERT INTO pv SELECT user_id, pageid FROM pageviews;

INSERT INTO students VALUES ('fred flintstone', 35, 1.28), ('barney rubble', 32, 2.32);

INSERT INTO students (name, age) VALUES ('fred', 35);

INSERT INTO sums SELECT pageid, COUNT(*) FROM pageviews GROUP BY pageid;

CREATE TABLE parted (user_id STRING, cnt BIGINT, `date` STRING, country STRING) PARTITIONED BY (`date`, country)
WITH ('connector' = 'filesystem', 'path' = '/tmp/absent-parted', 'format' = 'json');
INSERT INTO parted PARTITION (`date` = '2019-8-30', country = 'China') SELECT user_id, CAST(1 AS BIGINT) FROM done;

CREATE TABLE parted (user_id STRING, cnt BIGINT, `date` STRING, country STRING) PARTITIONED BY (`date`, country)
WITH ('connector' = 'filesystem', 'path' = '/tmp/absent-parted', 'format' = 'json');
INSERT INTO parted PARTITION (`date` = '2019-8-30') SELECT user_id, CAST(1 AS BIGINT), country FROM pageviews;

INSERT INTO country_views PARTITION (`date` = '2019-8-30', country = 'China') (user_id) SELECT user_id FROM pageviews;

CREATE TABLE parted (user_id STRING, cnt BIGINT, `date` STRING, country STRING) PARTITIONED BY (`date`, country)
WITH ('connector' = 'filesystem', 'path' = '/tmp/absent-parted', 'format' = 'json');
INSERT OVERWRITE parted PARTITION (`date` = '2019-8-30', country = 'China') SELECT user_id, CAST(1 AS BIGINT) FROM done;

CREATE TABLE parted (user_id STRING, cnt BIGINT, `date` STRING, country STRING) PARTITIONED BY (`date`, country)
WITH ('connector' = 'filesystem', 'path' = '/tmp/absent-parted', 'format' = 'json');
INSERT OVERWRITE parted SELECT user_id, CAST(1 AS BIGINT), 'd', 'c' FROM done;

INSERT INTO pv WITH v AS (SELECT user_id, pageid FROM pageviews WHERE pageid > 0) SELECT * FROM v;

INSERT INTO pv /*+ OPTIONS('sink.parallelism' = '4') */ SELECT user_id, pageid FROM pageviews;

-- statement sets
EXECUTE STATEMENT SET
BEGIN
INSERT INTO pv SELECT user_id, pageid FROM pageviews;
INSERT INTO sums SELECT pageid, COUNT(*) FROM pageviews GROUP BY pageid;
END;

BEGIN STATEMENT SET;
INSERT INTO pv SELECT user_id, pageid FROM pageviews;
INSERT INTO pv2 SELECT user_id, pageid FROM pageviews WHERE pageid > 10;
END;

STATEMENT SET
BEGIN
INSERT INTO pv SELECT user_id, pageid FROM pageviews;
INSERT INTO pv2 SELECT user_id, pageid FROM pageviews WHERE pageid > 10;
END;

-- plans
COMPILE PLAN '/tmp/absent/plan.json' FOR INSERT INTO pv SELECT user_id, pageid FROM pageviews;

COMPILE PLAN '/tmp/absent/plan.json' IF NOT EXISTS FOR INSERT INTO pv SELECT user_id, pageid FROM pageviews;

COMPILE PLAN '/tmp/absent/plan.json' FOR STATEMENT SET BEGIN
INSERT INTO pv SELECT user_id, pageid FROM pageviews;
INSERT INTO pv2 SELECT user_id, pageid FROM pageviews WHERE pageid > 10;
END;

EXECUTE PLAN '/tmp/absent/plan.json';

COMPILE AND EXECUTE PLAN '/tmp/absent/plan.json' FOR INSERT INTO pv SELECT user_id, pageid FROM pageviews;

EXPLAIN PLAN FOR '/tmp/absent/plan.json';

-- refused SS106: rows of a sink are not changed in place
DELETE FROM sums WHERE pageid = 1;

-- refused SS106: rows of a sink are not changed in place
UPDATE sums SET c = 0 WHERE pageid = 1;

SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (id, name);

EXECUTE SELECT user_id FROM pageviews;
