"""An exporter of a whole node, of which two sources hang."""

from __future__ import annotations

import pytest

from exporters.process import Exporter
from tests.exporting import Scrape, await_true
from tests.node import ENGINES, running_node
from tierscope.registry import metrics


@pytest.fixture
def node(captures):
    with running_node(captures) as node:
        yield node


def test_two_that_hang_are_named_and_the_others_are_all_there(node):
    """An engine and the FUSE client: the page is answered meanwhile, from what the nine others say."""
    with Exporter(node.settings(poll_seconds=0.05, timeout_seconds=1.0)) as exporter:

        def page():
            return Scrape(exporter.addresses.metrics_url)

        def down():
            return {source for source, up in page().sums(metrics.SOURCE_UP, "source").items() if not up}

        def known():
            return len(page().sums(metrics.CAPACITY_BLOCKS, "holder"))

        await_true(lambda: known() == ENGINES and not down(), "everything was read")
        node.engines[3].hung.add("/metrics")
        node.fuse.hung.add("/metrics")

        await_true(lambda: down() == {node.engine_source(3), node.fuse_source}, "the two were found to hang")

        shown = page()
        assert set(shown.sums(metrics.CAPACITY_BLOCKS, "holder")) == {
            f"ns/chat/pod-{index}/0" for index in range(ENGINES) if index != 3
        }
        assert set(shown.sums(metrics.CAPACITY_BYTES, "tier")) == {"l1", "l2"}
