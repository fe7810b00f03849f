-- The same tables on this machine: files in place of Kafka, results on the screen.

CREATE TABLE orders (
  order_id BIGINT,
  shop STRING,
  customer STRING,
  amount DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'filesystem',
  'path' = 'local/orders',
  'format' = 'csv'
);

CREATE TABLE payments (
  order_id BIGINT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'filesystem',
  'path' = 'local/payments',
  'format' = 'csv'
);

CREATE TABLE hourly_revenue (
  shop STRING,
  hour_end TIMESTAMP(3),
  orders BIGINT,
  revenue DOUBLE
) WITH (
  'connector' = 'print'
);

CREATE TABLE reminders (
  order_id BIGINT,
  customer STRING,
  amount DOUBLE
) WITH (
  'connector' = 'print'
);
