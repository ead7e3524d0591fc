"""bucket.py BUCKET/PREFIX: DuckDB answers the SQL queries on stdin, a JSON list, about the view entries of the Parquet in an
archive of S3, and prints a JSON list. The standard variables say where S3 is."""

import json
import os
import sys

import duckdb
import s3fs

db = duckdb.connect()
db.register_filesystem(s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"], key=os.environ["AWS_ACCESS_KEY_ID"], secret=os.environ["AWS_SECRET_ACCESS_KEY"]))
db.execute("create view entries as select * from read_parquet('s3://" + sys.argv[1] + "/service=*/day=*/*.parquet', hive_partitioning=true)")
json.dump([[[str(x) for x in row] for row in db.execute(sql).fetchall()] for sql in json.load(sys.stdin)], sys.stdout)
