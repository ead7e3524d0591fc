"""duck.py FILE duckdb|pyarrow: DuckDB or PyArrow reads the table FILE, and DuckDB prints what it finds in it as JSON."""

import json
import sys

import duckdb
import pyarrow.parquet

table, reader = sys.argv[1:]
db = duckdb.connect()
if reader == "pyarrow":
    db.register("entries", pyarrow.parquet.read_table(table))
else:
    db.execute("create view entries as select * from read_parquet('" + table.replace("'", "''") + "')")


def rows(query):
    return db.execute(query).fetchall()


def attributes(column, value="a.value"):
    return rows(
        f"select id, a.key, {value} from (select id, unnest(map_entries({column})) a from entries) order by id, a.key"
    )


found = {
    "types": [list(r[:2]) for r in rows("describe entries")],
    "roles": dict(rows("select role, count(*) from entries group by role")),
    "durations": str(rows("select coalesce(sum(duration_nano), 0) from entries where role = 'span'")[0][0]),
    "services": [r[0] for r in rows("select distinct attributes_string['service.name'] from entries where role = 'resource' order by 1")],
    "rows": rows(
        "select id, parent, role, name, message, target, level, trace_id, span_id, cast(time_unix_nano as varchar), cast(duration_nano as varchar), kind, status, service from entries order by id"
    ),
    "texts": attributes("attributes_string"),
    "ints": attributes("attributes_int", "cast(a.value as varchar)"),
    "bools": attributes("attributes_bool"),
    "bytes": attributes("attributes_bytes", "hex(a.value)"),
    "floats": attributes("attributes_float", "printf('%.17g', a.value)"),
    # The largest number of 128 bits is one that DuckDB can count with.
    "big": attributes("attributes_big"),
    "wide": str(rows("select coalesce(max(cast(a.value as uhugeint)), 0) from (select unnest(map_entries(attributes_big)) a from entries) where a.value not like '-%'")[0][0]),
    # A join of spans with their parents by ids is what the tree says.
    "children": rows("select count(*) from entries c join entries p on c.parent_span_id = p.span_id and c.trace_id = p.trace_id and p.role = 'span' where c.role = 'span'")[0][0],
    "parents": rows("select count(*) from entries c join entries p on c.parent = p.id where c.role = 'span' and p.role = 'span'")[0][0],
}
json.dump(found, sys.stdout)
