"""Two replicas with a shared pool are measured: each tier is reached, and what was not is in no figure."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from tests.fake_replicas import BYTES_PER_TOKEN, CHUNK_TOKENS, SECONDS, Cluster, FakeReplica, serving
from tierscope.cli.main import app
from tierscope.cli.measuring.plan import Emptying, Plan, Stage
from tierscope.cli.measuring.plot import page
from tierscope.cli.measuring.published import SWEEP, nearest
from tierscope.cli.measuring.run import Runner
from tierscope.cli.measuring.summary import Units, summarise
from tierscope.cli.measuring.table import lines
from tierscope.cli.measuring.witness import Hearing

LENGTHS = (640, 1000, 2000)
REPEATS = 3
PROMPTS = len(LENGTHS) * REPEATS


class Counted:
    """A witness of both replicas, as an exporter is; `strangers` are tokens of other traffic a look."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.strangers = 0

    def read(self, replica):
        self.cluster.tokens["computed"] += self.strangers
        return dict(self.cluster.tokens)


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def replicas(cluster):
    return FakeReplica(cluster), FakeReplica(cluster)


@pytest.fixture
def measured(cluster, replicas):
    """Measure without HTTP; timings are the model's own, and the clock is nobody's."""

    def measure(*, witness=True, l0_tokens=10_000, clear_l1=None, **fields):
        plan = Plan(**{"lengths": LENGTHS, "repeats": REPEATS, "settle_seconds": 0.0, **fields})
        hearing = Hearing(Counted(cluster), sleep=lambda seconds: None) if witness is True else witness
        runner = Runner(
            plan=plan,
            replicas=replicas,
            hearing=hearing,
            l0_tokens=l0_tokens,
            tell=lambda what: None,
            loads=lambda: (cluster.loads["seconds"], cluster.loads["bytes"]),
            clear_l1=clear_l1,
        )
        disturbed = hearing.disturbed if hearing else 0
        return summarise(plan, runner.run(), Units(CHUNK_TOKENS, None), disturbed=disturbed)

    return measure


def medians(document, stage):
    return [row[stage]["ttft_seconds"]["value"] for row in document["lengths"]]


def test_every_tier_is_reached_and_timed(measured):
    """Cold, L0, L1 after filler, and L2 as the other replica wrote it; nothing came from elsewhere."""
    document = measured()

    assert document["not_as_meant"] == []
    assert [[row[stage]["timings"] for stage in Stage] for row in document["lengths"]] == [[REPEATS] * 4] * 3
    assert medians(document, "cold") == pytest.approx(
        [SECONDS["fixed"] + length * SECONDS["computed"] for length in LENGTHS]
    )
    for length, l1, l2 in zip(LENGTHS, medians(document, "l1"), medians(document, "l2"), strict=True):
        whole = length - 1 if length % CHUNK_TOKENS == 0 else length // CHUNK_TOKENS * CHUNK_TOKENS
        rest = SECONDS["fixed"] + (length - whole) * SECONDS["computed"]
        assert l1 == pytest.approx(rest + whole * SECONDS["l1"])
        assert l2 == pytest.approx(rest + whole * SECONDS["l2"] + SECONDS["load"])
    assert document["best_speedup"]["prompt_tokens"] == 2000
    assert document["tokens_differ"] == 0


def test_cross_replica_hits_are_counted_by_tokens_and_whole_chunks(measured):
    """640 tokens are ten chunks of which one token is computed; of 1,000 there are 15, of 2,000 31."""
    hits = measured()["cross_replica"]

    assert hits["asked_tokens"] == REPEATS * 3640
    assert hits["hit_tokens"] == REPEATS * (639 + 960 + 1984)
    assert (hits["asked_chunks"], hits["hit_chunks"]) == (REPEATS * 56, REPEATS * 56)
    assert hits["chunk_hit_ratio"] == 1.0
    assert hits["tier_known"]


def test_loads_from_l2_have_seconds_and_bytes(measured):
    """As the cache servers counted them while the other replica was asked."""
    load = measured()["l2_load"]

    tokens = REPEATS * (639 + 960 + 1984)
    seconds = tokens * SECONDS["l2"] + PROMPTS * SECONDS["load"]
    assert load["tokens"] == tokens
    assert load["seconds"] == pytest.approx(seconds)
    assert load["bytes"] == tokens * BYTES_PER_TOKEN
    assert load["bytes_per_second"] == pytest.approx(tokens * BYTES_PER_TOKEN / seconds)


def test_break_even_is_where_computing_costs_what_loading_does(measured):
    """20 ms once against 0.17 ms a token: at 118 tokens, give or take the tails that are computed."""
    crossing = measured()["break_even_tokens"]

    assert crossing["value"] == pytest.approx(118, abs=40)


def test_a_pool_that_shares_nothing_shows_no_hit(cluster, measured):
    """The other replica computes all; no timing of L2, and no speed-up is made of it."""
    cluster.chunks_stored = False

    document = measured()

    assert document["cross_replica"]["hit_tokens"] == 0
    assert document["break_even_tokens"] is None
    assert {(one["stage"], one["served_from"], one["timings"]) for one in document["not_as_meant"]} == {
        ("l1", "computed", PROMPTS),
        ("l2", "computed", PROMPTS),
    }
    assert all(row["l2"]["speedup"] is None for row in document["lengths"])


def test_a_seed_that_was_used_before_is_not_cold(measured):
    """Run again it finds all prompts: they are left out by name instead of making computing look fast."""
    measured()

    document = measured()

    cold = next(one for one in document["not_as_meant"] if one["stage"] == "cold")
    assert cold["timings"] == PROMPTS
    assert all(row["cold"]["ttft_seconds"] is None for row in document["lengths"])
    assert measured(seed=2)["not_as_meant"] == []


def test_the_other_replicas_l1_can_be_cleared_first(replicas, measured):
    """Else a prompt it was asked before comes from its own memory, and is left out."""
    measured()
    replicas[1].reset_l0()
    assert {one["served_from"] for one in measured()["not_as_meant"] if one["stage"] == "l2"} == {"l1"}

    replicas[1].reset_l0()
    document = measured(clear_l1=replicas[1].clear_l1)

    assert not any(one["stage"] == "l2" for one in document["not_as_meant"])


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"emptying": Emptying.NONE}, "not to be emptied"), ({"l0_tokens": None}, "--l0-tokens")],
)
def test_without_a_way_to_empty_l0_there_is_no_l1(measured, fields, why):
    """It says so; the other tiers are measured."""
    document = measured(**fields)

    assert why in document["left_out"]["l1"]
    assert document["cross_replica"]["chunk_hit_ratio"] == 1.0


def test_l0_can_be_emptied_by_its_endpoint(replicas, measured):
    """No filler is asked then."""
    document = measured(emptying=Emptying.ENDPOINT)

    assert document["not_as_meant"] == []
    assert len(replicas[0].asked) == 2 + 3 * PROMPTS


def test_other_traffic_is_noticed(cluster, replicas):
    """What the counters grew by is not the prompt's alone: nothing is told of it."""
    witness = Counted(cluster)
    hearing = Hearing(witness, sleep=lambda seconds: None)
    witness.strangers = 7

    hearing.begin(0)
    replicas[0].ask(range(100), 1)

    assert hearing.end(0, 100) is None
    assert hearing.disturbed == 1


def test_without_a_witness_the_engines_own_word_counts(measured):
    """Cached tokens of a tier that nobody names; it says what to add."""
    document = measured(witness=None)

    assert document["cross_replica"]["chunk_hit_ratio"] == 1.0
    assert not document["cross_replica"]["tier_known"]
    assert any("give --exporter" in line for line in lines(document))


def test_the_published_figures_stand_beside_the_measured_ones(measured):
    """Each length with the published one within a tenth; 2.70 is the post's best."""
    document = measured(lengths=(600, 1080, 2000))

    assert max(round(row.speedup, 2) for row in SWEEP) == 2.70
    assert nearest(5000) is None
    shown = [row["published_speedup"] for row in document["lengths"]]
    assert shown == [None, pytest.approx(1.69, abs=0.005), pytest.approx(2.37, abs=0.005)]
    told = "\n".join(lines(document))
    assert "published: 100%" in told
    assert "up to 2.70 (A10G)" in told
    assert "55.8 ms for 1,925 tokens" in told


def test_the_plot_is_one_page_of_its_own(measured):
    """Four lines and two published ones; it loads nothing from anywhere."""
    text = page(measured())

    assert len(re.findall("<polyline", text)) == 6
    assert text.count("stroke-dasharray") == 2
    assert "src=" not in text
    assert "href=" not in text


@pytest.fixture
def command(cluster, replicas):
    """Run the command against both replicas over HTTP; its JSON document and exit status."""
    with serving(cluster, *replicas) as urls:

        def run(*arguments, status=0):
            addresses = [part for url in urls for part in ("--url", url)]
            fixed = ["--lengths", "640,1000", "--repeats", "2", "--settle", "0", "--chunk-tokens", "64"]
            filled = [argument.format(a=urls[0], b=urls[1]) for argument in arguments]
            result = CliRunner().invoke(app, ["measure", *addresses, *fixed, *filled])
            assert result.exit_code == status, result.output
            return result.stdout

        yield run


WITNESSES = {
    "exporter": ("--exporter", "{a}/exporter/metrics"),
    "lmcache": ("--cache-url", "{a}/cache-server", "--cache-url", "{b}/cache-server"),
}


@pytest.mark.parametrize("witness", WITNESSES)
def test_over_http_the_tiers_are_told_by_an_exporter_or_by_lmcache(command, witness):
    """Both tell the same hits, tokens and chunks; prompts are token ids, so they are as long as asked."""
    document = json.loads(command(*WITNESSES[witness], "--json"))

    hits = document["cross_replica"]
    assert (hits["hit_tokens"], hits["asked_tokens"]) == (2 * (639 + 960), 2 * 1640)
    assert hits["tier_known"]
    assert document["not_as_meant"] == []
    assert document["tokens_differ"] == 0
    assert (document["l2_load"]["bytes"] is not None) == (witness == "exporter")


def test_the_commands_table_and_page_are_written(command, tmp_path):
    """Without --json it is for people."""
    out = command("--html", str(tmp_path / "plot.html"), "--empty-l0", "endpoint")

    assert "cross-replica hits" in out
    assert "<svg" in (tmp_path / "plot.html").read_text("utf-8")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--url", "http://third"),
        ("--cache-url", "http://one"),
        ("--clear-l1",),
        ("--lengths", "many"),
        ("--token-range", "9:3"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(command, arguments):
    """Before anything is asked."""
    command(*arguments, status=2)
