CREATE TABLE person (
    id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, `dateTime` TIMESTAMP(3),
    extra STRING, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${person});
CREATE TABLE auction (
    id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING,
    WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${auction});
CREATE TABLE bid (
    auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING,
    pt AS PROCTIME(), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH (${bid});
CREATE TABLE side_input (key BIGINT, `value` STRING) WITH (${side_input});
