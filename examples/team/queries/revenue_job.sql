INSERT INTO hourly_revenue
SELECT
  shop,
  hour_end,
  orders,
  revenue
FROM revenue_per_hour;
