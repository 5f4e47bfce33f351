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
        r"|could not serialize access|deadlock detected|lake_fence: ",
        "another collector wrote to the lake at the same time",
        "try again; collectors do so by themselves",
        StoreContended,
    ),
    Failure(
        r"/(?P<file>[^/\s\"]+\.parquet)\"?:[^\n]*(No such file or directory|\b404\b)",
        "the lake's file {file} is gone",
        "try again: who was stopped for long began with a state that is deleted since; if it stays gone, "
        "restore the lake's data from a backup",
        StoreContended,
    ),
    Failure(
        r"(?P<why>Connection refused|timeout expired|could not translate host name|No route to host"
        r"|Network is unreachable|Connection timed out|the database system is (starting up|shutting down))",
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
        r"(?P<why>sorry, too many clients already|remaining connection slots are reserved[^\n]*"
        r"|too many connections for (role|database) \"[^\"]*\")",
        "the lake's PostgreSQL takes no more connections: {why}",
        f"raise its max_connections, or the limit of the role or database that is named; {_COMES_BACK}",
    ),
    Failure(
        r"(?P<why>must be owner of [^\n]*|permission denied for (table|schema|function|database) [^\n]*)",
        "the lake's PostgreSQL does not let this user do what a collector does: {why}",
        "let collectors have the user that made the lake",
    ),
    Failure(
        r"terminating connection|server closed the connection|no connection to the server"
        r"|connection not open|SSL connection has been closed|SSL SYSCALL error"
        r"|SSL error: unexpected eof|could not receive data from server",
        "the connection to the lake's PostgreSQL was lost",
        _COMES_BACK,
    ),
    Failure(
        r"connection to server [^\n]*failed: [^\n]*?"  # an object store has a TLS of its own
        r"(?P<why>SSL error: [^\n]*|server does not support SSL[^\n]*|server certificate for [^\n]*"
        r"|root certificate file [^\n]*|could not (read|load|get) [^\n]*(certificate|private key)[^\n]*"
        r"|private key file [^\n]*|connection requires a valid client certificate)",
        "no encrypted connection to the lake's PostgreSQL: {why}",
        "check sslmode, sslrootcert, sslcert and sslkey in the lake's name (or PGSSLMODE, PGSSLROOTCERT, "
        "PGSSLCERT and PGSSLKEY), and the server's certificate",
    ),
    Failure(
        r"connection to server [^\n]*failed: (?P<why>[^\n]*)",
        "a connection to the lake's PostgreSQL failed: {why}",
        f"what it says tells what to look at; {_COMES_BACK}",
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
