-- script ../queries/tables.sql
-- script ../queries/views.sql

EXECUTE UNIT TEST paid_in_time_counts FOR paid_orders
MOCK orders (order_id BIGINT, shop STRING, amount DOUBLE, ts TIMESTAMP(3)) AS (
  VALUES
    (1, 'north', 12.5, '2026-03-01 09:00:00'),
    (2, 'north', 7.5, '2026-03-01 09:00:00'),
    (3, 'south', 1, '2026-03-01 09:00:00')
),
MOCK payments AS (
  VALUES
    (1, '2026-03-01 09:30:00'),
    (2, '2026-03-01 09:30:01')
)
EXPECTED (order_id BIGINT, shop STRING, amount DOUBLE) AS (
  VALUES
    (1, 'north', 12.5)
);

EXECUTE UNIT TEST unpaid_orders_are_told FOR unpaid_orders
MOCK orders (order_id BIGINT, customer STRING, amount DOUBLE, ts TIMESTAMP(3)) AS (
  VALUES
    (1, 'ann', 12.5, '2026-03-01 09:00:00'),
    (2, 'bob', 7.5, '2026-03-01 09:00:00')
),
MOCK payments AS (
  VALUES
    (1, '2026-03-01 09:10:00')
)
EXPECTED AS (
  VALUES
    (2, 'bob', 7.5)
);

-- a view in place of what it reads
EXECUTE UNIT TEST revenue_is_added_up FOR revenue_per_hour
MOCK paid_orders (shop STRING, amount DOUBLE, paid_at TIMESTAMP(3)) AS (
  VALUES
    ('north', 1, '2026-03-01 09:00:00'),
    ('north', 2, '2026-03-01 09:59:59.999'),
    ('north', 4, '2026-03-01 10:00:00')
)
EXPECTED (hour_end TIMESTAMP(3), revenue DOUBLE) AS (
  VALUES
    ('2026-03-01 10:00:00', 3),
    ('2026-03-01 11:00:00', 4)
);
