"""One replica on the wire: its event stream and the streams of its probes, a batch a step on each."""

from __future__ import annotations

from functools import partial

import msgspec
import zmq

from tierscope.testbed.config import Faults, TestbedConfig
from tierscope.testbed.model.engine import Engine
from tierscope.testbed.wire.cache_records import CacheRecordWriter
from tierscope.testbed.wire.channel import Channel
from tierscope.testbed.wire.events import EventEncoder
from tierscope.testbed.wire.records import Record, RecordWriter
from tierscope.testbed.wire.stream import Stream
from tierscope.testbed.wire.tally import Tally


class Replica:
    """What one replica publishes. Belongs to the thread that runs the model.

    `epoch_unix_seconds` is the unix time of virtual second 0; `tally` is told what goes out.
    """

    def __init__(
        self,
        config: TestbedConfig,
        index: int,
        context: zmq.Context[zmq.Socket[bytes]],
        *,
        epoch_unix_seconds: float,
        tally: Tally,
    ) -> None:
        name = config.replica_name(index)
        self.tally = tally
        self.events = Channel(_stream(context, f"kv@{name}@{config.model}", config))
        self.hook = Channel(_stream(context, f"hook@{name}", config))
        self.cache = Channel(_stream(context, f"cache@{name}", config))
        self.started_unix_seconds = epoch_unix_seconds
        self._epoch_unix_seconds = epoch_unix_seconds
        self._encode_events = EventEncoder(config.block_tokens).encode
        self._encode_records = msgspec.msgpack.Encoder().encode
        self._records: list[Record] = []
        self.records = RecordWriter(
            self._records.append,
            epoch_unix_seconds=epoch_unix_seconds,
            model=config.model,
            block_tokens=config.block_tokens,
            blocks=config.l0_blocks,
            tier_split=config.tier_split,
        )
        self.records.hello(0.0)
        self._cache_records: list[Record] = []
        self.cache_records = CacheRecordWriter(
            self._cache_records.append,
            config,
            server=f"lmcache-{index}",
            epoch_unix_seconds=epoch_unix_seconds,
        )
        self.cache_records.hello(0.0)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Every stream of the replica."""
        return self.events, self.hook, self.cache

    @property
    def empty(self) -> bool:
        """Whether everything said went out."""
        return all(channel.empty for channel in self.channels) and not self._records

    def end_step(self, engine: Engine, now_seconds: float, wall_seconds: float, faults: Faults) -> None:
        """Make a batch of what each publisher said in the step that ends now, and send what is due."""
        if changes := engine.pool.changes:
            engine.pool.changes = []
            payload = self._encode_events(changes, self._epoch_unix_seconds + now_seconds)
            due = wall_seconds + faults.events.delay_seconds
            self.events.hold(payload, until_wall_seconds=due, sent=_nothing)
        self.cache_records.tick(now_seconds)
        if told := self._cache_records[:]:
            self._cache_records.clear()
            due = wall_seconds + faults.cache.delay_seconds
            self.cache.hold(
                self._encode_records(told),
                until_wall_seconds=due,
                sent=partial(self.tally.read_cache, told),
            )
        if records := self._records[:]:
            self._records.clear()
            due = wall_seconds + faults.hook.delay_seconds
            self.hook.hold(
                self._encode_records(records),
                until_wall_seconds=due,
                sent=partial(self.tally.read, records),
            )
        self.send_due(wall_seconds, faults)

    def send_due(self, wall_seconds: float, faults: Faults) -> None:
        """Send what was held back long enough."""
        self.events.send_due(wall_seconds, faults.events)
        self.cache.send_due(wall_seconds, faults.cache)
        self.hook.send_due(wall_seconds, faults.hook)

    def restart(self, now_seconds: float) -> None:
        """The engine restarted: sequences begin at 0, what did not go out is gone, the hook says hello.

        The cache server is a process of its own, and goes on.
        """
        self._records.clear()
        self.events.restart()
        self.hook.restart()
        self.started_unix_seconds = self._epoch_unix_seconds + now_seconds
        self.records.hello(now_seconds)

    def close(self) -> None:
        """Close the sockets."""
        for channel in self.channels:
            channel.stream.close()


def _stream(context: zmq.Context[zmq.Socket[bytes]], topic: str, config: TestbedConfig) -> Stream:
    return Stream(context, topic=topic.encode(), ring_batches=config.ring_batches)


def _nothing() -> None:
    """Nobody needs to know that events went out."""
