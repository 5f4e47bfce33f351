"""What boards draw of a recommendation is what the recommendation says."""

from __future__ import annotations

from collectors.advice_figures import advice_figures
from tests import workloads as w
from tests.scenarios.cases.aims import AIMS
from tierscope.advice.recommend import recommend
from tierscope.registry.advice_metrics import (
    ADVISED_CAPACITY_BYTES,
    ADVISED_COST,
    ADVISED_HIT_RATIO,
    GHOST_HIT_RATIO,
    ROUTED_HIT_RATIO,
)

CURVE = {
    "capacity_bytes": [100.0, 200.0, 400.0],
    "hit_ratio": [0.1, 0.3, 0.5],
    "current": {"capacity_bytes": 200.0, "hit_ratio": 0.3},
    "recommended": {"capacity_bytes": 400.0, "hit_ratio": 0.5},
}


def figures(**curves):
    """Values by metric and labels after the endpoint's."""
    found = advice_figures(("ns", "chat"), {"curves": curves})
    return {(one.metric, *one.labels[2:]): one.value for one in found}


def test_a_curve_is_told_at_multiples_of_todays_size():
    """As the document reads it: at the largest measured size below. What is larger than all holds no more."""
    found = figures(l1=CURVE)

    ghosts = {key[1:]: value for key, value in found.items() if key[0] is GHOST_HIT_RATIO}
    assert ghosts == {("l1", "0.5"): 0.1, ("l1", "1"): 0.3, ("l1", "2"): 0.5, ("l1", "4"): 0.5}


def test_a_size_below_the_curve_is_absent():
    """A quarter of today's size is less than anyone measured: no number, and not zero."""
    assert (GHOST_HIT_RATIO, "l1", "0.25") not in figures(l1=CURVE)


def test_today_and_what_is_advised_are_points():
    """With the hit ratio expected at each; without a change there is only today's."""
    found = figures(l1=CURVE, l2={**CURVE, "recommended": None})

    assert found[ADVISED_CAPACITY_BYTES, "l1", "recommended"] == 400.0
    assert found[ADVISED_HIT_RATIO, "l1", "recommended"] == 0.5
    assert found[ADVISED_CAPACITY_BYTES, "l2", "current"] == 200.0
    assert (ADVISED_CAPACITY_BYTES, "l2", "recommended") not in found


def test_advice_without_curves_draws_nothing():
    """Too little evidence is no curve at 0."""
    assert figures() == {}
    assert list(advice_figures(("ns", "chat"), {"status": "insufficient_evidence"})) == []


def costs(document) -> dict[tuple[str, str], float]:
    """What is told of money, by point and currency."""
    found = advice_figures(("ns", "chat"), document)
    return {one.labels[2:]: one.value for one in found if one.metric is ADVISED_COST}


def an_hour(value):
    return {"cost_per_hour": None if value is None else {"value": value, "low": value, "high": value}}


def test_cost_is_todays_and_that_of_all_changes():
    """The last change's figure has those before it in force; prices are in the currency that they say."""
    changes = [{"predicted": an_hour(8.0)}, {"predicted": an_hour(7.5)}]

    found = costs({"current": {**an_hour(9.0), "currency": "EUR"}, "changes": changes})

    assert found == {("current", "EUR"): 9.0, ("recommended", "EUR"): 7.5}


def test_the_costs_of_real_advice_are_found():
    """As the engine of advice writes them: two sizes go down, and so does the cost."""
    case = next(one for one in AIMS if set(one.expected.moves) == {"tier_size:l1", "tier_size:l2"})
    document = recommend(case.made().evidence(), case.deployment(), now_unix_seconds=w.NOW)

    found = costs(document.to_json())

    today, advised = document.current.cost_per_hour, document.changes[-1].predicted.cost_per_hour
    assert found == {("current", "USD"): today.value, ("recommended", "USD"): advised.value}
    assert advised.value < today.value


def test_without_prices_or_changes_there_is_no_such_cost():
    """A change of routing has none of its own."""
    priced = {**an_hour(9.0), "currency": "EUR"}

    assert costs({"current": {**an_hour(None), "currency": None}, "changes": []}) == {}
    assert costs({"current": priced, "changes": []}) == {("current", "EUR"): 9.0}
    assert costs({"current": priced, "changes": [{"predicted": an_hour(None)}]}) == {("current", "EUR"): 9.0}


def test_a_router_that_foretells_nothing_has_no_prediction():
    """What could have been had and what was had are told all the same."""
    routed = {"requests": 10, "best_ratio": 0.5, "predicted_ratio": None, "delivered_ratio": 0.2}

    found = advice_figures(("ns", "chat"), {"routed_hits": routed})

    assert {(one.metric, one.labels[2]): one.value for one in found} == {
        (ROUTED_HIT_RATIO, "best"): 0.5,
        (ROUTED_HIT_RATIO, "delivered"): 0.2,
    }
