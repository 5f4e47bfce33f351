"""An app behind a real server, as people's clients and browsers see it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from tests.exporting import await_true


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app on loopback while the context is open; its address, without a slash at the end."""
    config = uvicorn.Config(app, log_level="error", lifespan="off")
    with running(uvicorn.Server(config)) as (host, port):
        yield f"http://{host}:{port}"


@contextmanager
def running(server: uvicorn.Server) -> Iterator[tuple[str, int]]:
    """Run a server on loopback while the context is open; its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            await_true(lambda: server.started or not thread.is_alive(), "it serves")
            assert server.started, "the server ended before it served"
            yield host, port
        finally:
            server.should_exit = True
            thread.join()
