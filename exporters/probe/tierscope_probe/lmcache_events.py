"""From the events of LMCache's bus to records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tierscope_probe.errors import ErrorCount
from tierscope_probe.hashes import low_bytes
from tierscope_probe.lmcache_contents import L1Contents
from tierscope_probe.lmcache_lookups import Sessions
from tierscope_probe.lmcache_records import BusEvent, ObjectKey, Writer
from tierscope_probe.records import Record

MOST_BEGINNINGS = 50_000
"""Tasks and transfers whose ends are awaited at once."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Translator:
    """Turns events, in the order of the bus, into records.

    One thread calls it. `translate` never raises: an event that cannot be read is counted in `errors` and
    costs itself alone. Token ids are never looked at: the events that carry them are not asked for.
    """

    def __init__(self, errors: ErrorCount, *, salt_key: bytes = b"") -> None:
        self._errors = errors
        self._writer = Writer(salt_key)
        self._sessions = Sessions()
        self._l1 = L1Contents(self._writer)
        self._transfers: dict[str, float] = {}
        self._stores: dict[tuple[int, int], BusEvent] = {}
        self._loads: dict[tuple[int, int], BusEvent] = {}
        self._loaded: dict[int, Record] = {}
        self._reserved: Sequence[ObjectKey] = ()
        self._newest_loaded: bytes | None = None
        self.handlers: Mapping[str, Callable[[BusEvent], list[Record]]] = {
            "mp.lookup_prefetch.start": self._lookup_started,
            "mp.lookup": self._looked_up,
            "mp.lookup_prefetch.end": self._lookup_ended,
            "mp.request.end": self._request_ended,
            "mp.store.start": self._transfer_started,
            "mp.store.end": self._stored_from_engine,
            "mp.retrieve.start": self._transfer_started,
            "mp.retrieve.end": self._retrieved,
            "l1.write.finished": self._l1_stored,
            "l1.read.reserved": self._l1_read_reserved,
            "l1.write_finished_and_read_reserved": self._l1_loaded,
            "l1.read.finished": self._l1_read,
            "l1.keys.evicted": self._l1_left,
            "l1.eviction.loop_tick": self._l1_ticked,
            "l1.allocation.failed": self._l1_full,
            "l1.read.failed": self._l1_read_failed,
            "sm.write.finished": self._write_finished,
            "l2.store.submitted": self._store_submitted,
            "l2.store.completed": self._store_completed,
            "l2.load_task.submitted": self._load_submitted,
            "l2.load_task.completed": self._load_completed,
            "l2.prefetch.load.completed": self._load_counted,
            "l2.prefetch.failed": self._l2_failed,
            "l2.keys.stored": self._l2_stored,
            "l2.keys.deleted": self._l2_removed,
            "l2.keys.evicted": self._l2_evicted,
        }

    def translate(self, name: str, event: BusEvent) -> list[Record]:
        """Return the records an event makes; often none."""
        try:
            return self.handlers[name](event)
        except Exception as error:  # noqa: BLE001  it must not cost the records of other events
            self._errors.add(f"read an event {name}", error)
            return []

    def overdue(self, now_unix_seconds: float) -> list[Record]:
        """Return what waited too long for the event that would explain it; infinity: all that waits."""
        held = [*self._loaded.values()] if now_unix_seconds == float("inf") else []
        self._loaded = {} if held else self._loaded
        return [*held, *self._l1.overdue(now_unix_seconds)]

    def _lookup_started(self, event: BusEvent) -> list[Record]:
        self._sessions.started(event.session_id, event.timestamp)
        return []

    def _looked_up(self, event: BusEvent) -> list[Record]:
        self._sessions.asked(event.session_id, event.metadata["chunk_hashes"], event.metadata["seq_len"])
        return []

    def _lookup_ended(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        session = self._sessions.answered(event.session_id)
        record = self._writer.write(
            "lookup",
            session.rid,
            session.answered - 1,
            said["model_name"],
            self._writer.salt(said.get("cache_salt", "")),
            session.start,
            event.timestamp,
            session.prompt_tokens,
            said["requested_tokens"],
            said["hit_tokens"],
            said.get("l1_hit_tokens"),
            said.get("l2_hit_tokens"),
            said.get("l1_hit_keys"),
            said.get("l2_hit_keys"),
            said.get("early_exit_reason", ""),
            list(session.hashes),
        )
        return [record]

    def _request_ended(self, event: BusEvent) -> list[Record]:
        self._sessions.over(event.session_id)
        return []

    def _transfer_started(self, event: BusEvent) -> list[Record]:
        _remember(self._transfers, event.metadata["transfer_key"], event.timestamp)
        return []

    def _stored_from_engine(self, event: BusEvent) -> list[Record]:
        return [self._transfer("store", "stored_count", event)]

    def _retrieved(self, event: BusEvent) -> list[Record]:
        return [self._transfer("retrieve", "retrieved_count", event)]

    def _transfer(self, direction: str, keys: str, event: BusEvent) -> Record:
        said = event.metadata
        return self._writer.write(
            "transfer",
            event.session_id,
            direction,
            said["engine_id"],
            said["model_name"],
            said[keys],
            said["num_tokens"],
            said["total_bytes"],
            self._transfers.pop(said["transfer_key"], None),
            event.timestamp,
        )

    def _l1_stored(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        return self._l1.arrived(event.timestamp, said["l1_tag"], said["keys"], said["meta"], "store")

    def _l1_read_reserved(self, event: BusEvent) -> list[Record]:
        self._reserved = event.metadata["keys"]
        return []

    def _l1_loaded(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        # Keys that another load brought meanwhile are only locked, which was published right before.
        brought = said["keys"] or self._reserved
        self._newest_loaded = low_bytes(brought[-1].chunk_hash) if brought else None
        return self._l1.arrived(event.timestamp, said["l1_tag"], said["keys"], said["meta"], "load")

    def _l1_read(self, event: BusEvent) -> list[Record]:
        self._l1.read_ended(event.metadata["l1_tag"], event.metadata["keys"])
        return []

    def _l1_left(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        return self._l1.left(event.timestamp, said["l1_tag"], said["keys"], said["meta"])

    def _l1_ticked(self, event: BusEvent) -> list[Record]:
        return self._l1.ticked(event.timestamp, event.metadata["triggered"])

    def _l1_full(self, event: BusEvent) -> list[Record]:
        during, keys = event.metadata["during"], event.metadata["keys"]
        records = self._writer.objects("l1_alloc_failed", (event.timestamp, during), keys)
        return records + self._refused(event, "l1_full", keys) if during == "l1_store" else records

    def _write_finished(self, event: BusEvent) -> list[Record]:
        return self._refused(event, "expired", event.metadata["failed_keys"])

    def _refused(self, event: BusEvent, reason: str, keys: Sequence[ObjectKey]) -> list[Record]:
        if not keys:
            return []
        rid = event.session_id or self._sessions.stores(low_bytes(keys[-1].chunk_hash))
        return self._writer.objects("store_refused", (event.timestamp, rid, reason), keys)

    def _l1_read_failed(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        why = (event.timestamp, said["during"], said["reason"])
        return self._writer.objects("l1_read_failed", why, said["keys"])

    def _store_submitted(self, event: BusEvent) -> list[Record]:
        _remember(self._stores, _task(event, "task_id"), event)
        return []

    def _store_completed(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        began = self._stores.pop(_task(event, "task_id"), None)
        record = self._writer.write(
            "store",
            said["adapter_index"],
            said["task_id"],
            said["l2_name"],
            began.metadata["key_count"] if began else said["succeeded_count"] + said["failed_count"],
            said["succeeded_count"],
            said["failed_count"],
            began.metadata["total_bytes"] if began else None,
            said["bytes_transferred"],
            began.timestamp if began else None,
            event.timestamp,
        )
        return [record]

    def _load_submitted(self, event: BusEvent) -> list[Record]:
        _remember(self._loads, _task(event, "request_id"), event)
        return []

    def _load_completed(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        request = said["request_id"]
        began = self._loads.pop(_task(event, "request_id"), None)
        chunk, self._newest_loaded = self._newest_loaded, None
        uncounted = self._loaded.pop(request, None)
        record = self._writer.write(
            "load",
            self._sessions.loads_for(request, chunk),
            request,
            said["adapter_index"],
            said["task_id"],
            said["l2_name"],
            began.metadata["key_count"] if began else None,
            None,
            None,
            began.metadata["total_bytes"] if began else None,
            began.timestamp if began else None,
            event.timestamp,
        )
        _remember(self._loaded, request, record)
        return [uncounted] if uncounted else []

    def _load_counted(self, event: BusEvent) -> list[Record]:
        record = self._loaded.pop(event.metadata["request_id"], None)
        if record is None:
            return []
        record["loaded_keys"] = event.metadata["loaded_count"]
        record["failed_keys"] = event.metadata["failed_count"]
        return [record]

    def _l2_failed(self, event: BusEvent) -> list[Record]:
        return self._writer.objects(
            "l2_failed", (event.timestamp, event.metadata["reason"]), event.metadata["keys"]
        )

    def _l2_stored(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        where = (event.timestamp, said["backend"], said["shared"])
        return self._writer.objects("l2_stored", where, said["keys"], said["sizes"])

    def _l2_removed(self, event: BusEvent) -> list[Record]:
        said = event.metadata
        return self._writer.objects(
            "l2_removed", (event.timestamp, said["backend"], said["shared"]), said["keys"]
        )

    def _l2_evicted(self, event: BusEvent) -> list[Record]:
        return [self._writer.write("l2_evicted", event.timestamp, event.metadata["key_count"])]


def _task(event: BusEvent, name: str) -> tuple[int, int]:
    return event.metadata["adapter_index"], event.metadata[name]


def _remember(beginnings: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(beginnings) >= MOST_BEGINNINGS:
        del beginnings[next(iter(beginnings))]
    beginnings[key] = value
