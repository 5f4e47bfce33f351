"""One thing that `tierscope doctor` looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tierscope.domain.severity import Severity


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `severity` None: it is as it should be."""

    source: str
    severity: Severity | None
    says: str
    fix: str | None = None

    def to_json(self) -> dict[str, object]:
        """As a JSON object; `status` is ok or the severity."""
        return {"status": self.severity.value if self.severity else "ok", **asdict(self)}
