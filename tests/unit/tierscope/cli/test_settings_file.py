"""Settings files: types from YAML, and every problem at once."""

from pathlib import Path

import pytest

from tierscope.cli.settings_file import field_path, load_deployment, load_settings, write_settings
from tierscope.domain.deployment import Deployment, Objective, ObjectiveKind, RoutingPolicy, TierConfig
from tierscope.domain.errors import BadSettings
from tierscope.domain.settings import Settings
from tierscope.domain.tiers import Tier
from tierscope.domain.units import GIB

ROOT = Path(__file__).parents[4]

SETTINGS = """
exporter:
  name: node-1
  engines:
  - {namespace: ns, endpoint: chat, replica: pod-0, hook_endpoint: "tcp://127.0.0.1:5600", lmcache: mp}
  lmcache:
  - {name: mp, url: "http://127.0.0.1:8080", pool: curvine}
  curvine:
  - {name: curvine, master_urls: ["http://127.0.0.1:9000"]}
  feed_buffer_bytes: 64 MiB
collector:
  advise_seconds: 5
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text: str, name: str = "settings.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def problems_of(path: Path) -> list[tuple[str, str]]:
    """Each problem's place (without the file) and sentence."""
    with pytest.raises(BadSettings) as caught:
        load_settings(path)
    return [(p.where.removeprefix(f"{path}").removeprefix(", "), p.what) for p in caught.value.problems]


def test_a_settings_file_becomes_the_frozen_types(write):
    """Nested lists, defaults and sizes written with units all arrive as the types say."""
    settings = load_settings(write(SETTINGS))

    assert settings.exporter.engines[0].hook_endpoint == "tcp://127.0.0.1:5600"
    assert settings.exporter.feed_buffer_bytes == 64 * 1024 * 1024
    assert settings.collector.advise_seconds == 5.0
    assert settings.api.listen_host == "127.0.0.1"


def test_the_example_in_the_docs_is_a_settings_file():
    """It loads, every part of it is used, and engine, server, pool and mount are joined by name."""
    settings = load_settings(ROOT / "docs" / "settings-example.yaml")

    exporter = settings.exporter
    assert {engine.lmcache for engine in exporter.engines} == {server.name for server in exporter.lmcache}
    pools = {cluster.name for cluster in exporter.curvine}
    assert {server.pool for server in exporter.lmcache} == {mount.pool for mount in exporter.mounts} == pools
    assert [feed.name for feed in settings.collector.feeds] == [exporter.name]
    (deployment,) = settings.collector.deployments
    assert {tier.tier for tier in deployment.tiers} == set(Tier)


def test_an_empty_file_means_the_defaults(write):
    """A file without a line is a settings file in which nothing was changed."""
    assert load_settings(write("")) == Settings()


def test_the_defaults_written_out_are_a_settings_file(tmp_path):
    """No default is refused: our own commands hand their children settings that way."""
    write_settings(Settings(), tmp_path / "settings.yaml")

    assert load_settings(tmp_path / "settings.yaml") == Settings()


def test_all_problems_are_listed_with_their_fields(write):
    """Wrong spelling, missing field, wrong type, out of range: one run names what it can see at once."""
    text = """
exporter:
  engnes: []
  poll_seconds: "5"
  engines: [{namespace: a, endpoint: b}]
collector:
  deployments: [{namespace: n, endpoint: e, model: m, replicas: 1, tiers: [{tier: l9, capacity_bytes: 1}]}]
"""

    found = dict(problems_of(write(text)))

    assert found == {
        "exporter.engnes": "'engnes' is not a setting",
        "exporter.poll_seconds": '"5" cannot be used here',
        "exporter.engines[0].replica": "'replica' is required and missing",
        "collector.deployments[0].tiers[0].tier": '"l9" cannot be used here',
    }


def test_duckdb_is_given_enough_to_fold_its_log_into_the_file(write):
    """With less it would end a store's connection."""
    assert dict(problems_of(write("collector: {store_memory_bytes: 255 MiB}"))) == {
        "collector.store_memory_bytes": "267386880 cannot be used here",
    }
    assert (
        load_settings(write("collector: {store_memory_bytes: 256 MiB}")).collector.store_memory_bytes == 2**28
    )


def test_a_near_spelling_is_offered(write):
    """The fix for an unknown field names the field that was probably meant."""
    with pytest.raises(BadSettings) as caught:
        load_settings(write("exporter: {engnes: []}"))

    assert caught.value.fix == "did you mean 'engines'?"


def test_a_pool_can_be_one_that_is_only_mounted(write):
    """A server's pool is found among the mounts too; a pool is scanned once."""
    text = """
exporter:
  lmcache: [{name: one, url: "http://one", pool: plain}, {name: two, url: "http://two", pool: nowhere}]
  mounts: [{pool: plain, path: /a}, {pool: twice, path: /b}, {pool: twice, path: /c, scan_seconds: 0}]
"""

    assert dict(problems_of(write(text))) == {
        "exporter.lmcache[1].pool": "nothing is named 'nowhere'",
        "exporter.mounts": "the name 'twice' is used 2 times",
        "exporter.mounts[2].scan_seconds": "0.0 cannot be used here",
    }


def test_lmcache_inside_an_engine_has_a_name_among_servers_and_one_address_a_worker(write):
    """Its engine names it as it would a server."""
    text = """
exporter:
  engines: [{namespace: a, endpoint: b, replica: r, lmcache: inside}]
  lmcache: [{name: one, url: "http://one"}]
  lmcache_in_process:
  - {name: inside, workers: 2, storage_endpoints: ["tcp://w0", "tcp://w1"], storage_replay_endpoints: ["tcp://w2"]}
  - {name: one, pool: nowhere}
"""

    assert dict(problems_of(write(text))) == {
        "exporter.lmcache": "the name 'one' is used 2 times",
        "exporter.lmcache_in_process[0].storage_replay_endpoints": "1 addresses for 2 workers",
        "exporter.lmcache_in_process[1].pool": "nothing is named 'nowhere'",
    }


def test_values_out_of_range_and_names_that_meet_nothing_are_named(write):
    """Ranges follow from the unit in the name; a reference to a server must find it in the file."""
    text = """
exporter:
  poll_seconds: 0
  listen_port: 70000
  engines: [{namespace: a, endpoint: b, replica: r, lmcache: nowhere}]
  curvine: [{name: p, master_urls: []}, {name: p, master_urls: []}]
"""

    found = dict(problems_of(write(text)))

    assert found == {
        "exporter.poll_seconds": "0.0 cannot be used here",
        "exporter.listen_port": "70000 cannot be used here",
        "exporter.engines[0].lmcache": "nothing is named 'nowhere'",
        "exporter.curvine": "the name 'p' is used 2 times",
    }


def test_what_must_be_told_apart_has_names_of_its_own(write):
    """An engine listed twice would be counted twice; two feeds of one name are one exporter's."""
    found = problems_of(
        write(
            """
            exporter:
              engines:
                - {namespace: a, endpoint: b, replica: c}
                - {namespace: a, endpoint: b, replica: c}
                - {namespace: a, endpoint: b, replica: c, rank: 1}
            collector:
              feeds:
                - {name: n, endpoint: "tcp://127.0.0.1:1", replay_endpoint: "tcp://127.0.0.1:2"}
                - {name: n, endpoint: "tcp://127.0.0.1:3", replay_endpoint: "tcp://127.0.0.1:4"}
            """
        )
    )

    assert dict(found) == {
        "exporter.engines": "the name 'a/b/c/0' is used 2 times",
        "collector.feeds": "the name 'n' is used 2 times",
    }


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("- a", "", "the file holds list, not fields with values"),
        ("api: {listen_port: 1}\napi: {}", "line 2", "the file is not valid YAML: 'api' is written twice"),
        ("api: [", "line 1", "the file is not valid YAML"),
        ("api: 2024-13-45", "", "a value of the file cannot be read: month must be in 1..12"),
        ("api: " + 5000 * "[", "", "a value of the file cannot be read: maximum recursion depth"),
        ("api: &itself [*itself]", "", "a value of the file cannot be used: maximum recursion depth"),
        ("api: 0x" + 5000 * "f", "", "a value of the file cannot be used: Exceeds the limit"),
    ],
    ids=["list", "twice", "broken", "no date", "too deep", "in itself", "endless"],
)
def test_a_file_that_is_no_mapping_is_refused(write, text, where, what):
    """Lists, doubled keys and broken YAML are each one clear problem with a line where there is one."""
    [(place, sentence)] = problems_of(write(text))

    assert place == where
    assert sentence.startswith(what)


def test_a_missing_file_is_a_settings_problem(tmp_path):
    """The path and the system's reason are in the message; the exit status is that of wrong usage."""
    with pytest.raises(BadSettings) as caught:
        load_settings(tmp_path / "absent.yaml")

    assert "No such file" in caught.value.what
    assert caught.value.exit_status == 2


def test_a_deployment_file_becomes_a_deployment(write):
    """Tiers, routing and objective are read; sizes may carry units."""
    text = """
namespace: ns
endpoint: chat
model: qwen
replicas: 2
routing: prefixaware
tiers:
- {tier: l1, capacity_bytes: 96 GiB, limit_bytes: 120GiB}
objective: {target: 0.9}
"""

    deployment = load_deployment(write(text))

    assert deployment.routing is RoutingPolicy.PREFIXAWARE
    assert deployment.tier(Tier.L1) == TierConfig(Tier.L1, 96 * GIB, 120 * GIB)
    assert deployment.objective == Objective(target=0.9)


def deployment_with(objective: str, folder) -> Deployment:
    path = folder / "deployment.yaml"
    path.write_text(
        f"namespace: ns\nendpoint: chat\nmodel: m\nreplicas: 1\nobjective: {objective}\n", encoding="utf-8"
    )
    return load_deployment(path)


def test_an_objective_in_seconds_or_money_may_be_above_one(tmp_path):
    """1.5 seconds are a TTFT; prices and what of the engine may change come with it."""
    text = (
        "{kind: lowest_cost, target: 1.5, ttft: p50, prices: {host_gib_per_hour: 0.005, instances: "
        "[{name: ml.example, price_per_hour: 4.0, gpu_memory_bytes: 45 GiB}]}, engine: {cache_dtypes: [fp8]}}"
    )
    objective = deployment_with(text, tmp_path).objective

    assert (objective.kind, objective.target) == (ObjectiveKind.LOWEST_COST, 1.5)
    assert objective.prices.instance("ml.example").gpu_memory_bytes == 45 * 2**30
    assert objective.engine.cache_dtypes == ("fp8",)


@pytest.mark.parametrize(
    "text",
    [
        "{target: 1.5}",
        "{kind: hit_ratio, target: 1.5}",
        "{kind: lowest_ttft, target: 0}",
        "{prices: {uncertainty_ratio: 1.0}}",
        "{engine: {gpu_memory_ratios: [1.2]}}",
    ],
)
def test_an_objective_without_meaning_is_refused(text, tmp_path):
    """A hit ratio is at most 1, a budget more than nothing, a price not off by all of itself."""
    with pytest.raises(BadSettings, match="cannot be used here"):
        deployment_with(text, tmp_path)


def test_field_paths_read_as_people_write_them():
    """Indices in brackets, names with dots."""
    assert field_path(("exporter", "engines", 0, "rank")) == "exporter.engines[0].rank"
