-- The same in ClickHouse, of objects that s3() names.
SELECT service, name, count() AS spans, countIf(status = 'ERROR') AS errors, max(duration_nano) / 1e6 AS slowest_ms
FROM s3('https://BUCKET.s3.amazonaws.com/PREFIX/service=*/day=*/*.parquet', 'Parquet')
WHERE role = 'span' AND day = '2026-11-24'
GROUP BY service, name
ORDER BY slowest_ms DESC
LIMIT 20
SETTINGS use_hive_partitioning = 1;
