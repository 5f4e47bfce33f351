"""The memory that HyperPod's own tier holds back on a node."""

from __future__ import annotations

import pytest

from exporters.managed_tier import ManagedSuspect, ManagedTierSource
from exporters.pools import ManagedTier
from tierscope.domain.errors import SourceUnreadable
from tierscope.domain.units import MIB


@pytest.fixture
def memory(tmp_path):
    """Sixteen MiB reserved, of which a page was written."""
    path = tmp_path / "ai_toolkit_cache"
    with path.open("wb") as file:
        file.write(b"x")
        file.truncate(16 * MIB)
    return path


def findings(memory, **used):
    return ManagedTierSource(str(memory), ManagedTier(used)).read(None, 1.0).findings


def test_memory_that_no_cache_uses_is_told_with_what_was_ever_written(memory):
    """Both servers of the node have another L2."""
    (finding,) = findings(memory, one=False, two=False)

    assert finding.kind == ManagedSuspect.UNUSED
    assert "16.0 MiB of host memory" in finding.error.what
    assert "none of the 2 caches" in finding.error.what
    written = finding.error.what.partition("of which ")[2].partition(" were")[0]
    assert written.endswith("KiB")


def test_memory_that_a_cache_uses_or_that_nobody_can_judge_is_not_accused(memory):
    """One of two uses it; or no cache of the node is read."""
    assert findings(memory, one=False, two=True) == []
    assert findings(memory) == []


def test_without_its_file_the_tier_cannot_be_seen(tmp_path):
    """The source is down: it may be switched off, or not mounted."""
    with pytest.raises(SourceUnreadable, match="cannot be seen"):
        findings(tmp_path / "nothing", one=False)
