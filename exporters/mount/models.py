"""The models whose chunks lie in a pool: a number each, and labels for as many as a page can bear. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

MOST_MODELS = 4096
"""Models told apart; a directory full of invented ones fills the last number."""

MOST_LABELS = 20
"""Models with a label of their own; the first to be seen, largest first, keep it."""

OTHER = "other"


class Models:
    """Numbers models by how files name them. Number 0 is for those beyond the most.

    A model is a name, or a name and a `digest` where names are cut short; `known` are models that had the
    numbers from 1 on in an earlier process, as `known_models` gave them.
    """

    def __init__(self, known: Iterable[tuple[str, str, str]] = ()) -> None:
        self.names = [OTHER]
        """What people read, by number."""
        self._numbers: dict[tuple[str, str], int] = {}
        self._full_names: dict[str, str] = {}
        self._labels: set[str] = set()
        for name, digest, full_name in known:
            self.names[self.number(name, digest)] = full_name

    def number(self, name: str, digest: str = "") -> int:
        """Return the number of a model, a new one for a new model."""
        number = self._numbers.get((name, digest))
        if number is None:
            if len(self.names) > MOST_MODELS:
                return 0
            number = self._numbers[name, digest] = len(self.names)
            self.names.append(self._full_names.get(digest, name))
        return number

    def spell_out(self, digest: str, full_name: str) -> None:
        """Learn the full name of the models of one digest."""
        if digest in self._full_names or len(self._full_names) < MOST_MODELS:
            self._full_names[digest] = full_name
            for (_, own), number in self._numbers.items():
                if own == digest:
                    self.names[number] = full_name

    def known_models(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the digest and the full name of each model in the order of their numbers."""
        for (name, digest), number in self._numbers.items():
            yield name, digest, self.names[number]

    def give_labels(self, weight: Callable[[int], float]) -> None:
        """Give labels to models that have none while there are any left, the weightiest first.

        A model that has a label keeps it, so that its series goes on.
        """
        for number in sorted(range(1, len(self.names)), key=weight, reverse=True):
            if len(self._labels) >= MOST_LABELS:
                return
            self._labels.add(self.names[number])

    def labels(self) -> Sequence[str]:
        """Return the label of each number: the model's name, or `other`."""
        return [name if name in self._labels else OTHER for name in self.names]
