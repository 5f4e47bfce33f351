"""Two replicas that share a pool, as far as `tierscope measure` sees them: answers, counters, endpoints.

Prompts share nothing, so a tier holds a prompt's first tokens or nothing of it. L0 holds whole blocks, L1 and
L2 whole chunks; of a prompt that all of them cover, the last token is computed.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from tierscope.cli.measuring.replica import Answer
from tierscope.registry import metrics, transfer_metrics

BLOCK_TOKENS = 16
CHUNK_TOKENS = 64
BYTES_PER_TOKEN = 100
SECONDS = {"fixed": 0.01, "l0": 0.0, "l1": 0.00002, "l2": 0.00003, "computed": 0.0002, "load": 0.02}
"""What an answer costs: fixed, a token by where it came from, and once where anything came from L2."""


@dataclass
class Cluster:
    """The pool, and what an exporter of both replicas would have counted."""

    chunks_stored: bool = True
    l2: set = field(default_factory=set)
    tokens: Counter = field(default_factory=Counter)
    loads: Counter = field(default_factory=Counter)


@dataclass
class FakeReplica:
    """One engine with its LMCache server; L0 forgets the prompts that were used the longest ago."""

    cluster: Cluster
    l0_tokens: int = 10_000
    l1: set = field(default_factory=set)
    l0: OrderedDict = field(default_factory=OrderedDict)
    tokens: Counter = field(default_factory=Counter)
    asked: list = field(default_factory=list)
    says_cached: bool = True
    lock: Lock = field(default_factory=Lock)

    def ask(self, prompt, output_tokens):
        with self.lock:
            return self._ask(tuple(prompt))

    def _ask(self, prompt):
        self.asked.append(prompt)
        length = len(prompt)
        whole = length - 1 if length % CHUNK_TOKENS == 0 else length // CHUNK_TOKENS * CHUNK_TOKENS
        l0 = (length - 1) // BLOCK_TOKENS * BLOCK_TOKENS if prompt in self.l0 else 0
        l1 = max(0, whole - l0) if prompt in self.l1 else 0
        l2 = max(0, whole - l0 - l1) if prompt in self.cluster.l2 else 0
        split = Counter(l0=l0, l1=l1, l2=l2, computed=length - l0 - l1 - l2)
        self.tokens += split
        self.cluster.tokens += split
        if prompt in self.l1:
            self.tokens["l1_found"] += length // CHUNK_TOKENS * CHUNK_TOKENS
        if l2:
            self.cluster.loads["seconds"] += l2 * SECONDS["l2"] + SECONDS["load"]
            self.cluster.loads["bytes"] += l2 * BYTES_PER_TOKEN
        self._keep(prompt)
        seconds = SECONDS["fixed"] + sum(count * SECONDS[tier] for tier, count in split.items())
        cached = length - split["computed"] if self.says_cached else None
        return Answer(seconds + (SECONDS["load"] if l2 else 0), length, cached)

    def _keep(self, prompt):
        self.l0[prompt] = None
        self.l0.move_to_end(prompt)
        while sum(map(len, self.l0)) > self.l0_tokens:
            self.l0.popitem(last=False)
        if self.cluster.chunks_stored:
            self.l1.add(prompt)
            self.cluster.l2.add(prompt)

    def reset_l0(self):
        self.l0.clear()

    def page(self) -> str:
        """The engine's own counters."""
        by_source = {
            "local_compute": self.tokens["computed"],
            "local_cache_hit": self.tokens["l0"],
            "external_kv_transfer": self.tokens["l1"] + self.tokens["l2"],
        }
        labels = 'engine="0",model_name="m"'
        blocks = self.l0_tokens // BLOCK_TOKENS + 1
        sizes = f'engine="0",block_size="{BLOCK_TOKENS}",num_gpu_blocks="{blocks}"'
        return "\n".join(
            [
                f"vllm:prompt_tokens_total{{{labels}}} {sum(by_source.values())}",
                *(
                    f'vllm:prompt_tokens_by_source_total{{{labels},source="{source}"}} {count}'
                    for source, count in by_source.items()
                ),
                f"vllm:cache_config_info{{{sizes}}} 1",
                "",
            ]
        )

    def cache_page(self) -> str:
        """LMCache's counter of what L1 had, L0's own part included."""
        return f"lmcache_mp_lookup_hit_l1_tokens_total {self.tokens['l1_found']}\n"

    def clear_l1(self):
        self.l1.clear()


def exporter_page(cluster: Cluster) -> str:
    """What an exporter of both would show."""
    name, seconds = metrics.REQUEST_TOKENS.name, transfer_metrics.TIER_LOAD_SECONDS.name
    transferred = transfer_metrics.TRANSFERRED_BYTES.name
    return "\n".join(
        [
            *(
                f'{name}{{tier="{tier}"}} {cluster.tokens[tier]}'
                for tier in ("l0", "l1", "l2", "external", "computed")
            ),
            f'{seconds}_sum{{tier="l2"}} {cluster.loads["seconds"]}',
            f'{transferred}{{tier="l2",action="load"}} {cluster.loads["bytes"]}',
            "",
        ]
    )


@contextmanager
def serving(cluster: Cluster, *replicas: FakeReplica):
    """Serve each replica, with its cache server and the exporter of both below it; yield the addresses."""
    with ExitStack() as stack:
        urls = []
        for replica in replicas:
            handler = type("Handler", (_Handler,), {"replica": replica, "cluster": cluster})
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            urls.append(f"http://127.0.0.1:{server.server_port}")
        yield urls


class _Handler(BaseHTTPRequestHandler):
    replica: FakeReplica
    cluster: Cluster

    def do_GET(self) -> None:
        pages = {
            "/v1/models": lambda: json.dumps({"data": [{"id": "m"}]}),
            "/metrics": self.replica.page,
            "/cache-server/metrics": self.replica.cache_page,
            "/exporter/metrics": lambda: exporter_page(self.cluster),
        }
        self._answer(pages[self.path]() if self.path in pages else None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/v1/completions":
            self._complete(json.loads(body))
        elif self.path == "/reset_prefix_cache":
            self.replica.reset_l0()
            self._answer("")
        elif self.path == "/cache-server/cache/clear":
            self.replica.clear_l1()
            self._answer("")
        else:
            self._answer(None)

    def _complete(self, asked) -> None:
        answer = self.replica.ask(asked["prompt"], asked["max_tokens"])
        details = None if answer.cached_tokens is None else {"cached_tokens": answer.cached_tokens}
        usage = {"prompt_tokens": answer.prompt_tokens, "prompt_tokens_details": details}
        pieces = [{"choices": [{"text": "w"}]}, {"choices": [], "usage": usage}]
        lines = [*(f"data: {json.dumps(piece)}" for piece in pieces), "data: [DONE]"]
        self._answer("".join(f"{line}\n\n" for line in lines))

    def _answer(self, text: str | None) -> None:
        if text is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_) -> None:
        """Nobody reads it."""
