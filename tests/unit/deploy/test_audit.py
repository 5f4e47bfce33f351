"""The audit finds what an advisory is about, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from tests.manifests import ROOT

PINNED = re.search(r"^pyyaml==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE | re.IGNORECASE)


def audit(tmp_path, *, events=(), versions=(), **fields):
    """Run it on a database of one advisory."""
    folder = tmp_path / "vulns" / "pyyaml"
    folder.mkdir(parents=True)
    affected = {
        "package": {"name": "PyYAML", "ecosystem": "PyPI"},
        "versions": list(versions),
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
    }
    (folder / "PYSEC-1.yaml").write_text(yaml.safe_dump({"id": "PYSEC-1", "affected": [affected], **fields}))
    command = [sys.executable, ROOT / ".ci/audit-dependencies", tmp_path]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "said",
    [
        {"events": [{"introduced": "0"}]},
        {"events": [{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "5.0"}]},
        {"events": [{"introduced": "0"}, {"last_affected": "999"}]},
        {"versions": [PINNED[1].rstrip("\\")]},
    ],
)
def test_a_version_that_an_advisory_is_about_is_a_hit(tmp_path, said):
    """Open ranges, a second range, a last version, and versions by name."""
    run = audit(tmp_path, **said)

    assert run.returncode == 1
    assert "PYSEC-1" in run.stdout


@pytest.mark.parametrize(
    "said",
    [
        {"events": [{"introduced": "0"}, {"fixed": "1.0"}]},
        {"events": [{"introduced": "999"}]},
        {"events": [{"introduced": "0"}], "withdrawn": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_is_fixed_not_yet_there_or_withdrawn_is_none(tmp_path, said):
    """Its own exit status says so."""
    run = audit(tmp_path, **said)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 advisories" in run.stdout
