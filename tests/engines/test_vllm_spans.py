"""One trace from a caller through a real vLLM to the tiers, over both transports, its tracing on and off."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

import httpx
import pytest
from opentelemetry.propagate import inject
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context

from exporters.process import Exporter
from tests.engines import hook
from tests.engines.model import WORDS
from tests.engines.server import MODEL_NAME, EngineServer, transfer_config
from tests.otlp_receiver import RECEIVERS, Received, attributes_on, tracer_to
from tierscope.domain.settings import EngineSettings, ExporterSettings, OtlpProtocol

ANY_PORT = "tcp://127.0.0.1:0"
PROMPT = " ".join(WORDS[:100])
PARTS = ("l0", "l1", "l2", "external", "computed")
SPANS_SECONDS = 60.0


@dataclass(frozen=True)
class Deployment:
    """An engine, its exporter, and the receiver both send their spans to."""

    url: str
    receiver: Received
    caller: Tracer

    def ask(self, headers=None, **options):
        """Ask the engine as nobody in particular; return the answer's document."""
        body = {"model": MODEL_NAME, "prompt": PROMPT, "max_tokens": 2, "ignore_eos": True, **options}
        return httpx.post(f"{self.url}/v1/completions", json=body, headers=headers, timeout=120).json()

    def call(self, name, *, as_request_id=False, **options):
        """Ask as a traced caller; return the caller's trace id and the answer's document."""
        with self.caller.start_as_current_span(name, kind=SpanKind.CLIENT) as span:
            headers: dict[str, str] = {}
            inject(headers, set_span_in_context(span))
            if as_request_id:
                headers["X-Request-Id"] = headers["traceparent"]
            answer = self.ask(headers, **options)
        return span.get_span_context().trace_id.to_bytes(16, "big"), answer

    def trace(self, trace_id, count):
        """Spans of one trace once there are so many of them, by name."""

        def found():
            return [span for span in self.receiver.spans if span.trace_id == trace_id]

        assert self.receiver.wait(lambda: len(found()) >= count, SPANS_SECONDS), found()
        return by_name(found())


def by_name(spans):
    named: dict[str, list] = {}
    for span in spans:
        named.setdefault(span.name, []).append(span)
    return named


def deployed(stack, vllm, folder, protocol, *, engine_traces):
    """Start an engine with the probe in it, an exporter that reads it, and a receiver of all spans."""
    receiver = stack.enter_context(closing(RECEIVERS[protocol]()))
    probe = {"endpoint": ANY_PORT, "replay_endpoint": ANY_PORT, "address_file": str(folder / "probe.json")}
    arguments = transfer_config("ObservingConnector", tierscope=probe)
    environ = {"OTEL_SERVICE_NAME": "vllm", "OTEL_BSP_SCHEDULE_DELAY": "200"}
    if engine_traces:
        arguments += ("--otlp-traces-endpoint", receiver.endpoint)
        environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "grpc" if protocol == "grpc" else "http/protobuf"
    server = stack.enter_context(EngineServer(vllm, folder, arguments=arguments, environ=environ))
    stream = hook.addresses(folder / "probe.json")
    engine = EngineSettings(
        namespace="ns",
        endpoint="chat",
        replica="pod-0",
        hook_endpoint=stream.endpoint,
        hook_replay_endpoint=stream.replay_endpoint,
    )
    settings = ExporterSettings(
        engines=(engine,), otlp_endpoint=receiver.endpoint, otlp_protocol=OtlpProtocol(protocol)
    )
    stack.enter_context(Exporter(settings))
    caller = stack.enter_context(tracer_to(receiver, OtlpProtocol(protocol), "shop"))
    return Deployment(server.url, receiver, caller)


@pytest.fixture(scope="module", params=RECEIVERS)
def traced(request, vllm, tmp_path_factory):
    """An engine that sends spans itself."""
    folder = tmp_path_factory.mktemp(f"traced-{request.param}")
    with ExitStack() as stack:
        yield deployed(stack, vllm, folder, request.param, engine_traces=True)


@pytest.fixture(scope="module")
def untraced(vllm, tmp_path_factory):
    """An engine whose own tracing is off."""
    with ExitStack() as stack:
        yield deployed(stack, vllm, tmp_path_factory.mktemp("untraced"), "http", engine_traces=False)


def test_one_request_is_one_trace(traced):
    """Caller, engine and tiers in one tree; tokens sum to the prompt, as engine and API have it. UD-56."""
    trace_id, answer = traced.call("one")

    spans = traced.trace(trace_id, 3)

    ((caller,), (engine,), (lookup,)) = (spans[name] for name in ("one", "llm_request", "kv.lookup"))
    assert engine.parent_span_id == lookup.parent_span_id == caller.span_id
    assert [traced.receiver.services[span.span_id] for span in (caller, engine, lookup)] == [
        "shop",
        "vllm",
        "tierscope-exporter",
    ]
    told, engines = attributes_on(lookup), attributes_on(engine)
    assert told["gen_ai.request.id"] == engines["gen_ai.request.id"]
    assert told["tierscope.tokens.prompt"] == engines["gen_ai.usage.prompt_tokens"]
    assert told["tierscope.tokens.prompt"] == answer["usage"]["prompt_tokens"]
    assert sum(told[f"tierscope.tokens.{part}"] for part in PARTS) == told["tierscope.tokens.prompt"]
    cached = (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    assert told["tierscope.tokens.l0"] == cached


def test_completions_of_one_request_are_spans_with_one_id(traced):
    """n=2: the engine and we send two spans each, told apart by their span ids alone."""
    trace_id, _ = traced.call("two", n=2, temperature=0.8)

    spans = traced.trace(trace_id, 5)

    assert {name: len(found) for name, found in spans.items()} == {
        "two": 1,
        "llm_request": 2,
        "kv.lookup": 2,
    }
    both = spans["llm_request"] + spans["kv.lookup"]
    assert len({attributes_on(span)["gen_ai.request.id"] for span in both}) == 1
    assert {span.parent_span_id for span in both} == {spans["two"][0].span_id}


def test_a_caller_that_does_not_record_gets_no_span(traced):
    """Neither from the engine nor from us; a later request's spans show that there was time for it."""
    unrecorded = f"{7:032x}"
    traced.ask({"traceparent": f"00-{unrecorded}-{7:016x}-00"})
    trace_id, _ = traced.call("later")

    traced.trace(trace_id, 3)

    assert not [span for span in traced.receiver.spans if span.trace_id.hex() == unrecorded]


def test_without_a_caller_the_request_id_joins_two_traces(traced):
    """The engine begins one and we begin one."""
    traced.ask({"X-Request-Id": "nobody"})

    def spans():
        found = [span for span in traced.receiver.spans if span.name in {"llm_request", "kv.lookup"}]
        return [span for span in found if attributes_on(span)["gen_ai.request.id"] == "cmpl-nobody-0"]

    assert traced.receiver.wait(lambda: len(spans()) == 2, SPANS_SECONDS)
    assert {span.parent_span_id for span in spans()} == {b""}
    assert len({span.trace_id for span in spans()}) == 2


def test_with_the_engines_tracing_off_the_request_id_names_the_caller(untraced):
    """The header does not arrive; a traceparent sent as the id does, and is what the answer shows."""
    trace_id, answer = untraced.call("named", as_request_id=True)

    spans = untraced.trace(trace_id, 2)

    assert set(spans) == {"named", "kv.lookup"}
    assert spans["kv.lookup"][0].parent_span_id == spans["named"][0].span_id
    assert attributes_on(spans["kv.lookup"][0])["gen_ai.request.id"] == f"{answer['id']}-0"


def test_with_the_engines_tracing_off_the_header_alone_is_lost(untraced):
    """The admission is in a trace of its own, and has the id that the answer shows."""
    trace_id, answer = untraced.call("lost")

    def lookups():
        found = [span for span in untraced.receiver.spans if span.name == "kv.lookup"]
        return [span for span in found if attributes_on(span)["gen_ai.request.id"].startswith(answer["id"])]

    assert untraced.receiver.wait(lambda: len(lookups()) == 1, SPANS_SECONDS)
    (lookup,) = lookups()
    assert lookup.trace_id != trace_id
    assert lookup.parent_span_id == b""
