-- Departures and mean delay per carrier and hour.
SELECT
    window_start,
    carrier,
    COUNT(*) AS departures,
    AVG(dep_delay) AS mean_delay
FROM TUMBLE(TABLE departures, DESCRIPTOR(scheduled), INTERVAL '1' HOUR)
GROUP BY window_start, window_end, carrier;
