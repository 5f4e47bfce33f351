"""What every test may use, and the rule that a skip is never silent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests import buckets, lakes, ports
from tests.long_sample import SAMPLED, LeftOut

# How long an example takes says nothing on a shared machine; compiled kernels are slow the first time.
# A commit is judged by the same examples everywhere; `make explore` draws new ones.
settings.register_profile("tierscope", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1_000)
settings.load_profile("explore" if os.environ.get("TIERSCOPE_EXPLORE") else "tierscope")

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Recorded bytes, and traces made for tests."""
    return FIXTURES


@pytest.fixture(scope="session")
def captures() -> Path:
    """The recorded bytes of real engines."""
    return FIXTURES / "captures"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL of this session's own; skips, naming the package, where there is none."""
    if not lakes.BINARIES:
        pytest.skip("PostgreSQL is not installed; `make system` installs it (package postgresql)")
    with lakes.postgres() as server:
        yield server


@pytest.fixture(scope="module")
def crashing_postgres(postgres):
    """One that a test may crash: like any that is set up for the purpose, it keeps what it committed."""
    with lakes.postgres(crashes=True) as server:
        yield server


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket of an S3 server, whose address and keys are in the environment."""
    with buckets.s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield buckets.BUCKET


@pytest.fixture(scope="session", params=["file", "lake"])
def places(request, tmp_path_factory):
    """Return a function that makes a place for a store: `Store.open(*places(), clock=clock)`.

    What a test says of a store it says of a file and of a lake. On a lake only those marked `lake` run in
    the main suite, the others with the long ones.
    """
    if request.param == "file":
        return lambda: (tmp_path_factory.mktemp("store") / "the store's.duckdb",)
    server = request.getfixturevalue("postgres")
    return lambda: tuple(server.lake(tmp_path_factory.mktemp("lake")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """A store's tests on a lake are long ones, but for those that are marked."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if parameters.get("places") == "lake" and item.get_closest_marker("lake") is None:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def system_binary():
    """Return a function from a program's name to its path; skips, naming the package, where it is missing."""

    def find(program: str, *, package: str) -> str:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed; `make system` installs it (package {package})")
        return path

    return find


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Say where ports may have been taken; with TIERSCOPE_FAIL_ON_SKIP set, name every skip as a failure."""
    for line in ports.said_of_sharing():
        terminalreporter.line(line)
    skipped = terminalreporter.stats.get("skipped", [])
    if not (skipped and os.environ.get("TIERSCOPE_FAIL_ON_SKIP")):
        return
    terminalreporter.section("skipped tests are failures here", red=True)
    for report in skipped:
        terminalreporter.line(
            f"{report.nodeid}: {report.longrepr[-1] if report.longrepr else 'no reason given'}"
        )


class SkipsAreFailures:
    """A session in which a test was skipped has failed, and `--last-failed` runs that test again."""

    def __init__(self) -> None:
        self.skipped: set[str] = set()

    def pytest_runtest_logreport(self, report):
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        cache = getattr(session.config, "cache", None)
        if self.skipped and cache is not None:  # pytest itself has written its own failures by now
            cache.set(
                "cache/lastfailed", cache.get("cache/lastfailed", {}) | dict.fromkeys(self.skipped, True)
            )


def pytest_configure(config):
    """Register the skip rule where it is asked for, once, in the process that sees every report."""
    if os.environ.get("TIERSCOPE_FAIL_ON_SKIP") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipsAreFailures(), "tierscope-skips-are-failures")
    if SAMPLED:
        config.pluginmanager.register(LeftOut(), "tierscope-left-out")
