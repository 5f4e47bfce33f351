"""A workload as arrays: requests in replay order with their block chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tierscope.domain.errors import BadInput

Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt64Array = NDArray[np.uint64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trace:
    """n requests in replay order, each a path of blocks from the root of a prefix forest.

    Request i's blocks are `block_ids[offsets[i]:offsets[i + 1]]`, in prefix order; one id always has
    the same parent. Ids are dense and non-negative. The last block of a request may be partial:
    its tokens are `input_tokens[i]` minus the full blocks before it.

    Shapes: `offsets` (n + 1,) int64; `block_ids` (accesses,) int32; all others (n,).
    `at_ms` are milliseconds from the start of the trace; `session` is -1 where unknown.
    """

    name: str
    block_tokens: int
    at_ms: Int64Array
    input_tokens: Int64Array
    output_tokens: Int64Array
    session: Int32Array
    offsets: Int64Array
    block_ids: Int32Array
    skipped_lines: int = 0
    session_relative_times: bool = False
    """True while each session's times start at 0: such a trace needs session starts before a replay."""

    def __post_init__(self) -> None:
        n = len(self.at_ms)
        lengths = {len(self.input_tokens), len(self.output_tokens), len(self.session), len(self.offsets) - 1}
        if lengths != {n} or (n and int(self.offsets[-1]) != len(self.block_ids)):
            raise BadInput(
                f"a trace's arrays disagree: {n} times, lengths {sorted(lengths)}, "
                f"{len(self.block_ids)} block ids against a last offset of {int(self.offsets[-1])}",
                where=self.name,
                fix="build the trace with one of the readers in tierscope.traces",
            )

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.at_ms)

    @property
    def accesses(self) -> int:
        """Number of block accesses, partial last blocks included."""
        return len(self.block_ids)
