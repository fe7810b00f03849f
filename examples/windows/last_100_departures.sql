-- The last 100 departures of each airport, every 10 departures: a sliding count window.
SELECT
    origin,
    window_start AS oldest,
    window_end AS newest,
    COUNT(*) AS departures,
    AVG(dep_delay) AS mean_delay
FROM departures
GROUP BY origin COUNT WINDOW (100 ROWS SLIDE 10 ROWS);
