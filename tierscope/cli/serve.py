"""`tierscope serve`: the API, with the collector that owns the store file as its child."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from tierscope.cli.options import Config, Json, Lifeline
from tierscope.domain.errors import TierscopeError

CHECK_SECONDS = 0.25
"""How often the collector is looked after."""
KEEP_SECONDS = 1.0
"""How old a polled recommendation may be: advice is computed anew every few minutes."""


def serve(config: Config, as_json: Json = False, lifeline: Lifeline = False) -> None:
    """Serve the API; run the collector beside it and start it again if it dies."""
    from api.app import create_app
    from api.guard import Limits
    from tierscope.cli.logs import log_to_stderr
    from tierscope.cli.processes import Restarter, Stopped, StopRequest, announce
    from tierscope.cli.serve_api import access_of, addresses, server_of
    from tierscope.cli.settings_file import load_settings
    from tierscope.storage.serving import RemoteReader

    log_to_stderr()
    stop = StopRequest(lifeline=lifeline)
    settings = load_settings(config)
    api = settings.api
    access = access_of(api, settings.collector.kubernetes)
    limits = Limits(
        body_bytes=api.most_body_bytes, requests=api.most_requests, body_seconds=api.request_seconds
    )
    listener = listen(api.listen_host, api.listen_port)
    try:
        collector = Restarter(["collect", "--config", str(config)], stop=stop)
    except Stopped:
        listener.close()
        return
    try:
        reader = RemoteReader(Path(collector.addresses["socket"]))
        made = create_app(reader, time.time, access=access, limits=limits, keep_seconds=KEEP_SECONDS)
        server = server_of(made, api)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="api")
        thread.start()
        where = addresses(listener.getsockname()[:2], is_tls=api.tls_certificate_file is not None)
        announce(where | {"collector_pid": str(collector.pid)}, as_json=as_json)
        while thread.is_alive() and not stop.wait(CHECK_SECONDS):
            collector.check()
        server.should_exit = True
        thread.join()
    finally:
        collector.stop()
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """Bind the API's address before anything is started, so that a port in use is said at once."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise TierscopeError(
            f"the API cannot listen: {error.strerror or error}",
            where=f"{host}:{port} (settings api.listen_host, api.listen_port)",
            fix="choose a free port, or 0 to let the system choose one",
        ) from error
