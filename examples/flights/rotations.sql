-- The working days of each aircraft: departures from New York at most 10 hours apart.
SELECT
    tailnum,
    window_start AS first_departure,
    window_end - INTERVAL '10' HOUR AS last_departure,
    COUNT(*) AS departures,
    SUM(distance) AS miles,
    MAX(dep_delay) AS worst_delay
FROM departures
GROUP BY tailnum, SESSION(scheduled, INTERVAL '10' HOUR);
