-- An alert whenever the delay of a carrier is two hours more than it was at the alert before.
SELECT
    carrier,
    LAST_VALUE(dep_delay) AS delay,
    LAST_VALUE(tailnum) AS tailnum,
    COUNT(*) AS departures_since
FROM departures
GROUP BY carrier GLOBAL WINDOW
TRIGGER DELTA (dep_delay) > 120 DISCARDING;
