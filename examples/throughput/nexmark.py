"""The queries of Nexmark as Flink's benchmark writes them, with the words that differ here."""

from __future__ import annotations

TABLES = """
CREATE TABLE person (
    id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, dateTime TIMESTAMP(3),
    extra STRING, WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'test');
CREATE TABLE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, dateTime TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING,
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'test');
CREATE TABLE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP(3), extra STRING,
    pt AS PROCTIME(), WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH ('connector' = 'test');
CREATE TABLE side_input (key BIGINT, `value` STRING) WITH ('connector' = 'test', 'role' = 'lookup');
"""

QUERIES = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')""",
    "q4": """SELECT Q.category, AVG(Q.final) AS average FROM (
            SELECT MAX(B.price) AS final, A.category FROM auction AS A, bid AS B
            WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires GROUP BY A.id, A.category
        ) AS Q GROUP BY Q.category""",
    "q5": """SELECT AuctionBids.auction, AuctionBids.num FROM (
            SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
            FROM HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
            GROUP BY auction, window_start, window_end
        ) AS AuctionBids JOIN (
            SELECT MAX(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime FROM (
                SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
                FROM HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND)
                GROUP BY auction, window_start, window_end
            ) AS CountBids GROUP BY CountBids.starttime, CountBids.endtime
        ) AS MaxBids ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime
        AND AuctionBids.num >= MaxBids.maxn""",
    "q7": """SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM bid AS B JOIN (
            SELECT MAX(price) AS maxprice, window_end AS dateTime
            FROM TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND) GROUP BY window_start, window_end
        ) AS B1 ON B.price = B1.maxprice
        WHERE B.dateTime BETWEEN B1.dateTime - INTERVAL '10' SECOND AND B1.dateTime""",
    "q8": """SELECT P.id, P.name, P.starttime FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)
            GROUP BY id, name, window_start, window_end
        ) AS P JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime
            FROM TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)
            GROUP BY seller, window_start, window_end
        ) AS A ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": """SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra, bid,
            bidder, price, bidTime FROM (
            SELECT A.id, A.itemName, A.description, A.initialBid, A.reserve, A.dateTime, A.expires, A.seller,
                A.category, A.extra, B.auction AS bid, B.bidder, B.price, B.dateTime AS bidTime,
                ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) AS rownum
            FROM auction AS A, bid AS B WHERE A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
        ) AS R WHERE rownum <= 1""",
    "q10": """SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day,
            DATE_FORMAT(dateTime, 'HH:mm') AS minute FROM bid""",
    "q11": """SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
        FROM SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)
        GROUP BY bidder, window_start, window_end""",
    "q12": """SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
        FROM TUMBLE(TABLE bid, DESCRIPTOR(pt), INTERVAL '10' SECOND) GROUP BY bidder, window_start, window_end""",
    "q13": """SELECT B.auction, B.bidder, B.price, B.dateTime, S.`value` FROM bid AS B
        JOIN side_input FOR SYSTEM_TIME AS OF B.pt AS S ON B.auction = S.key""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price,
            CASE WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
                WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
            dateTime, extra FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": """SELECT DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day, COUNT(*) AS total_bids,
            COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
            COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
            COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids, COUNT(DISTINCT bidder) AS total_bidders,
            COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
            COUNT(DISTINCT auction) AS total_auctions
        FROM bid GROUP BY DATE_FORMAT(dateTime, 'yyyy-MM-dd')""",
    "q16": """SELECT channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day, MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS minute,
            COUNT(*) AS total_bids, COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
            COUNT(DISTINCT bidder) AS total_bidders, COUNT(DISTINCT auction) AS total_auctions
        FROM bid GROUP BY channel, DATE_FORMAT(dateTime, 'yyyy-MM-dd')""",
    "q17": """SELECT auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS day, COUNT(*) AS total_bids,
            COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids, MIN(price) AS min_price, MAX(price) AS max_price,
            AVG(price) AS avg_price, SUM(price) AS sum_price
        FROM bid GROUP BY auction, DATE_FORMAT(dateTime, 'yyyy-MM-dd')""",
    "q18": """SELECT auction, bidder, price, channel, url, dateTime, extra FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) AS rank_number FROM bid
        ) AS R WHERE rank_number <= 1""",
    "q19": """SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid
        ) AS R WHERE rank_number <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, B.dateTime AS bid_dateTime, B.extra AS bid_extra, itemName,
            description, initialBid, reserve, A.dateTime AS auction_dateTime, expires, seller, category
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
    "q21": """SELECT auction, bidder, price, channel, CASE WHEN LOWER(channel) = 'apple' THEN '0'
            WHEN LOWER(channel) = 'google' THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2'
            ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
            SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid""",
}
