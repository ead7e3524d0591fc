-- The slowest requests of each service, of one day of all machines. s3://BUCKET/PREFIX stands in the place of
-- the folder archive after INSTALL httpfs; LOAD httpfs; and CREATE SECRET (TYPE s3, PROVIDER credential_chain);
SELECT service, name, count(*) AS spans, count(*) FILTER (status = 'ERROR') AS errors, max(duration_nano) / 1e6 AS slowest_ms
FROM read_parquet('archive/service=*/day=*/*.parquet', hive_partitioning = true)
WHERE role = 'span' AND day = '2026-11-24'
GROUP BY service, name
ORDER BY slowest_ms DESC
LIMIT 20;
