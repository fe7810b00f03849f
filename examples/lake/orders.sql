-- clicks on campaigns: messages of Kafka
CREATE TABLE clicks (
  click BIGINT,
  campaign STRING
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks',
  'properties.bootstrap.servers' = '${brokers}',
  'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'
);

-- orders, each of which names the click that led to it: a table of PostgreSQL, whose log says what changes in it
CREATE TABLE orders (
  id BIGINT,
  click BIGINT,
  product STRING,
  amount BIGINT,
  status STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'postgres-cdc',
  'url' = '${database}',
  'username' = '${user}',
  'password' = '${password}',
  'table-name' = 'orders',
  'slot.name' = 'lake'
);

-- both, in a table of Iceberg: DuckDB, Spark, Trino and pyiceberg read it while it grows
CREATE TABLE lake_orders (
  id BIGINT NOT NULL,
  campaign STRING,
  product STRING,
  amount BIGINT,
  status STRING,
  PRIMARY KEY (id) NOT ENFORCED
) WITH (
  'connector' = 'iceberg',
  'table-name' = 'shop.orders',
  'catalog.uri' = 'sqlite:///${folder}/catalog.db',
  'catalog.warehouse' = 'file://${folder}/lake'
);

INSERT INTO lake_orders
SELECT
  o.id,
  c.campaign,
  o.product,
  o.amount,
  o.status
FROM orders AS o
JOIN clicks AS c
  ON c.click = o.click;
