"""The HTTP API: a factory, and thin routes over a store's reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from api.access import Access
from api.advice_routes import serve_advice
from api.answers import Health
from api.explanations import Explainer, serve_explanations
from api.guard import Guard, Limits
from api.history import serve_history
from api.outcomes import serve_outcomes
from api.parameters import Clock
from api.problems import Problem, answer_problems, describe_problems
from api.regressions import serve_regressions
from api.report_page import serve_report
from tierscope.advice.foretold import Foretold
from tierscope.registry.types import Sample
from tierscope.storage.reader import Reader
from tierscope.telemetry.prometheus import SampleCollector


def create_app(
    reader: Reader,
    clock: Clock,
    *,
    samples: Callable[[], Iterable[Sample]] = lambda: (),
    access: Access | None = None,
    limits: Limits | None = None,
    keep_seconds: float = 0.0,
) -> FastAPI:
    """Make the API over a reader; `samples` are served on /metrics. Nothing is read before a request.

    A recommendation that is polled may be `keep_seconds` old, and ten times that while it is asked for anew.
    Without `access` everybody may ask everything: bind it to loopback then.
    """
    app = FastAPI(
        title="Tierscope",
        version="1",
        description="Which KV-cache tier served each token, and what to change.",
        responses={
            "4XX": {"model": Problem, "description": "What is wrong, where, and how to fix it."},
            "5XX": {"model": Problem, "description": "What is wrong, where, and how to fix it."},
        },
    )
    answer_problems(app)
    app.add_middleware(Guard, access=access, limits=limits or Limits())
    serve_advice(app, reader, clock, keep_seconds)
    serve_history(app, reader, clock)
    serve_regressions(app, reader, clock)
    explainer = Explainer(reader, clock)
    serve_explanations(app, explainer)
    foretold = Foretold()
    serve_outcomes(app, reader, clock, explainer.turns, foretold)
    serve_report(app, reader, explainer, clock, foretold)
    _serve_operations(app, reader, samples)
    describe_problems(app)
    return app


def _serve_operations(app: FastAPI, reader: Reader, samples: Callable[[], Iterable[Sample]]) -> None:
    registry = CollectorRegistry()
    registry.register(SampleCollector(samples))

    @app.get("/health", tags=["operations"])
    def health() -> Health:
        """Whether this process answers; it asks nobody else."""
        return Health("ok")

    @app.get("/ready", tags=["operations"])
    def ready() -> Health:
        """Whether the collector answers, too; 503 says that it does not."""
        reader.endpoints()
        return Health("ready")

    @app.get("/metrics", tags=["operations"], response_class=Response)
    def metrics() -> Response:
        """This process in the Prometheus text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
