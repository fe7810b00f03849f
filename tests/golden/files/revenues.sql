CREATE VIEW revenue AS
SELECT shop, window_end, SUM(amount) AS revenue
FROM TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
GROUP BY shop, window_start, window_end;

INSERT INTO revenues SELECT shop, window_end, revenue FROM revenue;
