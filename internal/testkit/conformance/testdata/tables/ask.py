"""ask.py FILE [times]: DuckDB answers the SQL queries on stdin, a JSON list, about the table FILE, and prints a JSON list.

With times, of each the first value and the median of seven times, in nanoseconds."""

import json
import sys
import time

import duckdb

db = duckdb.connect()
db.execute("create view entries as select * from read_parquet('" + sys.argv[1].replace("'", "''") + "')")
if len(sys.argv) > 2:
    out = []
    for sql in json.load(sys.stdin):
        times = []
        for _ in range(7):
            begun = time.perf_counter_ns()
            rows = db.execute(sql).fetchall()
            times.append(time.perf_counter_ns() - begun)
        out.append({"Count": str(rows[0][0]), "Nanos": sorted(times)[3]})
    json.dump(out, sys.stdout)
    sys.exit()
json.dump([[[str(x) for x in row] for row in db.execute(sql).fetchall()] for sql in json.load(sys.stdin)], sys.stdout)
