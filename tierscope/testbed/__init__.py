"""A deployment without GPUs that speaks the engines' wire formats, with an engine model of its own."""

from tierscope.testbed.config import Faults, Mix, Restart, ServiceTimes, StreamFaults, TestbedConfig
from tierscope.testbed.testbed import Progress, Testbed

__all__ = [
    "Faults",
    "Mix",
    "Progress",
    "Restart",
    "ServiceTimes",
    "StreamFaults",
    "Testbed",
    "TestbedConfig",
]
