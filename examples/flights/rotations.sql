-- Rotations of each aircraft: several departures from New York, at most 12 hours apart.
SELECT
    tailnum,
    window_start AS first_departure,
    window_end - INTERVAL '12' HOUR AS last_departure,
    COUNT(*) AS departures,
    SUM(distance) AS miles,
    MAX(dep_delay) AS worst_delay
FROM departures
GROUP BY tailnum, SESSION(scheduled, INTERVAL '12' HOUR)
HAVING COUNT(*) > 1;
