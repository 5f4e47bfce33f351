"""What an endpoint promises its users about TTFT, as far as a histogram can tell whether it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from tierscope.domain.errors import BadInput
from tierscope.registry.metrics import TIME_TO_FIRST_TOKEN


@dataclass(frozen=True, slots=True)
class TtftObjective:
    """At least `share` of requests have their first token within `seconds`.

    `seconds` is an edge of the histogram's buckets: only there is the share counted, not interpolated.
    """

    seconds: float = 2.0
    share: float = 0.95

    def __post_init__(self) -> None:
        if self.seconds not in TIME_TO_FIRST_TOKEN.buckets:
            edges = ", ".join(f"{edge:g}" for edge in TIME_TO_FIRST_TOKEN.buckets)
            raise BadInput(
                f"no bucket of {TIME_TO_FIRST_TOKEN.name} ends at {self.seconds:g} s: nobody counts who is "
                "late",
                where="the TTFT objective's seconds",
                fix=f"use one of {edges}",
            )
        if not 0 < self.share < 1:
            raise BadInput(
                f"a share of {self.share:g} leaves no budget of late requests, or no promise",
                where="the TTFT objective's share",
                fix="give a share between 0 and 1, for instance 0.95",
            )

    @property
    def budget(self) -> float:
        """Share of requests that may be late."""
        return round(1 - self.share, 9)

    @property
    def edge_pattern(self) -> str:
        """The bucket's `le`, as a regular expression: 2 is written 2.0 by some and 2 by others."""
        text = repr(float(self.seconds))
        whole = text.removesuffix(".0")
        return whole.replace(".", r"\\.") if whole == text else rf"{whole}(\\.0)?"


DEFAULT_OBJECTIVE = TtftObjective()
