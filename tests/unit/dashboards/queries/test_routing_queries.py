"""Balance and hits over replicas are right at known inputs."""

from __future__ import annotations

import pytest

from dashboards.queries import routing
from dashboards.rules.recording import NEW_ENGINES
from tests.promtool_cases import chosen, engine, series, tokens
from tests.rule_mutants import RULES
from tierscope.registry.advice_metrics import ROUTED_HIT_RATIO
from tierscope.registry.block_metrics import UNASKED_TOKENS
from tierscope.registry.metrics import REQUESTS, TIME_TO_FIRST_TOKEN
from tierscope.registry.miss_metrics import MISS_TOKENS

pytestmark = pytest.mark.system

A, B, C = (f'{{namespace="ns",endpoint="chat",replica="chat-{number}"}}' for number in range(3))


def served(*growths: int, status: str = "served") -> list[dict[str, str]]:
    """Replicas that serve so many requests a minute each."""
    return [
        series(REQUESTS, f"0+{growth}x20", **engine(f"chat-{number}"), status=status)
        for number, growth in enumerate(growths)
    ]


def test_balance_is_the_busiest_over_the_mean(promtool):
    """One of three replicas does half of it: 1.5 times the mean. A replica that serves nothing counts too."""
    busiest = routing.busiest_over_mean(routing.requests())

    promtool.check(served(60, 30, 30), chosen(busiest), {'{namespace="ns",endpoint="chat"}': 1.5})
    promtool.check(served(60, 0), chosen(busiest), {'{namespace="ns",endpoint="chat"}': 2})


def test_without_requests_there_is_no_balance(promtool):
    """Idle replicas are neither balanced nor not."""
    promtool.check(served(0, 0), chosen(routing.busiest_over_mean(routing.requests())), {})


def test_only_requests_that_were_served_are_load(promtool):
    """What was aborted or preempted is told by itself."""
    inputs = [*served(60), *served(120, status="aborted")]

    promtool.check(inputs, chosen(routing.requests()), {A: 1})
    promtool.check(inputs, chosen(routing.by_status()), {'{status="aborted"}': 2})


def test_the_cached_share_of_each_replica_rests_on_its_own_tokens(promtool):
    """Quantiles over replicas tell a cold one; the ends have names."""
    inputs = [
        *tokens("chat-0", l0=90, computed=10),
        *tokens("chat-1", l0=50, computed=50),
        *tokens("chat-2", computed=100),
    ]

    promtool.check(inputs, chosen(routing.cached_ratio()), {A: 0.9, B: 0.5, C: 0})
    promtool.check(inputs, chosen(routing.share_of_replicas(0.5, routing.cached_ratio())), {"{}": 0.5})
    promtool.check(inputs, chosen(routing.least(1, routing.cached_ratio())), {C: 0})
    promtool.check(inputs, chosen(routing.most(1, routing.computed_tokens())), {C: 100 / 60})
    unasked = [*tokens("chat-3", l0=50, computed=250), series(UNASKED_TOKENS, "0+200x20", **engine("chat-3"))]
    promtool.check(unasked, f"max({chosen(routing.cached_ratio())})", {"{}": 0.5})


def test_hits_on_the_node_are_of_all_hits(promtool):
    """Computed tokens are no question of where hits were found; those of an unknown tier are hits."""
    inputs = tokens(l0=50, l1=10, l2=30, external=10, computed=900)

    promtool.check(inputs, chosen(routing.found_here_ratio()), {"{}": 0.6})


def test_mean_ttft_of_a_replica_is_of_its_own_requests(promtool):
    """A sum over a count, by replica; without requests there is none."""
    inputs = [
        series(TIME_TO_FIRST_TOKEN, values, part=part, **engine(replica), served_from="l0")
        for replica, part, values in (
            ("chat-0", "_sum", "0+30x20"), ("chat-0", "_count", "0+60x20"),
            ("chat-1", "_sum", "7x20"), ("chat-1", "_count", "7x20"),
        )
    ]  # fmt: skip

    promtool.check(inputs, chosen(routing.mean_ttft()), {A: 0.5})


def test_replicas_that_serve_are_counted(promtool):
    """One that is there and gets nothing is not among them."""
    promtool.check(
        served(60, 0, 1), chosen(routing.replicas_that_serve()), {'{namespace="ns",endpoint="chat"}': 2}
    )


def routed(cluster: str, **by_point: float) -> list[dict[str, str]]:
    """What routing was found to hit, as the Prometheus of several clusters has it."""
    owner = {"namespace": "ns", "endpoint": "chat", "cluster": cluster}
    return [
        series(ROUTED_HIT_RATIO, f"{value}x20", **owner, point=point) for point, value in by_point.items()
    ]


def test_a_cluster_is_held_against_itself(promtool):
    """Endpoints of one name in two clusters: what one lost is no difference between the two."""
    inputs = [*routed("a", best=0.9, predicted=0.8, delivered=0.65), *routed("b", best=0.5, delivered=0.3)]
    a, b = (f'{{cluster="{name}",namespace="ns",endpoint="chat"}}' for name in "ab")

    promtool.check(inputs, chosen(routing.nowhere()), {a: 0.1, b: 0.5})
    promtool.check(inputs, chosen(routing.lost_by_pick()), {a: 0.1, b: 0.2})
    promtool.check(inputs, chosen(routing.lost_by_belief()), {a: 0.15})


def test_shares_and_new_engines_are_of_a_cluster(promtool):
    """Neither is pooled over endpoints that have nothing in common but their name."""
    owner = {"namespace": "ns", "endpoint": "chat"}
    computed = [
        series(MISS_TOKENS, f"0+{growth}x20", cluster=cluster, cause=cause, **owner)
        for cluster, cause, growth in (("a", "routing", 30), ("a", "new", 30), ("b", "new", 60))
    ]
    new = [
        {"series": f'{NEW_ENGINES.record}{{cluster="{cluster}",namespace="ns",endpoint="chat",model="m"}}'}
        | {"values": f"{count}x20"}
        for cluster, count in (("a", 1), ("b", 2))
    ]
    a, b = (f'{{cluster="{name}",namespace="ns",endpoint="chat"}}' for name in "ab")

    promtool.check(computed, chosen(routing.computed_for_routing()), {a: 0.5}, rule_files=(str(RULES),))
    promtool.check(new, chosen(routing.new_engines()), {a: 1, b: 2})
