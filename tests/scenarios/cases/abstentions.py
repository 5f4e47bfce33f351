"""Evidence that carries no number: the answer says what is missing, and gives none."""

from __future__ import annotations

from tests.scenarios.scenario import Expected, Scenario
from tests.scenarios.traffic import changing, cycle, popular
from tierscope.advice.document import FindingKind, Status


def abstains(missing: str, *findings: FindingKind) -> Expected:
    """No change, and these words among what is missing."""
    return Expected(Status.INSUFFICIENT_EVIDENCE, findings=frozenset(findings), missing=missing)


ABSTENTIONS = (
    Scenario(
        "UD-48: no events yet",
        abstains("requests in the window", FindingKind.LOW_TRAFFIC),
        traffic=cycle(40, seen=0),
        seen=0,
        l1=80,
        loses=None,
    ),
    Scenario(
        "too little data: a hundred requests",
        abstains("requests in the window", FindingKind.LOW_TRAFFIC),
        traffic=cycle(40, seen=100),
        seen=100,
        l1=80,
    ),
    Scenario(
        "UD-54: a quiet night, in which the few requests were slow",
        abstains("requests in the window", FindingKind.LOW_TRAFFIC),
        traffic=cycle(10, seen=20),
        seen=20,
        l1=80,
        seconds=(10.0, 1e-3, 1e-4, 1e-4),
    ),
    Scenario(
        "the workload drifts too far",
        abstains("shift of hit ratio", FindingKind.DRIFT),
        traffic=changing(),
        l1=400,
    ),
    Scenario(
        "incomplete events: a tenth of the records lost",
        abstains("records that arrived", FindingKind.INCOMPLETE_EVENTS),
        l1=80,
        loses=0.1,
    ),
    Scenario(
        "nobody tells how complete the records are", abstains("no source reports it"), l1=80, loses=None
    ),
    Scenario(
        "nobody tells how large a token is",
        abstains("bytes a token takes"),
        l1=80,
        deployed={"bytes_per_token": None},
    ),
    Scenario(
        "engines hit half of what the model says",
        abstains("difference of modelled and observed", FindingKind.MODEL_DISAGREES),
        l1=160,
        kept={"l1": 0.5},
    ),
    Scenario(
        "the size asked for was never filled",
        abstains("filled before measuring began"),
        traffic=popular(2000, 0.3),
        l1=500,
    ),
    Scenario("a deployment without L1 and L2", abstains("a tier L1 or L2")),
)
