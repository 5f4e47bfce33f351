"""`tierscope store`: what is done with a store beside collecting into it, also while it is collected into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tierscope.domain.lake_settings import is_lake

if TYPE_CHECKING:
    from tierscope.storage.upkeep import Upkeep

app = typer.Typer(no_args_is_help=True, help="Look after an event store.")


def _there(store: Path) -> Path:
    """Refuse a file that is not there; whether a lake is there its PostgreSQL says."""
    if not is_lake(store) and not store.is_file():
        raise typer.BadParameter(f"there is no file {store}")
    return store


File = Annotated[
    Path,
    typer.Argument(help="The store's file, or the name of its lake (ducklake:postgres:…).", callback=_there),
]
Socket = Annotated[
    Path | None, typer.Option(help="Socket of the collector that owns it, where its settings choose one.")
]


@app.callback()
def store() -> None:
    """Look after an event store."""


@app.command()
def upgrade(path: File) -> None:
    """Bring a file that an earlier release wrote up to this one, as its collector would when it starts."""
    from tierscope.storage.schema import VERSION
    from tierscope.storage.store import Store

    Store.open(path, clock=time.time).close()
    _say(f"{path} is of version {VERSION}")


@app.command()
def backup(
    path: File,
    target: Annotated[Path, typer.Argument(help="The copy's file; nothing may be there yet.")],
    socket: Socket = None,
) -> None:
    """Copy a store, as of one moment, into another file; a running collector goes on meanwhile."""
    with _upkeep(path, socket) as store:
        size = store.backup(str(target.absolute()))
    _say(f"{target} has {size:,} bytes")


@app.command()
def to_parquet(
    path: File,
    folder: Annotated[Path, typer.Argument(help="The folder to make; nothing may be there yet.")],
    socket: Socket = None,
) -> None:
    """Write a store's tables, as of one moment, as Parquet, with the SQL that makes its views over them."""
    with _upkeep(path, socket) as store:
        rows = store.to_parquet(str(folder.absolute()))
    _say_rows(rows)


@app.command()
def move(
    path: File,
    to: Annotated[str, typer.Option(help="Name of the lake: ducklake:postgres:dbname=… host=… user=….")],
    data_path: Annotated[
        str | None, typer.Option(help="Folder or s3://bucket/prefix/ of the lake's files, to make the lake.")
    ] = None,
) -> None:
    """Copy a file that no collector has open into a lake: all of it or nothing, and once however often."""
    from tierscope.domain.lake_settings import LakeSettings
    from tierscope.storage.store import Store

    if is_lake(path) or not is_lake(to):
        raise typer.BadParameter("a file is moved into a lake: FILE --to ducklake:postgres:…")
    with Store.open(to, LakeSettings(data_path=data_path), clock=time.time) as lake:
        moved = lake.take_in(path.absolute())
    if not any(moved.values()):
        _say("the lake has all of it already; nothing was changed")
    _say_rows(moved)


@app.command()
def forget(
    path: File,
    namespace: Annotated[str | None, typer.Option(help="Namespace whose rows are deleted.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Endpoint, in the namespace.")] = None,
    model: Annotated[str | None, typer.Option(help="Served model.")] = None,
    salt_hash: Annotated[int | None, typer.Option(help="Tenant, by `requests.salt_hash`.")] = None,
    salt_file: Annotated[
        Path | None, typer.Option(help="Tenant, by the file that holds its cache salt; needs --key-file.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="The exporter's hash_key_file, to know a salt again.")
    ] = None,
    session_hash: Annotated[int | None, typer.Option(help="Session, by `requests.session_hash`.")] = None,
    socket: Socket = None,
) -> None:
    """Delete everything of an endpoint, a model, a tenant or a session; all options given must hold."""
    from tierscope.domain.selection import Selection

    if salt_file is not None:
        salt_hash = _hash_of(salt_file, key_file)
    selection = Selection(
        namespace=namespace, endpoint=endpoint, model=model, salt_hash=salt_hash, session_hash=session_hash
    )
    with _upkeep(path, socket) as store:
        deleted = store.forget(selection)
    _say_rows(deleted)


def _hash_of(salt_file: Path, key_file: Path | None) -> int | None:
    from exporters.private import keyed_hash, load_key

    if key_file is None:
        raise typer.BadParameter("--salt-file needs --key-file: salts are stored as keyed hashes only")
    key = load_key(str(key_file), random_bytes=bytes)
    return keyed_hash(key)(salt_file.read_text("utf-8").rstrip("\n"))


@contextmanager
def _upkeep(path: Path, socket: Path | None) -> Iterator[Upkeep]:
    """The store, through the collector that owns its file where one listens, else opened here."""
    from tierscope.storage.serving import socket_path, somebody_listens
    from tierscope.storage.store import Store
    from tierscope.storage.upkeep import RemoteUpkeep

    listening = socket_path(path, socket)
    if not is_lake(path) and somebody_listens(listening):
        remote = RemoteUpkeep(listening)
        try:
            yield remote
        finally:
            remote.close()
        return
    with Store.open(path, clock=time.time) as opened:
        yield opened


def _say_rows(rows: dict[str, int]) -> None:
    for table, count in rows.items():
        _say(f"{table}: {count:,} rows")


def _say(text: str) -> None:
    from tierscope.cli.output import stdout

    stdout.print(text, markup=False, highlight=False)
