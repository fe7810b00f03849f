-- Mean delay at each airport every 15 minutes, over the last hour.
SELECT
    window_end,
    origin,
    COUNT(*) AS departures,
    AVG(dep_delay) AS mean_delay
FROM HOP(TABLE departures, DESCRIPTOR(scheduled), INTERVAL '15' MINUTE, INTERVAL '1' HOUR)
GROUP BY window_start, window_end, origin;
