-- What aircraft, which airline, how was the weather: three systems outside, asked at the same time for each departure.
SELECT
    d.scheduled, d.carrier, d.flight, d.origin, d.dest, d.dep_delay,
    a.name AS airline,
    p.manufacturer, p.model, p.seats,
    w.temp, w.wind_speed, w.visib
FROM departures AS d
LEFT JOIN aircraft FOR SYSTEM_TIME AS OF d.pt AS p
    LOOKUP ASYNC (OUTPUT UNORDERED, CAPACITY 4, BATCH 50 WITHIN INTERVAL '0.005' SECOND, CACHE 5000 ROWS)
    ON p.tailnum = d.tailnum
LEFT JOIN airlines FOR SYSTEM_TIME AS OF d.pt AS a
    LOOKUP ASYNC (OUTPUT UNORDERED, CAPACITY 10, CACHE 100 ROWS TTL INTERVAL '1' HOUR)
    ON a.carrier = d.carrier
LEFT JOIN weather FOR SYSTEM_TIME AS OF d.pt AS w
    LOOKUP ASYNC (
        OUTPUT UNORDERED, CAPACITY 20, BATCH 20 WITHIN INTERVAL '0.005' SECOND, CACHE 10000 ROWS TTL INTERVAL '1' HOUR,
        RETRY ON ERROR 2 TIMES (EXPONENTIAL FROM INTERVAL '0.1' SECOND),
        TIMEOUT INTERVAL '1' MINUTE, ON TIMEOUT NULL
    )
    ON w.origin = d.origin AND w.hour = d.hour
