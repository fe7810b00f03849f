-- Departures as in examples/flights, and the systems outside in which they are looked up.
CREATE TABLE departures (
    year INT,
    month INT,
    day INT,
    sched_dep_time INT,          -- 517 is 05:17
    dep_delay INT,               -- minutes, negative where it left early
    carrier STRING,
    flight INT,
    tailnum STRING,
    origin STRING,
    dest STRING,
    scheduled AS make_timestamp(year, month, day, sched_dep_time DIV 100, sched_dep_time % 100, 0),
    hour AS format_string('%04d-%02d-%02dT%02d', year, month, day, sched_dep_time DIV 100),
    pt AS PROCTIME()
) WITH (
    'connector' = 'filesystem',
    'path' = '${data}/departures',
    'format' = 'parquet'
);

CREATE TABLE aircraft (tailnum STRING, manufacturer STRING, model STRING, seats INT)
WITH ('connector' = 'postgres', 'url' = '${postgres}', 'table-name' = 'aircraft');

CREATE TABLE airlines (carrier STRING, name STRING)
WITH ('connector' = 'redis', 'url' = '${redis}', 'key' = 'airline:{carrier}');

CREATE TABLE weather (origin STRING, hour STRING, temp DOUBLE, wind_speed DOUBLE, visib DOUBLE)
WITH (
    'connector' = 'http',
    'url' = '${weather}/weather/{origin}/{hour}',
    'batch.url' = '${weather}/weather',
    'batch.body' = '{keys}'
);
