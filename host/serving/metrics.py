"""What Prometheus scrapes: counts of the data plane, engines and plugins as they are at that moment.

Rules (clause 7.9 of host/README.md)
* Gauges are asked for at each scrape and never kept, so none can freeze.
* Labels are endpoints, outcomes, names in signed bundles and digests of what is loaded; never a client's text.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, text version 0.0.4.

Example:
    metrics = Metrics(service, deployment, operations)
    metrics.text()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from .served import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

    from ...sandbox import PluginStats
    from ..app import Opened
    from ..deployment import Deployment
    from ..engine.request import EngineStats
    from .operations import Operations
    from .service import Service
    from .telemetry import Histogram

FAILURES: Final = ("trap", "timeout", "invalid", "config", "error", "empty")
"""Kinds of a plugin's failures (sandbox.GuestError), so that each is there before it has happened."""

SHORT_DIGEST: Final = 12
"""Digits of a digest in a label, as in `system_fingerprint`."""

_ENGINE: Final[tuple[tuple[str, str, Callable[[EngineStats], float]], ...]] = (
    ("sealhost_requests_running", "Choices that hold KV blocks.", lambda one: one.running),
    ("sealhost_requests_waiting", "Choices that wait for KV blocks.", lambda one: one.waiting),
    ("sealhost_kv_blocks", "KV blocks of the pool.", lambda one: one.kv_total_blocks),
    ("sealhost_kv_blocks_used", "KV blocks in use.", lambda one: one.kv_total_blocks - one.kv_free_blocks),
    ("sealhost_kv_window_blocks", "KV blocks of layers with a window.", lambda one: one.window_total_blocks),
    (
        "sealhost_kv_window_blocks_used",
        "Those in use.",
        lambda one: one.window_total_blocks - one.window_free_blocks,
    ),
)
"""Gauges of engines: name, help, value. Summed over the versions of a model that are loaded."""

_PLUGIN: Final[tuple[tuple[str, str, type[Metric], Callable[[PluginStats], float]], ...]] = (
    ("sealhost_plugin_sessions", "Sandboxes that were started.", CounterMetricFamily, lambda one: one.sessions),
    ("sealhost_plugin_refused", "Sandboxes that were refused.", CounterMetricFamily, lambda one: one.refused),
    ("sealhost_plugin_calls", "Calls into the guest.", CounterMetricFamily, lambda one: one.calls),
    ("sealhost_plugin_live", "Sandboxes that have not ended.", GaugeMetricFamily, lambda one: one.live),
    ("sealhost_plugin_strikes", "Strikes in a row.", GaugeMetricFamily, lambda one: one.strikes),
    (
        "sealhost_plugin_quarantined",
        "Whether it is in quarantine.",
        GaugeMetricFamily,
        lambda one: one.quarantined_s > 0,
    ),
)
"""Metrics of plugins: name, help, type, value."""


class Metrics:
    """The process's metrics.

    Args:
        service: The data plane's state.
        deployment: What is loaded.
        operations: The admin plane's long work.
    """

    content_type: Final = b"text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, service: Service, deployment: Deployment, operations: Operations) -> None:
        self._service = service
        self._deployment = deployment
        self._operations = operations
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Everything as it is now."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance, so that registering collects nothing."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every metric as it is now."""
        yield from self._host()
        yield from self._requests()
        yield from self._tokens()
        yield from self._engines()
        yield from self._bundles()
        yield from self._plugins()

    def _host(self) -> Iterator[Metric]:
        ready = self._service.registry.phase is Phase.READY and not self._service.registry.failed
        yield GaugeMetricFamily("sealhost_ready", "Whether new requests are taken.", ready)
        ended = CounterMetricFamily(
            "sealhost_operations", "Operations of the admin plane that have ended.", labels=("kind", "outcome")
        )
        for (kind, outcome), count in self._operations.counts.copy().items():
            ended.add_metric((kind, outcome), count)
        yield ended

    def _requests(self) -> Iterator[Metric]:
        ended = CounterMetricFamily(
            "sealhost_requests", "HTTP requests that have ended.", labels=("endpoint", "outcome")
        )
        for (endpoint, outcome), count in self._service.telemetry.requests.copy().items():
            ended.add_metric((endpoint, outcome), count)
        yield ended

    def _tokens(self) -> Iterator[Metric]:
        meters = [(name, self._service.telemetry.model(name)) for name in self._deployment.places]
        prompt = CounterMetricFamily("sealhost_prompt_tokens", "Tokens of prompts.", labels=("model",))
        answer = CounterMetricFamily("sealhost_completion_tokens", "Tokens of answers.", labels=("model",))
        for name, meter in meters:
            prompt.add_metric((name,), meter.prompt_tokens)
            answer.add_metric((name,), meter.completion_tokens)
        yield prompt
        yield answer
        yield _histogram(
            "sealhost_time_to_first_token_seconds",
            "From a request's head to its first token.",
            [(name, meter.first_token) for name, meter in meters],
        )
        yield _histogram(
            "sealhost_inter_token_seconds",
            "From one token of a choice to the next.",
            [(name, meter.between_tokens) for name, meter in meters],
        )

    def _engines(self) -> Iterator[Metric]:
        stats = {
            name: [one.served.engine.stats() for one in self._deployment.opened(name)]
            for name in self._deployment.places
        }
        for metric, text, value in _ENGINE:
            gauge = GaugeMetricFamily(metric, text, labels=("model",))
            for name, engines in stats.items():
                gauge.add_metric((name,), sum(value(one) for one in engines))
            yield gauge
        memory = GaugeMetricFamily("sealhost_kv_bytes", "Memory of the KV pool.", labels=("model", "type"))
        for name in stats:
            versions = self._deployment.opened(name)  # of one backend, so of one type
            held = sum(one.report.memory_bytes["kv"] for one in versions)
            memory.add_metric((name, str(versions[0].loaded.kv_type)), held)
        yield memory

    def _bundles(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("sealhost_bundle_info", "What is served: 1.", labels=("model", "version", "digest"))
        trusted = GaugeMetricFamily("sealhost_bundle_trusted", "Whether today's policy accepts it.", labels=("model",))
        for name, place in self._deployment.places.items():
            bundle = place.current.bundle
            info.add_metric((name, str(bundle.manifest.version), bundle.digest), 1)
            trusted.add_metric((name,), self._deployment.judges.objection(bundle) is None)
        yield info
        yield trusted

    def _plugins(self) -> Iterator[Metric]:
        taken = [
            (_plugin_labels(name, place.current, role, guest.name), guest.stats())
            for name, place in self._deployment.places.items()
            for role, guest in place.current.guests
        ]
        labels = ("model", "bundle", "role", "plugin")
        for metric, text, kind, value in _PLUGIN:
            family = kind(metric, text, labels=labels)  # type: ignore[call-arg]  # both kinds have it, their base has not
            for whose, stats in taken:
                family.add_metric(whose, value(stats))  # type: ignore[attr-defined]
            yield family
        failed = CounterMetricFamily("sealhost_plugin_failures", "Failed sandboxes.", labels=(*labels, "kind"))
        quantiles = (*labels, "quantile")
        times = GaugeMetricFamily("sealhost_plugin_call_seconds", "Quantiles of the time of a call.", labels=quantiles)
        fuel = GaugeMetricFamily(
            "sealhost_plugin_call_fuel", "Quantiles of the fuel of a call, where it is counted.", labels=quantiles
        )
        for whose, stats in taken:
            for kind_of_failure in FAILURES:
                failed.add_metric((*whose, kind_of_failure), stats.failures.get(kind_of_failure, 0))
            times.add_metric((*whose, "0.5"), stats.p50_us / 1e6)
            times.add_metric((*whose, "0.99"), stats.p99_us / 1e6)
            if stats.p99_fuel:
                fuel.add_metric((*whose, "0.5"), stats.p50_fuel)
                fuel.add_metric((*whose, "0.99"), stats.p99_fuel)
        yield failed
        yield times
        if fuel.samples:
            yield fuel


def _histogram(name: str, text: str, observed: list[tuple[str, Histogram]]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=("model",))
    for model, histogram in observed:
        edges = [*map(str, histogram.bounds), "+Inf"]
        family.add_metric((model,), list(zip(edges, histogram.cumulative(), strict=True)), histogram.total)
    return family


def _plugin_labels(name: str, opened: Opened, role: str, plugin: str) -> tuple[str, str, str, str]:
    return name, opened.bundle.digest[:SHORT_DIGEST], role, plugin
