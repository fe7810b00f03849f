-- Aircraft that have not left New York for 30 days. Files are not quite in order of time, so the rows are put in order.
CREATE FUNCTION idle_aircraft AS 'idle_aircraft:IdleAircraft' LANGUAGE PYTHON;

SELECT tailnum, carrier, dest, last_departure, departures, rowtime AS noticed
FROM idle_aircraft(
    input => TABLE (SELECT * FROM departures WHERE tailnum IS NOT NULL) PARTITION BY tailnum ORDER BY scheduled,
    on_time => DESCRIPTOR(scheduled),
    days => 30);
