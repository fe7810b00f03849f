-- Queries: SELECT, windows, joins, OVER, Top-N, patterns.

-- tables
CREATE TABLE orders (
  id BIGINT, `user` BIGINT, product STRING, product_id BIGINT, amount INT, price DECIMAL(32, 2), currency STRING, customer_id INT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>,
  order_time TIMESTAMP(3), proc_time AS PROCTIME(), WATERMARK FOR order_time AS order_time - INTERVAL '15' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'json');
CREATE TABLE shipments (id BIGINT, order_id BIGINT, ship_time TIMESTAMP(3), WATERMARK FOR ship_time AS ship_time - INTERVAL '15' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE product (id BIGINT, name STRING) WITH ('connector' = 'datagen');
CREATE TABLE customers (id INT, name STRING, country STRING, zip STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://h:5432/db', 'table-name' = 'customers');
CREATE TABLE currency_rates (
  currency STRING, conversion_rate DECIMAL(32, 2), update_time TIMESTAMP(3), WATERMARK FOR update_time AS update_time - INTERVAL '15' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'r', 'properties.bootstrap.servers' = 'h:9092', 'format' = 'debezium-json');
CREATE TABLE bid (bidtime TIMESTAMP(3), price DECIMAL(10, 2), item STRING, supplier_id STRING, pt AS PROCTIME(), WATERMARK FOR bidtime AS bidtime - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE left_table (row_time TIMESTAMP(3), num INT, id STRING, WATERMARK FOR row_time AS row_time - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE right_table (row_time TIMESTAMP(3), num INT, id STRING, WATERMARK FOR row_time AS row_time - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE ticker (symbol STRING, rowtime TIMESTAMP(3), price BIGINT, tax BIGINT, WATERMARK FOR rowtime AS rowtime - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
CREATE TABLE shop_sales (product_id BIGINT, category STRING, product_name STRING, sales BIGINT) WITH ('connector' = 'datagen');

SELECT * FROM orders;

SELECT order_id, price + 1 FROM (SELECT id AS order_id, price FROM orders);

SELECT price FROM (VALUES (1, 2.0), (2, 3.1)) AS o (order_id, price);

SELECT price + 1 FROM orders WHERE id = 10;

SELECT UPPER(product) FROM orders;

TABLE orders;

VALUES (1, 'a'), (2, 'b');

SELECT DISTINCT id FROM orders;

WITH totals AS (SELECT id, price + 1 AS total FROM orders) SELECT id, SUM(total) FROM totals GROUP BY id;

WITH t (a, b) AS (SELECT id, price FROM orders) SELECT a FROM t WHERE b > 1;

SELECT COUNT(*) FROM orders;

SELECT COUNT(DISTINCT id) FROM orders;

SELECT COUNT(*) FROM orders GROUP BY id;

SELECT product, COUNT(amount) FILTER (WHERE amount > 1) AS c FROM orders GROUP BY product;

SELECT SUM(amount) FROM orders GROUP BY `user` HAVING SUM(amount) > 50;

SELECT supplier_id, rating, COUNT(*) AS total
FROM (VALUES ('supplier1', 'product1', 4), ('supplier2', 'product3', 3)) AS Products (supplier_id, product_id, rating)
GROUP BY GROUPING SETS ((supplier_id, rating), (supplier_id), ());

SELECT supplier_id, rating, COUNT(*) FROM (VALUES ('s', 'p', 4)) AS Products (supplier_id, product_id, rating) GROUP BY ROLLUP (supplier_id, rating);

SELECT supplier_id, rating, product_id, COUNT(*) FROM (VALUES ('s', 'p', 4)) AS Products (supplier_id, product_id, rating) GROUP BY CUBE (supplier_id, rating, product_id);

SELECT * FROM orders ORDER BY order_time, id;

SELECT * FROM orders ORDER BY id LIMIT 3;

SELECT * FROM orders LIMIT 3;

-- set operations
(SELECT num FROM left_table) UNION (SELECT num FROM right_table);

(SELECT num FROM left_table) UNION ALL (SELECT num FROM right_table);

(SELECT num FROM left_table) INTERSECT ALL (SELECT num FROM right_table);

(SELECT num FROM left_table) EXCEPT (SELECT num FROM right_table);

SELECT `user`, amount FROM orders WHERE product IN (SELECT name FROM product);

SELECT `user`, amount FROM orders WHERE EXISTS (SELECT name FROM product WHERE product.id = orders.product_id);

-- windows
SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES));

SELECT * FROM TABLE(TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(bidtime), SIZE => INTERVAL '10' MINUTES));

SELECT window_start, window_end, SUM(price) AS total_price FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;

SELECT window_start, window_end, SUM(price) FROM TABLE(TUMBLE((SELECT * FROM bid), DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;

SELECT window_start, window_end, SUM(price) FROM TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES, INTERVAL '1' MINUTE) GROUP BY window_start, window_end;

SELECT * FROM TABLE(HOP(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES));

SELECT * FROM TABLE(HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(bidtime), SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '10' MINUTES));

SELECT window_start, window_end, SUM(price) FROM TABLE(HOP(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;

SELECT * FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES));

SELECT * FROM TABLE(CUMULATE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(bidtime), STEP => INTERVAL '2' MINUTES, SIZE => INTERVAL '10' MINUTES));

SELECT window_start, window_end, SUM(price) FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;

SELECT window_start, window_end, SUM(price) FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;

SELECT * FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES));

SELECT * FROM TABLE(SESSION(DATA => TABLE bid PARTITION BY item, TIMECOL => DESCRIPTOR(bidtime), GAP => INTERVAL '5' MINUTES));

SELECT window_start, window_end, item, SUM(price) AS total_price FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES)) GROUP BY item, window_start, window_end;

SELECT window_start, window_end, SUM(price) FROM TABLE(SESSION(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES)) GROUP BY window_start, window_end;

SELECT window_start, window_end, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '1 2' DAY TO HOUR)) GROUP BY window_start, window_end;

SELECT window_start, window_end, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '100' SECOND(3))) GROUP BY window_start, window_end;

SELECT window_start, window_end, supplier_id, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, GROUPING SETS ((supplier_id), ());

SELECT window_start, window_end, supplier_id, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, ROLLUP (supplier_id);

SELECT window_start, window_end, item, supplier_id, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, CUBE (supplier_id, item);

-- cascading windows
CREATE VIEW window1 AS SELECT window_start AS w_start, window_end AS w_end, window_time AS rowtime, SUM(price) AS partial_price FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)) GROUP BY supplier_id, window_start, window_end, window_time;
SELECT window_start, window_end, SUM(partial_price) AS total_price FROM TABLE(TUMBLE(TABLE window1, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;

-- windows in GROUP BY
SELECT `user`, TUMBLE_START(order_time, INTERVAL '1' DAY) AS wStart, SUM(amount) FROM orders GROUP BY TUMBLE(order_time, INTERVAL '1' DAY), `user`;

SELECT TUMBLE_END(order_time, INTERVAL '1' HOUR), TUMBLE_ROWTIME(order_time, INTERVAL '1' HOUR), COUNT(*) FROM orders GROUP BY TUMBLE(order_time, INTERVAL '1' HOUR);

SELECT TUMBLE_PROCTIME(proc_time, INTERVAL '1' HOUR), COUNT(*) FROM orders GROUP BY TUMBLE(proc_time, INTERVAL '1' HOUR);

SELECT `user`, HOP_START(order_time, INTERVAL '1' HOUR, INTERVAL '1' DAY), HOP_END(order_time, INTERVAL '1' HOUR, INTERVAL '1' DAY), SUM(amount) FROM orders GROUP BY HOP(order_time, INTERVAL '1' HOUR, INTERVAL '1' DAY), `user`;

SELECT `user`, SESSION_START(order_time, INTERVAL '12' HOUR), SESSION_ROWTIME(order_time, INTERVAL '12' HOUR), SUM(amount) FROM orders GROUP BY SESSION(order_time, INTERVAL '12' HOUR), `user`;

-- joins
SELECT * FROM orders INNER JOIN product ON orders.product_id = product.id;

SELECT * FROM orders LEFT JOIN product ON orders.product_id = product.id;

SELECT * FROM orders RIGHT JOIN product ON orders.product_id = product.id;

SELECT * FROM orders FULL OUTER JOIN product ON orders.product_id = product.id;

SELECT * FROM orders o, shipments s WHERE o.id = s.order_id AND o.order_time BETWEEN s.ship_time - INTERVAL '4' HOUR AND s.ship_time;

SELECT o.id, price, o.currency, conversion_rate, order_time FROM orders o LEFT JOIN currency_rates FOR SYSTEM_TIME AS OF o.order_time ON o.currency = currency_rates.currency;

SELECT orders.id, currency_rates.conversion_rate FROM orders JOIN currency_rates FOR SYSTEM_TIME AS OF orders.proc_time ON orders.currency = currency_rates.currency;

SELECT o.id, o.amount, c.country, c.zip FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proc_time AS c ON o.customer_id = c.id;

SELECT o.id, c.zip FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.proc_time AS c ON o.customer_id = c.id AND c.country = 'US';

-- refused SS203: the function is not there, as in the documentation, where it is made in Java
SELECT o.amount, r_rate FROM orders o, LATERAL TABLE (Rates(o.proc_time)) WHERE r_currency = o.currency;

SELECT o.id, r.conversion_rate FROM orders AS o JOIN LATERAL SNAPSHOT(input => TABLE currency_rates, on_time => DESCRIPTOR(update_time)) AS r ON o.currency = r.currency;

SELECT id, tag FROM orders CROSS JOIN UNNEST(tags) AS t (tag);

SELECT id, tag FROM orders LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;

SELECT id, tag, pos FROM orders CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);

SELECT id, k, v FROM orders CROSS JOIN UNNEST(attrs) AS t (k, v);

SELECT * FROM (VALUES (ARRAY[ROW('a', 1)])) AS t (a) CROSS JOIN UNNEST(a) AS u (x, y);

SELECT id, res FROM orders, LATERAL TABLE (EXPLODE(tags)) AS t (res);

SELECT id, res FROM orders LEFT OUTER JOIN LATERAL TABLE (EXPLODE(tags)) AS t (res) ON TRUE;

SELECT L.num AS l_num, L.id AS l_id, R.num AS r_num, COALESCE(L.window_start, R.window_start) AS window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE left_table, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))) L
FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE right_table, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))) R
ON L.num = R.num AND L.window_start = R.window_start AND L.window_end = R.window_end;

SELECT * FROM (SELECT * FROM TABLE(TUMBLE(TABLE left_table, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))) L WHERE L.num IN (
  SELECT num FROM (SELECT * FROM TABLE(TUMBLE(TABLE right_table, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))) R WHERE L.window_start = R.window_start AND L.window_end = R.window_end);

SELECT * FROM (SELECT * FROM TABLE(TUMBLE(TABLE left_table, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))) L WHERE NOT EXISTS (
  SELECT * FROM (SELECT * FROM TABLE(TUMBLE(TABLE right_table, DESCRIPTOR(row_time), INTERVAL '5' MINUTES))) R WHERE L.num = R.num AND L.window_start = R.window_start AND L.window_end = R.window_end);

-- OVER
SELECT id, order_time, amount, SUM(amount) OVER (PARTITION BY product ORDER BY order_time RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW) AS one_hour FROM orders;

SELECT id, SUM(amount) OVER w AS s, AVG(amount) OVER w AS a FROM orders WINDOW w AS (PARTITION BY product ORDER BY order_time RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW);

SELECT id, COUNT(amount) OVER (PARTITION BY product ORDER BY order_time ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) FROM orders;

SELECT id, LAG(amount, 1) OVER (PARTITION BY product ORDER BY proc_time), FIRST_VALUE(amount) OVER (PARTITION BY product ORDER BY proc_time) FROM orders;

-- deduplication and Top-N
SELECT id, `user`, product, num FROM (SELECT *, amount AS num, ROW_NUMBER() OVER (PARTITION BY id ORDER BY proc_time ASC) AS row_num FROM orders) WHERE row_num = 1;

SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY order_time DESC) AS row_num FROM orders) WHERE row_num = 1;

SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY category ORDER BY sales DESC) AS row_num FROM shop_sales) WHERE row_num <= 5;

SELECT product_id, category, sales FROM shop_sales QUALIFY ROW_NUMBER() OVER (PARTITION BY category ORDER BY sales DESC) <= 5;

SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rownum FROM (
  SELECT window_start, window_end, supplier_id, SUM(price) AS price, COUNT(*) AS cnt FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, supplier_id
)) WHERE rownum <= 3;

SELECT * FROM (SELECT bidtime, price, item, window_start, window_end, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY bidtime DESC) AS rownum FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))) WHERE rownum <= 1;

SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY rowtime
  MEASURES FIRST(A.rowtime) AS start_tstamp, LAST(A.rowtime) AS end_tstamp, AVG(A.price) AS avgPrice
  ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A+ B) DEFINE A AS AVG(A.price) < 15) MR;

SELECT * FROM ticker MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY rowtime
  MEASURES C.rowtime AS dropTime, A.price - C.price AS dropDiff
  ONE ROW PER MATCH AFTER MATCH SKIP TO FIRST C PATTERN (A B*? C) WITHIN INTERVAL '1' HOUR
  DEFINE B AS B.price > A.price - 10, C AS C.price < A.price - 10);

SELECT T.aid, T.bid FROM (SELECT symbol AS s, price, rowtime FROM ticker) MATCH_RECOGNIZE (
  ORDER BY rowtime MEASURES A.price AS aid, LAST(B.price, 1) AS bid PATTERN (A B{1,3} C) DEFINE A AS s = 'a', B AS B.price >= LAST(B.price, 1), C AS MATCH_ROWTIME() IS NOT NULL) AS T;

-- time travel, models, vectors
-- refused SS302: tables have no older versions
SELECT * FROM product FOR SYSTEM_TIME AS OF TIMESTAMP '2023-07-31 00:00:00';

-- refused SS101: there are no models
SELECT * FROM ML_PREDICT(TABLE product, MODEL m, DESCRIPTOR(name));

-- refused SS101: there are no vectors
SELECT * FROM product, LATERAL TABLE(VECTOR_SEARCH(TABLE product, DESCRIPTOR(name), ARRAY[1.0, 2.0], 10));

-- changelog functions
CREATE VIEW agg AS SELECT product, COUNT(*) AS cnt FROM orders GROUP BY product;
SELECT * FROM TO_CHANGELOG(input => TABLE agg PARTITION BY product);

CREATE VIEW agg AS SELECT product, COUNT(*) AS cnt FROM orders GROUP BY product;
SELECT * FROM TO_CHANGELOG(input => TABLE agg PARTITION BY product, op => DESCRIPTOR(op_code), op_mapping => MAP['INSERT', 'I', 'UPDATE_AFTER', 'U']);

CREATE TABLE cdc (id INT, op STRING, name STRING) WITH ('connector' = 'datagen');
SELECT * FROM FROM_CHANGELOG(input => TABLE cdc);

-- literals
SELECT U&'\0041b', U&'d!0061t!+000061' UESCAPE '!';

SELECT 'it''s', N'national', X'45F0AB', DATE '2024-01-01', TIMESTAMP '2024-01-01 10:00:00.123', TRUE, 1.5e3;

SELECT TIME '10:11:12';

SELECT INTERVAL '10:30' HOUR TO MINUTE, INTERVAL '1 10:11:12.5' DAY TO SECOND(3), INTERVAL '2-6' YEAR TO MONTH, INTERVAL '5' DAY(3);

SELECT `user` AS `select` FROM orders;

SELECT amount <> 1, amount IS DISTINCT FROM 2, price BETWEEN SYMMETRIC 5 AND 1, product SIMILAR TO 'a%', amount NOT IN (1, 2), product LIKE 'a!%' ESCAPE '!' FROM orders;
