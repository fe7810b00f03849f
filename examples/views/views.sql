-- Departures as they come, and what is known of them by now.
CREATE TABLE departures (
  carrier STRING NOT NULL,
  origin STRING NOT NULL,
  delay INT,
  at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '10' SECOND
) WITH (
  'connector' = 'filesystem',
  'path' = '${data}',
  'format' = 'json',
  'source.monitor-interval' = '200 ms'
);

-- a row per carrier, which is updated
CREATE MATERIALIZED VIEW carriers COMMENT 'departures and delays by carrier' WITH (
  'indexes' = 'departures'
) AS
SELECT
  carrier,
  COUNT(*) AS departures,
  AVG(delay) AS mean_delay,
  MAX(delay) AS worst_delay
FROM departures
GROUP BY
  carrier;

-- a row per minute and airport, once the minute is over
CREATE MATERIALIZED VIEW per_minute AS
SELECT
  window_start,
  origin,
  COUNT(*) AS departures
FROM TUMBLE(TABLE departures, DESCRIPTOR(at), INTERVAL '1' MINUTE)
GROUP BY
  window_start,
  window_end,
  origin;
