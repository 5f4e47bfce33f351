"""An engine's Prometheus page, read with the reference parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tierscope.domain.requests import TokenSplit


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

    def amount(self, name: str) -> float:
        """Return the sum over the series of a metric whose values are no whole numbers."""
        return float(sum(sample.value for sample in self._samples if sample.name == name))

    def label(self, name: str, label: str) -> str:
        """Return a label of the only series of a metric."""
        (value,) = {sample.labels[label] for sample in self._samples if sample.name == name}
        return value


def prompt_tokens(page: Page) -> TokenSplit:
    """Return the engine's own split of the prompts that reached their first token, over all its ranks."""
    by_source = "vllm:prompt_tokens_by_source_total"
    return TokenSplit(
        page.total("vllm:prompt_tokens_total"),
        l0=page.total(by_source, source="local_cache_hit"),
        external=page.total(by_source, source="external_kv_transfer"),
        computed=page.total(by_source, source="local_compute"),
    )
