"""Settings of the processes, as frozen types with their documentation beside each field.

Every field's `doc` is the line printed in the settings reference; `docs/reference/settings.md` is
generated from here and a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tierscope.domain.deployment import Deployment, Objective
from tierscope.domain.discovery import ExporterPods, PodDiscovery
from tierscope.domain.documented import documented
from tierscope.domain.lake_settings import LakeSettings
from tierscope.domain.mount_settings import MountSettings
from tierscope.domain.tls_settings import FeedClientKeys, FeedServerKeys, TlsSettings


class OtlpProtocol(StrEnum):
    """How OTLP travels."""

    GRPC = "grpc"
    HTTP = "http"
    """Protobuf over HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """One vLLM engine (data-parallel rank) to read."""

    namespace: str = documented("Namespace of the endpoint this engine serves.")
    endpoint: str = documented("Name of the endpoint (InferenceEndpointConfig or any name you choose).")
    replica: str = documented("Name of the replica: the pod's name.")
    rank: int = documented("Data-parallel rank of the engine in its replica.", default=0)
    metrics_url: str | None = documented(
        "Address of the engine's Prometheus page, e.g. http://127.0.0.1:8000/metrics.", default=None
    )
    events_endpoint: str | None = documented(
        "ZMQ address of the engine's KV events, e.g. tcp://127.0.0.1:5557.", default=None
    )
    events_replay_endpoint: str | None = documented(
        "ZMQ address that replays missed KV events; without it a gap cannot be closed.", default=None
    )
    hook_endpoint: str | None = documented(
        "ZMQ address of the engine hook's record stream; without it there are no per-request records.",
        default=None,
    )
    hook_replay_endpoint: str | None = documented(
        "ZMQ address that replays missed hook records.", default=None
    )
    lmcache: str | None = documented(
        "Name of the LMCache server this engine loads from (see `lmcache`), or of the LMCache inside it (see "
        "`lmcache_in_process`).",
        default=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LmcacheSettings:
    """One LMCache multiprocess server to read: L1 of its node."""

    name: str = documented("Name of the server, unique in this file; the holder name of its L1.")
    url: str = documented("Base address of its HTTP port, e.g. http://127.0.0.1:8080.")
    pool: str | None = documented(
        "Name of the L2 pool (see `curvine` and `mounts`) its adapter writes to.", default=None
    )
    records_endpoint: str | None = documented(
        "ZMQ address of the probe's record stream in this server, e.g. tcp://127.0.0.1:5767; without it what "
        "L1 and L2 served cannot be told apart, and evictions have no reason.",
        default=None,
    )
    records_replay_endpoint: str | None = documented(
        "ZMQ address that replays missed records of this server.", default=None
    )
    coordinator_port: int | None = documented(
        "Port at `listen_host` at which the exporter is this server's coordinator (--coordinator-url with "
        "--coordinator-event-reporting): what came into its tiers and left them, where the probe cannot be. "
        "A server has one coordinator.",
        default=None,
    )
    prefill_tokens_per_second: float | None = documented(
        "Prompt tokens that an engine before this server computes in a second when nothing is cached; with "
        "it, an L2 that is slower than that is found.",
        default=None,
    )
    pool_is_scanned: bool = documented(
        "Whether another exporter scans the pool (see `mounts`): what came into the pool and went from it is "
        "then told by the scan, and not a second time by this server's counters.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessLmcacheSettings:
    """LMCache inside one engine (LMCacheConnectorV1): L1 in each worker, L2 through its remote storage."""

    name: str = documented(
        "Name of this LMCache, unique among `lmcache` and `lmcache_in_process`; the holder name of its L1. "
        "The engine it is in names it as its `lmcache`."
    )
    urls: tuple[str, ...] = documented(
        "Base addresses of its own pages (internal_api_server_enabled), one a worker, e.g. "
        "http://127.0.0.1:7000; none: its series are looked for on the engine's page.",
        default=(),
    )
    workers: int = documented(
        "Workers of the engine (tensor times pipeline parallel), each with a part of L1.", default=1
    )
    l1_bytes: float | None = documented(
        "Size of one worker's L1 (LMCACHE_MAX_LOCAL_CPU_SIZE times 2^30); none: asked at `urls`.",
        default=None,
    )
    chunk_tokens: int | None = documented(
        "Tokens of a chunk (LMCACHE_CHUNK_SIZE); none: asked at `urls`.", default=None
    )
    pool: str | None = documented(
        "Name of the L2 pool (see `curvine` and `mounts`) its remote storage writes to.", default=None
    )
    pool_is_scanned: bool = documented(
        "Whether another exporter scans the pool, as for an LMCache server.", default=False
    )
    storage_endpoints: tuple[str, ...] = documented(
        "ZMQ addresses of the storage hook in each worker, worker 0 first, e.g. tcp://127.0.0.1:5777; "
        "without them what a request loaded from L1 and from L2 cannot be told apart, and is external.",
        default=(),
    )
    storage_replay_endpoints: tuple[str, ...] = documented(
        "ZMQ addresses that replay missed records of each worker's storage hook, in the same order.",
        default=(),
    )
    controller_endpoint: str | None = documented(
        "ZMQ address to listen at for what its workers tell their controller (controller_pull_url, there "
        "without tcp://), e.g. tcp://127.0.0.1:9100: what came into L1 and left it, by chunk. An LMCache "
        "has one controller, so not where a kvaware router has its own.",
        default=None,
    )
    controller_reply_endpoint: str | None = documented(
        "ZMQ address to answer workers at that register (controller_reply_url).", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvineSettings:
    """One Curvine cluster to read: the shared L2."""

    name: str = documented("Name of the pool, unique in this file; the holder name of L2.")
    master_urls: tuple[str, ...] = documented(
        "Base addresses of every master's web port; the active one is found by its answer."
    )
    read_workers: bool = documented(
        "Whether to read every worker's page too, at the addresses the master tells. Let one exporter of the "
        "cluster do so.",
        default=True,
    )
    fuse_urls: tuple[str, ...] = documented(
        "Base addresses of this node's FUSE clients' web ports, e.g. http://10.0.1.7:9002: the node's, or "
        "the CSI pod's where the client is embedded. No port is declared, so nothing finds them by itself.",
        default=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSettings:
    """`tierscope export`: what to read on this node and where to publish it."""

    name: str = documented(
        "Name of this exporter, unique among those a collector reads. Left as it is with `pods`, it is the "
        "node's name.",
        default="exporter",
    )
    pods: PodDiscovery | None = documented(
        "Find the engines and LMCache servers of this node in the Kubernetes API; none: only those that are "
        "listed here.",
        default=None,
    )
    engines: tuple[EngineSettings, ...] = documented("The engines of this node.", default=())
    lmcache: tuple[LmcacheSettings, ...] = documented("The LMCache servers of this node.", default=())
    lmcache_in_process: tuple[InProcessLmcacheSettings, ...] = documented(
        "The LMCaches inside engines of this node.", default=()
    )
    curvine: tuple[CurvineSettings, ...] = documented(
        "The Curvine clusters this node's pods mount.", default=()
    )
    mounts: tuple[MountSettings, ...] = documented("The pools to scan where they are mounted.", default=())
    managed_tier_file: str | None = documented(
        "Shared-memory file of HyperPod's own memory tier, e.g. /host/dev/shm/ai_toolkit_cache: memory held "
        "back and used by no cache server is a finding. None: not looked at.",
        default=None,
    )
    listen_host: str = documented("Address that /metrics binds.", default="127.0.0.1")
    listen_port: int = documented(
        "Port of /metrics; 0 lets the system choose one, which is printed.", default=0
    )
    tls: TlsSettings | None = documented("Serve /metrics over TLS; none: plain HTTP.", default=None)
    feed_endpoint: str = documented("ZMQ address the feed is published on.", default="tcp://127.0.0.1:*")
    feed_replay_endpoint: str = documented("ZMQ address that replays the feed.", default="tcp://127.0.0.1:*")
    feed_keys: FeedServerKeys | None = documented(
        "Encrypt the feed, and let only known collectors read it; none: plain.", default=None
    )
    feed_buffer_bytes: int = documented(
        "Most memory the replayable feed may hold.", default=256 * 1024 * 1024
    )
    poll_seconds: float = documented("Pause between readings of a metrics page.", default=5.0)
    timeout_seconds: float = documented("Longest wait for one reading.", default=3.0)
    otlp_endpoint: str | None = documented(
        "Address that takes spans over OTLP: with http the full one, e.g. http://127.0.0.1:4318/v1/traces; "
        "with grpc without a path, e.g. http://127.0.0.1:4317; https:// for TLS. None: no spans.",
        default=None,
    )
    otlp_metrics_endpoint: str | None = documented(
        "Address that takes every metric over OTLP: with http the full one, e.g. "
        "http://127.0.0.1:4318/v1/metrics; with grpc as for spans. None: metrics are scraped only.",
        default=None,
    )
    otlp_protocol: OtlpProtocol = documented(
        "How spans and metrics travel to both addresses.", default=OtlpProtocol.HTTP
    )
    otlp_interval_seconds: float = documented("Pause between two pushes of the metrics.", default=15.0)
    page_state_file: str | None = documented(
        "File that keeps how far /metrics has counted, on a volume that outlives the exporter: what engines "
        "do while none runs is then counted by the next one, once. None: it is in the store alone.",
        default=None,
    )
    hash_key_file: str | None = documented(
        "File with the key that session ids and cache salts are hashed with; none: a key of this run alone.",
        default=None,
    )
    tenant_series: int = documented(
        "Most tenants, known by their cache salt, that have series of their own on /metrics under its keyed "
        "hash: the heaviest, at most 100; the others are one. 0: nothing is told by tenant. Wants "
        "`hash_key_file`.",
        default=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSource:
    """One exporter's feed."""

    name: str = documented("Name of the exporter.")
    endpoint: str = documented("ZMQ address of its feed.")
    replay_endpoint: str = documented("ZMQ address that replays its feed.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """One model whose cache can be computed before any engine was measured."""

    name: str = documented("Served name of the model.")
    config_file: str = documented("Its `config.json`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Where the running deployments are read from: the Kubernetes API, or files of its objects."""

    namespaces: tuple[str, ...] = documented(
        "Namespaces to watch: those of the endpoints, their gateway and Curvine. Empty: all of them.",
        default=(),
    )
    kubeconfig: str | None = documented(
        "Kubeconfig file; none: the cluster this process runs in, else KUBECONFIG, else ~/.kube/config.",
        default=None,
    )
    context: str | None = documented("Context of the kubeconfig; none: its current one.", default=None)
    manifests: tuple[str, ...] = documented(
        "Files of objects, as `kubectl get -o yaml` writes them, read once instead of the API.", default=()
    )
    exporters: ExporterPods | None = documented(
        "Find the exporters as pods, beside those in `feeds`; none: only those.", default=None
    )
    models: tuple[ModelSettings, ...] = documented(
        "Models whose KV bytes a token are computed while none were measured.", default=()
    )
    objective: Objective = documented(
        "What sizing aims at for the endpoints found.", default_factory=Objective
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """`tierscope collect`: which feeds to store, where, and how often to advise."""

    store_path: str = documented(
        "File of the event store; or the lake that several collectors write, "
        "`ducklake:postgres:dbname=… host=… user=…` (the password is libpq's: `PGPASSFILE`, `PGPASSWORD`).",
        default="tierscope.duckdb",
    )
    lake: LakeSettings = documented("Of a store that is a lake.", default_factory=LakeSettings)
    feeds: tuple[FeedSource, ...] = documented("The exporters to read.", default=())
    feed_keys: FeedClientKeys | None = documented(
        "Read feeds that are encrypted (`exporter.feed_keys`); none: plain ones.", default=None
    )
    socket_path: str | None = documented(
        "Local socket on which readers ask the collector; none: beside the store file.", default=None
    )
    flush_seconds: float = documented(
        "Longest time a received batch waits before it is committed.", default=1.0
    )
    flush_rows: int = documented("Received rows that force a commit earlier.", default=50_000)
    keep_raw_seconds: float = documented(
        "Age at which requests and block events become sums of their hour.", default=30 * 24 * 3600.0
    )
    keep_hourly_seconds: float = documented(
        "Age at which hourly sums are deleted.", default=400 * 24 * 3600.0
    )
    most_store_bytes: int = documented(
        "Most the store may use on disk; the oldest hours are reduced before their time to stay below it.",
        default=50 * 1024**3,
    )
    store_memory_bytes: int = documented(
        "Most memory that DuckDB may use for the store, what it keeps of the file among it; what needs more "
        "goes through the disk.",
        default=1024**3,
    )
    maintain_seconds: float = documented(
        "Pause between two looks at age and size, and between two times that a lake's rows become files and "
        "its small files are joined.",
        default=300.0,
    )
    advise_seconds: float = documented("Pause between two computations of advice.", default=30.0)
    advise_window_seconds: float = documented("Span of history that advice rests on.", default=24 * 3600.0)
    advise_window_bytes: int = documented(
        "Most memory that the requests of an endpoint's history may take, at 8 bytes a block of each prompt "
        "and 128 a request: where the span has more, advice, causes of misses and the regression detector "
        "rest on its newest requests. To work on them takes three times as much beside it.",
        default=512 * 1024**2,
    )
    regress_seconds: float = documented("Pause between two looks of the regression detector.", default=15.0)
    regress_history_seconds: float = documented(
        "Span of stored history that the detector learns from when the collector starts.", default=6 * 3600.0
    )
    listen_host: str = documented("Address that the collector's own /metrics binds.", default="127.0.0.1")
    listen_port: int = documented(
        "Port of the collector's own /metrics; 0 lets the system choose.", default=0
    )
    tls: TlsSettings | None = documented("Serve them over TLS; none: plain HTTP.", default=None)
    otlp_metrics_endpoint: str | None = documented(
        "Address that takes the collector's own metrics over OTLP, as the exporter's; none: they are "
        "scraped only.",
        default=None,
    )
    otlp_protocol: OtlpProtocol = documented("How they travel.", default=OtlpProtocol.HTTP)
    otlp_interval_seconds: float = documented("Pause between two pushes of them.", default=15.0)
    deployments: tuple[Deployment, ...] = documented(
        "The endpoints to advise on; one that Kubernetes has, too, is as it is written here.", default=()
    )
    kubernetes: KubernetesSettings | None = documented(
        "Read the running deployments from Kubernetes; none: those under `deployments` alone.", default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """`tierscope serve`: the HTTP API."""

    listen_host: str = documented("Address the API binds.", default="127.0.0.1")
    listen_port: int = documented(
        "Port of the API; 0 lets the system choose one, which is printed.", default=0
    )
    token_file: str | None = documented(
        "File of callers, a line each: a name, scopes (`read`, `what_if`, `metrics`, joined by commas), and "
        "a token. It is read again when it changes.",
        default=None,
    )
    kubernetes_reviews: bool = documented(
        "Let Kubernetes decide on tokens: who they belong to (TokenReview), and which non-resource paths of "
        "`get /v1`, `post /v1/what-if` and `get /metrics` they may use (SubjectAccessReview).",
        default=False,
    )
    tls_certificate_file: str | None = documented(
        "Certificate (PEM, with its chain) to serve TLS with, read again when it changes; none: plain HTTP.",
        default=None,
    )
    tls_key_file: str | None = documented("Key of the certificate (PEM).", default=None)
    tls_client_ca_file: str | None = documented(
        "Certificates (PEM) of who signs clients' certificates: nobody is answered without one of theirs. "
        "None: clients need none.",
        default=None,
    )
    most_body_bytes: int = documented("Longest body of a request.", default=65_536)
    most_requests: int = documented("Most requests that are answered at a time.", default=64)
    request_seconds: float = documented(
        "Longest time for a request's head, and again for its body, to come in.", default=10.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One settings file; each command reads its own part and ignores the others."""

    exporter: ExporterSettings = documented("Read by `tierscope export`.", default_factory=ExporterSettings)
    collector: CollectorSettings = documented(
        "Read by `tierscope collect` and `tierscope serve`.", default_factory=CollectorSettings
    )
    api: ApiSettings = documented("Read by `tierscope serve`.", default_factory=ApiSettings)
