-- The mean delay of each hour: early results every 20 departures, a result when the hour is over,
-- and a new one with each departure that comes up to a day late. Each result withdraws the one before.
SELECT
    window_start,
    COUNT(*) AS departures,
    AVG(dep_delay) AS mean_delay,
    window_pane() AS pane
FROM departures
GROUP BY TUMBLE(scheduled, INTERVAL '1' HOUR)
TRIGGER AFTER WATERMARK EARLY EVERY 20 ROWS LATE EVERY 1 ROWS RETRACTING
LATE DATA ALLOW INTERVAL '1' DAY;
