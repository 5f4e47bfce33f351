"""An engine's Prometheus page, read with the reference parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


class Page:
    """Sums over the series of one page."""

    def __init__(self, text: str) -> None:
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str, **labels: str) -> int:
        """Return a counter's or gauge's sum over the series with these labels; 0 where there is none."""
        return round(
            sum(
                sample.value
                for sample in self._samples
                if sample.name == name and labels.items() <= sample.labels.items()
            )
        )

    def seconds(self, name: str) -> float:
        """Return the sum over the series of a metric of seconds."""
        return float(sum(sample.value for sample in self._samples if sample.name == name))

    def label(self, name: str, label: str) -> str:
        """Return a label of the only series of a metric."""
        (value,) = {sample.labels[label] for sample in self._samples if sample.name == name}
        return value
