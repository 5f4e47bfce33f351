"""The active Curvine master's `/metrics`, `/api/overview` and `/api/workers`: names from its source code."""

from __future__ import annotations

import json
import time

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


def curvine_workers(pool: Pool, *, now_unix_seconds: float) -> bytes:
    """Return `/api/workers` in the shape of release 0.3.2: every worker live, with one directory."""
    workers = [
        _worker(pool, index, files, now_unix_seconds) for index, files in enumerate(pool.files_of_worker)
    ]
    return json.dumps({"live_workers": workers, "lost_workers": []}).encode()


def _worker(pool: Pool, index: int, files: int, now_unix_seconds: float) -> dict[str, object]:
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
            "web_port": 9001,
        },
        **room,
        "last_update": int(now_unix_seconds * 1000),
        "storage_map": {f"storage-{index}": directory},
        "status": "Live",
    }
