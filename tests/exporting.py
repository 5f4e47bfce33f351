"""A running exporter as a test sees it: its page, its feed, and patience."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections import defaultdict
from contextlib import closing

from prometheus_client.parser import text_string_to_metric_families

from tierscope.domain.batch import FeedBatch
from tierscope.domain.events import LedgerEntry
from tierscope.domain.requests import TokenSplit
from tierscope.feed.feed_subscriber import FeedSubscriber
from tierscope.registry.types import Metric

PATIENCE_SECONDS = 120.0


def await_true(condition, what, *, patience_seconds=PATIENCE_SECONDS):
    """Return once the condition holds; fail, saying what was waited for, when patience ends."""
    deadline = time.monotonic() + patience_seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


class Scrape:
    """One reading of an exporter's page, by the reference parser; `context` is the client's TLS."""

    def __init__(self, url: str, *, context: ssl.SSLContext | None = None) -> None:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS, context=context) as answer:
            self.text = answer.read().decode("utf-8")
        self._values = defaultdict(dict)
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                self._values[sample.name][tuple(sorted(sample.labels.items()))] = sample.value

    def sums(self, metric: Metric, *labels: str, **where: str) -> dict:
        """Values of a metric summed by the given labels, over the series that match `where`."""
        found = defaultdict(float)
        for pairs, value in self._values[metric.name].items():
            series = dict(pairs)
            if where.items() <= series.items():
                found[tuple(series[label] for label in labels)] += value
        return {key if len(key) != 1 else key[0]: value for key, value in found.items()}

    def split(self, metric: Metric) -> TokenSplit:
        """The token split that a metric shows, over all engines."""
        parts = {origin: int(value) for origin, value in self.sums(metric, "tier").items()}
        return TokenSplit(sum(parts.values()), **parts)


def first_batches(exporter, count: int) -> list[LedgerEntry]:
    """The entries of the first batches of an exporter's feed."""
    return [entry for batch in first_feed_batches(exporter, count) for entry in batch.entries]


def first_feed_batches(exporter, count: int) -> list[FeedBatch]:
    """The first batches of an exporter's feed."""
    addresses = exporter.addresses
    batches: list[FeedBatch] = []
    with closing(
        FeedSubscriber("test", addresses.feed_endpoint, addresses.feed_replay_endpoint, after=None)
    ) as subscriber:

        def drained():
            batches.extend(subscriber.receive(0.1))
            return len(batches) >= count

        await_true(drained, f"{count} batches of the feed were read")
    assert all(isinstance(batch, FeedBatch) for batch in batches)
    return batches[:count]
