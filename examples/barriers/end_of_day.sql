-- What each shop has sold between two closings of all shops. Shops close one after the other, so the sales of a shop that
-- has closed wait until the others have closed, too. The west has gone for good on the second day.
CREATE TABLE sales (shop STRING, kind STRING, day DATE, at TIMESTAMP(3), amount INT)
WITH ('connector' = 'filesystem', 'path' = '${data}', 'format' = 'csv');

SELECT shop, COUNT(*) AS sales, SUM(amount) AS amount, MAX(barrier_id) AS since
FROM sales ALIGN BARRIERS (
    CHANNEL shop OF 3, MARKER kind = 'close', ID day, END WHEN kind = 'gone', TIMEOUT INTERVAL '1' DAY)
GROUP BY shop GLOBAL WINDOW
TRIGGER PURGING (ON BARRIER);
