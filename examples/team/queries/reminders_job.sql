INSERT INTO reminders
SELECT
  order_id,
  customer,
  amount
FROM unpaid_orders
WHERE
  amount >= 10;
