"""What the other numbers rest on: what can be read, what arrived, what was lost.

A source is named kind:owner. Hundreds of engines are hundreds of sources: kinds are drawn, single sources
are listed only where something is wrong with them.
"""

from __future__ import annotations

from dashboards.promql import ALL, AnyOf, Matcher, gauge, rate, sum_by
from dashboards.variables import HERE
from tierscope.registry.metrics import COMPLETENESS, SOURCE_MESSAGES, SOURCE_UP

LOST = AnyOf("missing|undecodable")


def by_kind(expression: str) -> str:
    """An expression over sources with the kind of each as a label of its own."""
    return f'label_replace({expression}, "kind", "$1", "source", "([^:]+):.*")'


def kinds_up() -> str:
    """1 where every exporter reads every source of a kind well, 0 where one does not."""
    return f"min by (kind) ({by_kind(gauge(SOURCE_UP, HERE))})"


def sources_down(most: int) -> str:
    """The sources that some exporter does not read well, so many of them by name."""
    return f"topk({most}, min by (source) ({gauge(SOURCE_UP, HERE)}) == 0)"


def completeness_by_kind(source: Matcher = ALL) -> str:
    """The least share of a stream that anyone received, of each kind of source."""
    return f"min by (kind) ({by_kind(gauge(COMPLETENESS, HERE, source=source))})"


def least_complete(most: int) -> str:
    """The sources of whose streams the least was received, where it is not all."""
    return f"bottomk({most}, min by (source) ({gauge(COMPLETENESS, HERE)}) < 1)"


def lost_by_kind() -> str:
    """Units of streams a second that were lost or could not be read, where there are any."""
    return f"{sum_by(by_kind(rate(SOURCE_MESSAGES, HERE, result=LOST)), 'kind', 'result')} > 0"


def lost_messages(most: int) -> str:
    """The same for the sources that lose most."""
    lost = sum_by(rate(SOURCE_MESSAGES, HERE, result=LOST), "source", "result")
    return f"topk({most}, {lost} > 0)"
