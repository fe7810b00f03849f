-- What happens in a shop: clicks on campaigns, and orders, each of which names the click that led to it.
CREATE TABLE clicks (
  click BIGINT,
  campaign STRING,
  at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks',
  'properties.bootstrap.servers' = '${brokers}',
  'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'
);

CREATE TABLE orders (
  id BIGINT,
  click BIGINT,
  product INT,
  pieces INT,
  at TIMESTAMP(3),
  pt AS PROCTIME(),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = '${brokers}',
  'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'
);

-- looked up: a table of SQLite
CREATE TABLE products (
  id INT,
  name STRING,
  price INT
) WITH (
  'connector' = 'sqlite',
  'path' = '${folder}/shop.sqlite',
  'table-name' = 'products'
);

-- written: a topic that Kafka compacts, with the last row of each campaign
CREATE TABLE campaigns (
  campaign STRING,
  orders BIGINT,
  revenue BIGINT,
  PRIMARY KEY (campaign) NOT ENFORCED
) WITH (
  'connector' = 'upsert-kafka',
  'topic' = 'campaigns',
  'properties.bootstrap.servers' = '${brokers}',
  'key.format' = 'json',
  'value.format' = 'json',
  'topic.create' = 'true'
);

-- each order with the product that it names
CREATE VIEW sold AS
SELECT
  o.id,
  o.click,
  o.at,
  p.name AS product,
  o.pieces * p.price AS amount
FROM orders AS o
JOIN products FOR SYSTEM_TIME AS OF o.pt AS p LOOKUP ASYNC (OUTPUT UNORDERED, CACHE 100 ROWS)
  ON p.id = o.product;

-- what was sold of each product in each five seconds, once they are over
CREATE MATERIALIZED VIEW best_sellers (
  window_end,
  product,
  orders,
  revenue,
  PRIMARY KEY (window_end, product) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'path' = '${folder}/best_sellers'
) AS
SELECT
  window_end,
  product,
  COUNT(*) AS orders,
  SUM(amount) AS revenue
FROM TUMBLE(TABLE sold, DESCRIPTOR(at), INTERVAL '5' SECOND)
GROUP BY
  window_start,
  window_end,
  product;

-- what each campaign has brought by now: orders joined with the clicks of the ten seconds before them
INSERT INTO campaigns
SELECT
  c.campaign,
  COUNT(*),
  SUM(s.amount)
FROM sold AS s
JOIN clicks AS c
  ON c.click = s.click AND c.at BETWEEN s.at - INTERVAL '10' SECOND AND s.at
GROUP BY
  c.campaign;
