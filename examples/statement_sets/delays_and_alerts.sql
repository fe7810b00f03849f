-- One scan of the departures feeds two tables: what each hour has come to, and what somebody should look at now.
-- Both stand at the same epoch, whatever happens: an alert is never there without the departures that led to it.
CREATE TABLE hourly_delays (window_start TIMESTAMP(3), departures BIGINT, mean_delay DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '${out}/hourly_delays', 'format' = 'parquet');

CREATE TABLE alerts (carrier STRING, delay INT, tailnum STRING, departures_since BIGINT)
WITH ('connector' = 'filesystem', 'path' = '${out}/alerts', 'format' = 'parquet');

SET 'execution.checkpointing.dir' = '${out}/checkpoints';
-- The year is complete: its last hour closes, too.
SET 'execution.end-of-input' = 'final';

EXECUTE STATEMENT SET BEGIN
INSERT INTO hourly_delays
    SELECT window_start, COUNT(*), AVG(dep_delay)
    FROM departures
    GROUP BY TUMBLE(scheduled, INTERVAL '1' HOUR);
-- An alert whenever the delay of a carrier is two hours more than it was at the alert before.
INSERT INTO alerts
    SELECT carrier, LAST_VALUE(dep_delay), LAST_VALUE(tailnum), COUNT(*)
    FROM departures
    GROUP BY carrier GLOBAL WINDOW
    TRIGGER DELTA (dep_delay) > 120 DISCARDING;
END;
