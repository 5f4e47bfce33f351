"""`tierscope export`: read this node's engines and caches, publish metrics, spans and the feed."""

from __future__ import annotations

from dataclasses import asdict

from tierscope.cli.options import Config, Json, Lifeline


def export(config: Config, as_json: Json = False, lifeline: Lifeline = False) -> None:
    """Read this node's engines and caches; serve /metrics, emit spans, publish the feed."""
    from exporters.process import Exporter
    from tierscope.cli.logs import log_to_stderr
    from tierscope.cli.processes import StopRequest, announce
    from tierscope.cli.settings_file import load_settings

    log_to_stderr()
    stop = StopRequest(lifeline=lifeline)
    exporter = Exporter(load_settings(config).exporter)
    try:
        exporter.start()
        announce(asdict(exporter.addresses), as_json=as_json)
        stop.wait()
    finally:
        exporter.close()
