"""What the active Curvine master and its workers say: names from their source code."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from tierscope.testbed.model.l2 import Pool
from tierscope.testbed.wire.exposition import NO_LABELS, Exposition


def curvine_page(pool: Pool) -> Exposition:
    """Return the master's page of this moment. Integers print without decimals; counters without `_total`."""
    page = Exposition(floats=False)
    files = len(pool)
    available = int(pool.capacity_bytes) - pool.used_bytes
    for name, kind, help_text, value in (
        ("available", "gauge", "Free bytes of all workers", available),
        ("blocks_size_avg", "gauge", "Bytes a block", pool.chunk_bytes if files else 0),
        ("capacity", "gauge", "Bytes of all workers", int(pool.capacity_bytes)),
        ("client_read_bytes", "counter", "client_read_bytes", pool.counters.read * pool.chunk_bytes),
        ("client_write_bytes", "counter", "client_write_bytes", pool.counters.written * pool.chunk_bytes),
        ("eviction_bytes_freed", "counter", "Bytes of evicted files", 0),
        ("eviction_files_deleted", "counter", "Evicted files", 0),
        ("eviction_lru_cache_size", "gauge", "Files the evictor knows", 0),
        ("eviction_trigger_count", "counter", "Eviction rounds", 0),
        ("fs_used", "gauge", "Bytes in files", pool.used_bytes),
        ("inode_dir_num", "gauge", "Directories", 3),
        ("inode_file_num", "gauge", "Files", files),
        ("num_blocks", "gauge", "Blocks", files),
    ):
        page.family(name, kind, help_text, [(NO_LABELS, value)])
    workers = {"blacklist": 0, "decommission": 0, "live": len(pool.files_of_worker), "lost": 0}
    page.family("worker_num", "gauge", "Workers", [({"tag": tag}, count) for tag, count in workers.items()])
    return page


def curvine_overview(pool: Pool, *, started_unix_seconds: float) -> bytes:
    """Return `/api/overview`; this master is the active one."""
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(started_unix_seconds))
    overview = {
        "cluster_id": "curvine",
        "master_addr": "curvine-master-0:8995",
        "start_time": started,
        "live_workers": len(pool.files_of_worker),
        "lost_workers": 0,
        "available": int(pool.capacity_bytes) - pool.used_bytes,
        "capacity": int(pool.capacity_bytes),
        "fs_used": pool.used_bytes,
        "reserved_bytes": 0,
        "files_total": len(pool),
        "dir_total": 3,
        "master_state": "Active",
    }
    return json.dumps(overview).encode()


def curvine_config(pool: Pool) -> bytes:
    """Return the part of `/api/config` that says what leaves the pool, quantities as their texts."""
    ttl = pool.ttl_seconds
    client = {
        "block_size_str": f"{int(pool.block_bytes)}B",
        "short_circuit": False,
        "ttl_ms_str": "0" if ttl is None else f"{int(ttl)}s",
        "ttl_action_str": "none" if ttl is None else "delete",
    }
    master = {
        "enable_quota_eviction": False,
        "quota_eviction_mode": "free",
        "quota_eviction_high_rate": 0.8,
        "quota_eviction_low_rate": 0.6,
        "quota_eviction_dry_run": False,
    }
    return json.dumps({"cluster_id": "curvine", "master": master, "client": client}).encode()


def worker_page(pool: Pool, index: int) -> Exposition:
    """Return a worker's page of this moment; all of its blocks are read over the network."""
    page = Exposition(floats=False)
    files, capacity = pool.files_of_worker[index], int(pool.worker_capacity_bytes)
    read, written = pool.read_from[index], pool.written_to[index]
    for name, kind, value in (
        ("available", "gauge", capacity - files * pool.chunk_bytes),
        ("capacity", "gauge", capacity),
        ("failed_disks", "gauge", 0),
        ("fs_used", "gauge", files * pool.chunk_bytes),
        ("num_blocks", "gauge", files),
        ("num_blocks_to_delete", "gauge", 0),
        ("read_bytes", "counter", read * pool.chunk_bytes),
        ("read_count", "counter", read * _steps(pool)),
        ("total_disks", "gauge", 1),
        ("write_bytes", "counter", written * pool.chunk_bytes),
        ("write_count", "counter", written * _steps(pool)),
    ):
        page.family(name, kind, name, [(NO_LABELS, value)])
    for name, blocks in (("read_blocks", read), ("write_blocks", written)):
        if blocks:  # a family that never had a value is not printed
            page.family(name, "counter", name, [({"type": "remote"}, blocks)])
    return page


def _steps(pool: Pool) -> int:
    """Reads or writes of one chunk: 128 KiB each."""
    return -(-pool.chunk_bytes // (128 * 1024))


def curvine_workers(pool: Pool, *, web_ports: Sequence[int], now_unix_seconds: float) -> bytes:
    """Return `/api/workers` in the shape of release 0.3.2: every worker live, with one directory.

    `web_ports` are where each worker's own page is.
    """
    workers = [
        _worker(pool, index, files, web_port, now_unix_seconds)
        for index, (files, web_port) in enumerate(zip(pool.files_of_worker, web_ports, strict=True))
    ]
    return json.dumps({"live_workers": workers, "lost_workers": []}).encode()


def _worker(pool: Pool, index: int, files: int, web_port: int, now_unix_seconds: float) -> dict[str, object]:
    used = files * pool.chunk_bytes
    room: dict[str, object] = {
        "capacity": int(pool.worker_capacity_bytes),
        "available": int(pool.worker_capacity_bytes) - used,
        "fs_used": used,
        "non_fs_used": 0,
        "reserved_bytes": 0,
        "block_num": files,
    }
    directory: dict[str, object] = {
        **room,
        "dir_id": 1,
        "storage_id": f"storage-{index}",
        "failed": False,
        "storage_type": "Ssd",
        "dir_path": "/data/data1/curvine",
    }
    return {
        "address": {
            "worker_id": 1001 + index,
            "hostname": f"curvine-worker-{index}",
            "ip_addr": "127.0.0.1",
            "rpc_port": 8997,
            "web_port": web_port,
        },
        **room,
        "last_update": int(now_unix_seconds * 1000),
        "storage_map": {f"storage-{index}": directory},
        "status": "Live",
    }
