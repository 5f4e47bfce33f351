"""Every scenario, by what it is about. A file of rows is added here and nowhere else."""

from __future__ import annotations

from tests.scenarios.cases.abstentions import ABSTENTIONS
from tests.scenarios.cases.aims import AIMS
from tests.scenarios.cases.sizes import SIZES
from tests.scenarios.cases.units import UNITS
from tests.scenarios.cases.wired import WIRED

SCENARIOS = (*SIZES, *AIMS, *UNITS, *ABSTENTIONS, *WIRED)
