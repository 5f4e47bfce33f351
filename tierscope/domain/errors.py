"""The one error type that crosses rooms: what is wrong, where, and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence


class TierscopeError(Exception):
    """Something a person can act on.

    `what` is the fault in one sentence, `where` the file, line, field or address it was found at,
    `fix` the next thing to try. The command line, the API and the logs all print these three.
    """

    exit_status = 1

    def __init__(self, what: str, *, where: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  where: {self.where}\n  fix:   {self.fix}"

    def one_line(self) -> str:
        """The same three parts on one line, for logs."""
        return f"{self.what} (where: {self.where}; fix: {self.fix})"


class BadInput(TierscopeError):
    """A file, frame, page or line that cannot be read as what it claims to be."""


class BadSettings(TierscopeError):
    """Settings that cannot be used; every problem found is listed, not the first."""

    exit_status = 2

    def __init__(self, problems: Sequence[TierscopeError]) -> None:
        if not problems:
            raise ValueError("BadSettings needs at least one problem to report")
        first = problems[0]
        super().__init__(
            first.what if len(problems) == 1 else f"{len(problems)} settings cannot be used",
            where=first.where,
            fix=first.fix,
        )
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return (
            "\n".join(str(problem) for problem in self.problems)
            if len(self.problems) > 1
            else super().__str__()
        )


class SourceUnreadable(TierscopeError):
    """A source gave nothing this time: unreachable, too slow, or not what it should be."""


class StoreUnusable(TierscopeError):
    """The event store cannot be opened or written: locked, newer than us, damaged, or out of disk."""
