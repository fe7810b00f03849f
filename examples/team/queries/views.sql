-- What the team means by its words. Jobs and tests use these views.

-- An order counts once it is paid, and at the time of its payment.
CREATE VIEW paid_orders AS
SELECT
  o.order_id,
  o.shop,
  o.customer,
  o.amount,
  p.ts AS paid_at
FROM orders AS o
JOIN payments AS p
  ON p.order_id = o.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '30' MINUTES;

CREATE VIEW revenue_per_hour AS
SELECT
  shop,
  window_end AS hour_end,
  COUNT(*) AS orders,
  SUM(amount) AS revenue
FROM TUMBLE(TABLE paid_orders, DESCRIPTOR(paid_at), INTERVAL '1' HOUR)
GROUP BY
  shop,
  window_start,
  window_end;

-- Orders without a payment within half an hour.
CREATE VIEW unpaid_orders AS
SELECT
  o.order_id,
  o.customer,
  o.amount
FROM orders AS o
LEFT ANTI JOIN payments AS p
  ON p.order_id = o.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '30' MINUTES;

-- What each customer has ordered so far.
CREATE VIEW spent_by_customer AS
SELECT
  customer,
  COUNT(*) AS orders,
  SUM(amount) AS spent
FROM orders
GROUP BY
  customer;
