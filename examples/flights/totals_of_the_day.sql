-- Running totals of each day, every hour: departures so far, delayed ones, minutes lost.
SELECT
    window_start AS day,
    window_end AS until,
    COUNT(*) AS departures,
    COUNT(*) FILTER (WHERE dep_delay > 15) AS delayed,
    SUM(GREATEST(dep_delay, 0)) AS minutes_lost
FROM CUMULATE(TABLE departures, DESCRIPTOR(scheduled), INTERVAL '1' HOUR, INTERVAL '1' DAY)
GROUP BY window_start, window_end;
