"""Both protocols of OTLP, and a real receiver of each."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.otlp_receiver import RECEIVERS


@pytest.fixture(params=RECEIVERS)
def protocol(request):
    return request.param


@pytest.fixture
def receiver(protocol):
    with closing(RECEIVERS[protocol]()) as receiver:
        yield receiver
