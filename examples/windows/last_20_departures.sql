-- Every 50 departures of an airport, its last 20: all but these are evicted before the window fires.
SELECT
    origin,
    COUNT(*) AS departures,
    MAX(dep_delay) AS worst_delay,
    COLLECT_LIST(carrier) AS carriers
FROM departures
GROUP BY origin GLOBAL WINDOW
TRIGGER EVERY 50 ROWS
EVICT BEFORE KEEP LAST 20 ROWS;
