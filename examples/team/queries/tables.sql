-- What comes in, and where results go. Watermarks say how late rows may be.

CREATE TABLE orders (
  order_id BIGINT,
  shop STRING,
  customer STRING,
  amount DOUBLE,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = 'kafka:9092',
  'format' = 'json'
);

CREATE TABLE payments (
  order_id BIGINT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
  'connector' = 'kafka',
  'topic' = 'payments',
  'properties.bootstrap.servers' = 'kafka:9092',
  'format' = 'json'
);

CREATE TABLE hourly_revenue (
  shop STRING,
  hour_end TIMESTAMP(3),
  orders BIGINT,
  revenue DOUBLE
) WITH (
  'connector' = 'kafka',
  'topic' = 'hourly-revenue',
  'properties.bootstrap.servers' = 'kafka:9092',
  'format' = 'json'
);

CREATE TABLE reminders (
  order_id BIGINT,
  customer STRING,
  amount DOUBLE
) WITH (
  'connector' = 'kafka',
  'topic' = 'reminders',
  'properties.bootstrap.servers' = 'kafka:9092',
  'format' = 'json'
);
