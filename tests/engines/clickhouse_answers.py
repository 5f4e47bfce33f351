"""Run in an environment with chdb: load an export in the current folder, answer queries as JSON lines."""

import json
import sys
from pathlib import Path

from chdb import session


def main(queries):
    """Print the rows of each query, one list of rows a line."""
    clickhouse = session.Session()
    clickhouse.query("CREATE DATABASE tierscope")
    clickhouse.query("USE tierscope")
    for statement in Path("clickhouse.sql").read_text().split(";\n"):
        if statement.strip():
            clickhouse.query(statement)
    for query in queries:
        settings = "SETTINGS output_format_json_quote_64bit_integers = 0"
        answer = str(clickhouse.query(f"{query} {settings}", "JSONCompactEachRow"))
        print(json.dumps([json.loads(line) for line in answer.splitlines()]))


if __name__ == "__main__":
    main(sys.argv[1:])
