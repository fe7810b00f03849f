SELECT auction, bidder, start_tstamp, bottom_tstamp, end_tstamp
FROM bid MATCH_RECOGNIZE (
    PARTITION BY auction, bidder ORDER BY `dateTime`
    MEASURES S.`dateTime` AS start_tstamp, LAST(D.`dateTime`) AS bottom_tstamp, LAST(U.`dateTime`) AS end_tstamp
    ONE ROW PER MATCH AFTER MATCH SKIP TO LAST U
    PATTERN (S D+ U)
    DEFINE D AS (LAST(D.price, 1) IS NULL AND D.price < S.price) OR D.price < LAST(D.price, 1),
        U AS U.price > LAST(D.price, 1)
)
