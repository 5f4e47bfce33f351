"""Session starts of a trace whose times begin at 0 in each session, for every command that replays one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tierscope.domain.trace import Trace


def spread(trace: Trace, hours: float | None, seed: int) -> Trace:
    """Start the trace's sessions within `hours`; without that, warn where such a trace needs it."""
    from tierscope.cli.output import stderr
    from tierscope.traces.sessions import spread_sessions

    if hours is not None:
        return spread_sessions(trace, hours=hours, seed=seed)
    if trace.session_relative_times:
        stderr.print(
            "each session's times start at 0, so sessions run one after another: "
            "say --spread-sessions HOURS to run them side by side",
            style="yellow",
        )
    return trace
