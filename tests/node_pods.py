"""Pods of a node as the Kubernetes API lists them, and a server that lists them to whoever has the token."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from tierscope.domain.settings import EngineSettings, LmcacheSettings

HOOK = {"kv_connector": "ObservingConnector", "kv_connector_module_path": "tierscope_probe.connectors"}
EVENTS = {"enable_kv_cache_events": True, "publisher": "zmq", "replay_endpoint": "tcp://*:5558"}
MODULE = {"module_path": "tierscope_probe.lmcache_module"}


def pod(name="chat-7d9f8c-x2x4z", *containers, ip="10.0.1.7", phase="Running", uid=None, **metadata) -> dict:
    """A pod of the Deployment `chat` in `ns`."""
    owner = {"kind": "ReplicaSet", "name": "chat-7d9f8c", "controller": True}
    return {
        "metadata": {
            "uid": uid or name, "name": name, "namespace": "ns", "ownerReferences": [owner], **metadata
        },
        "spec": {"containers": list(containers)},
        "status": {"phase": phase, "podIP": ip},
    }  # fmt: skip


def engine(*args: object, connector: dict | None = HOOK, events: dict | None = EVENTS, **env: str) -> dict:
    """A container of vLLM with a GPU."""
    words = ["--model", "/opt/ml/model", *map(str, args)]
    if connector is not None:
        words += ["--kv-transfer-config", json.dumps(connector)]
    if events is not None:
        words += ["--kv-events-config", json.dumps(events)]
    return {
        "name": "model",
        "image": "example/vllm:pinned",
        "args": words,
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }


def server(*args: object, module: dict | None = MODULE) -> dict:
    """A container of an LMCache server."""
    words = ["server", "--http-port", "8080", *map(str, args)]
    if module is not None:
        words += ["--server-module", json.dumps(module)]
    return {"name": "cache", "image": "example/lmcache:pinned", "command": ["lmcache"], "args": words}


def replica_pod(one: EngineSettings, cache: LmcacheSettings, endpoint: str) -> dict:
    """A pod of engine and cache server whose arguments say where a testbed's replica listens."""
    hook = {"endpoint": one.hook_endpoint, "replay_endpoint": one.hook_replay_endpoint}
    connector = {
        "kv_connector": "ObservingLMCacheMPConnector",
        "kv_connector_module_path": "tierscope_probe.connectors",
        "kv_connector_extra_config": {"tierscope": hook},
    }
    events = {
        "enable_kv_cache_events": True, "publisher": "zmq",
        "endpoint": one.events_endpoint, "replay_endpoint": one.events_replay_endpoint,
    }  # fmt: skip
    records = {"endpoint": cache.records_endpoint, "replay_endpoint": cache.records_replay_endpoint}
    module = {"module_path": "tierscope_probe.lmcache_module", "config": records}
    containers = (
        engine("--port", urlsplit(one.metrics_url).port, connector=connector, events=events),
        server("--http-port", urlsplit(cache.url).port, module=module),
    )
    return pod(one.replica, *containers, ip="127.0.0.1", labels={"tierscope.io/endpoint": endpoint})


class PodApi:
    """Lists `pods` to who shows `token`; `asked` holds every path."""

    def __init__(self, token: str = "token-of-the-exporter") -> None:
        self.pods: list[dict] = []
        self.token = token
        self.asked: list[str] = []
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> PodApi:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    owner: PodApi
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.owner.asked.append(self.path)
        allowed = self.headers.get("Authorization") == f"Bearer {self.owner.token}"
        body = json.dumps({"kind": "PodList", "items": self.owner.pods} if allowed else {}).encode()
        self.send_response(200 if allowed else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
