SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra, bid,
    bidder, price, bidTime FROM (
    SELECT A.id, A.itemName, A.description, A.initialBid, A.reserve, A.`dateTime`, A.expires, A.seller,
        A.category, A.extra, B.auction AS bid, B.bidder, B.price, B.`dateTime` AS bidTime,
        ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS rownum
    FROM auction AS A, bid AS B WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
) AS R WHERE rownum <= 1
