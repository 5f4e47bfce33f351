"""Errors of a lake told as what is wrong, where, and what to do."""

from __future__ import annotations

import duckdb

from tierscope.domain.errors import StoreUnusable
from tierscope.storage.failures import FILE_FAILURES, Failure, found_among


class StoreContended(StoreUnusable):
    """Another collector committed first; nothing of this one's transaction is stored. Try again."""


_COMES_BACK = "a collector goes on by itself once it is back; exporters replay what was not stored"

_FAILURES = (
    Failure(
        r"Failed to initialize DuckLake[^$]*already exists",
        "another collector makes the lake at this moment",
        "try again; collectors do so by themselves",
        StoreContended,
    ),
    Failure(
        r"[Tt]ransaction conflict|Failed to commit DuckLake transaction.*(conflict|retr|snapshot)"
        r"|could not serialize access|deadlock detected",
        "another collector wrote to the lake at the same time",
        "try again; collectors do so by themselves",
        StoreContended,
    ),
    Failure(
        r"(?P<why>Connection refused|timeout expired|could not translate host name|No route to host"
        r"|the database system is (starting up|shutting down))",
        "the lake's PostgreSQL does not answer: {why}",
        f"check host and port, and that it runs; {_COMES_BACK}",
    ),
    Failure(
        r"(?P<why>password authentication failed[^\n]*|no password supplied|no pg_hba.conf entry[^\n]*"
        r"|role \"[^\"]*\" does not exist)",
        "the lake's PostgreSQL refuses this user: {why}",
        "give the password in the file that PGPASSFILE names, or in PGPASSWORD",
    ),
    Failure(
        r"database \"(?P<name>[^\"]*)\" does not exist",
        "PostgreSQL has no database {name}",
        "create it: `createdb {name}`",
    ),
    Failure(
        r"terminating connection|server closed the connection|no connection to the server"
        r"|connection not open|SSL connection has been closed|could not receive data from server",
        "the connection to the lake's PostgreSQL was lost",
        _COMES_BACK,
    ),
    Failure(
        r"connection to server [^\n]*failed: (?P<why>[^\n]*)",
        "the lake's PostgreSQL does not answer: {why}",
        f"check host and port, and that it runs; {_COMES_BACK}",
    ),
    Failure(
        r"Failed to execute query \"ROLLBACK\"|Current transaction is aborted",
        "a transaction with the lake's PostgreSQL was broken off",
        _COMES_BACK,
    ),
    Failure(
        r"DATA_PATH parameter[^\n]*does not match",
        "the lake keeps its data in another folder than `lake.data_path` says",
        "leave `lake.data_path` out, or name the folder that the lake was made with",
    ),
    Failure(
        r"[Ee]xisting DuckLake[^\n]*does not exist|DuckLake[^\n]*does not exist[^\n]*creat",
        "there is no lake in that database",
        "let a collector with `lake.data_path` make it",
    ),
    Failure(
        r"HTTP[^\n]*\s40[13]\b|AccessDenied|Forbidden|InvalidAccessKeyId|SignatureDoesNotMatch",
        "the object store refuses the lake's data",
        "give credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in AWS_SHARED_CREDENTIALS_FILE",
    ),
    Failure(
        r"NoSuchBucket|HTTP[^\n]*\s404\b|Could not (establish connection|resolve hostname)",
        "the object store does not have, or does not reach, what the lake's data path names",
        "check the bucket, AWS_ENDPOINT_URL and AWS_REGION; what is missing cannot be read",
    ),
)


def lake_explained(error: duckdb.Error, where: str) -> StoreUnusable:
    """Turn what DuckDB says about a lake into an error a person can act on."""
    text = str(error)
    told = found_among((*_FAILURES, *FILE_FAILURES), text, where)
    if told is not None:
        return told
    return StoreUnusable(
        f"the lake refused a statement: {' '.join(text.strip().splitlines()[:2])}",
        where=where,
        fix="report this with the release that made the lake",
    )
