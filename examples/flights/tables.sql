-- Departures from New York's three airports, as files in the order in which the aircraft left.
-- Event time is the scheduled departure. No row is more than 21.7 hours behind the newest one before it,
-- so a watermark one day behind drops nothing.
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
    distance INT,                -- miles
    scheduled AS make_timestamp(year, month, day, sched_dep_time DIV 100, sched_dep_time % 100, 0),
    WATERMARK FOR scheduled AS scheduled - INTERVAL '1' DAY
) WITH (
    'connector' = 'filesystem',
    'path' = '${data}/departures',
    'format' = 'parquet',
    'source.max-files-per-trigger' = '4'
);
