SELECT B.auction, B.bidder, B.price, B.`dateTime`, S.`value`
FROM bid AS B
JOIN side_input FOR SYSTEM_TIME AS OF B.pt AS S ON MOD(B.auction, 10000) = S.key
