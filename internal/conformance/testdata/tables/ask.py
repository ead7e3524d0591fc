"""ask.py FILE: DuckDB answers the SQL queries on stdin, a JSON list, about the table FILE, and prints a JSON list."""

import json
import sys

import duckdb

db = duckdb.connect()
db.execute("create view entries as select * from read_parquet('" + sys.argv[1].replace("'", "''") + "')")
json.dump([[[str(x) for x in row] for row in db.execute(sql).fetchall()] for sql in json.load(sys.stdin)], sys.stdout)
