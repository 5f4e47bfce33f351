"""Whose rows of the store are meant."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tierscope.domain.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Whose rows are meant: those for which every part that is given holds. Raises `BadInput` for none.

    `salt_hash` and `session_hash` are keyed hashes, as in `requests`: a tenant is known by its cache salt.
    """

    namespace: str | None = None
    endpoint: str | None = None
    model: str | None = None
    salt_hash: int | None = None
    session_hash: int | None = None

    def __post_init__(self) -> None:
        if not self.parts():
            raise BadInput(
                "nothing says whose rows are to be forgotten",
                where="Selection",
                fix="name a namespace, an endpoint, a model, a tenant or a session",
            )
        if self.endpoint is not None and self.namespace is None:
            raise BadInput(
                "an endpoint is named without its namespace",
                where="Selection",
                fix="name the namespace too: endpoints of several namespaces may share a name",
            )

    def parts(self) -> dict[str, str | int]:
        """What is given, by the name of its column in `requests`."""
        return {name: value for name, value in asdict(self).items() if value is not None}
