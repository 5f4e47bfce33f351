"""The public traces, which the project does not ship (CONTRIBUTING.md says whose they are).

They are in the folder that TIERSCOPE_TRACES names, by default `../shared/traces` if it is there.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("TIERSCOPE_TRACES", Path(__file__).parents[2] / "shared" / "traces"))
NAMES = (
    "claude_code_sessions.parquet",
    "mooncake_conversation.jsonl.gz",
    "mooncake_conversation.parquet",
    "mooncake_synthetic.jsonl.gz",
    "mooncake_synthetic.parquet",
)


def missing() -> str | None:
    """Why the traces cannot be read, None where all of them are there."""
    absent = [name for name in NAMES if not (FOLDER / name).is_file()]
    if not absent:
        return None
    return f"the public traces are not here ({', '.join(absent)}); name their folder in TIERSCOPE_TRACES"
