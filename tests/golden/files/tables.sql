CREATE TABLE sales (
  shop STRING, amount DOUBLE, ts TIMESTAMP(3), part INT METADATA FROM 'partition', WATERMARK FOR ts AS ts
) WITH ('connector' = 'kafka', 'topic' = 'sales', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json');

CREATE TABLE revenues (shop STRING, window_end TIMESTAMP(3), revenue DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '/data/revenues', 'format' = 'parquet');

CREATE TABLE owners (shop STRING, owner STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shops', 'table-name' = 'owners');
