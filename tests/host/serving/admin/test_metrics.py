"""What Prometheus scrapes."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sealhost.host.engine.request import EngineStats
from sealhost.host.serving.telemetry import Histogram, Outcome, outcome_of

RUNNING = 'sealhost_requests_running{model="lab"}'


def count(desk: Any, outcome: str, endpoint: str = "completions") -> float:
    return desk.scrape()[f'sealhost_requests_total{{endpoint="{endpoint}",outcome="{outcome}"}}']


def test_what_is_scraped_parses_and_names_every_family_once(desk: Any) -> None:
    desk.ask()
    answer = desk.admin.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    ours = {name for name in names if name.startswith("sealhost_")}
    assert all(family.documentation and family.type != "unknown" for family in families)
    assert len(ours) == 24
    assert "process_resident_memory_bytes" in names


def test_requests_are_counted_by_how_they_ended(desk: Any) -> None:
    post = desk.data.post
    desk.ask()
    assert post("/v1/completions", json={"prompt": "a", "nonsense": 1}).status_code == 400
    assert post("/v1/completions", json={"prompt": "a", "model": "x"}).status_code == 404
    engine = desk.host.planes[3].engine
    engine.failure = ZeroDivisionError("no SealhostError")
    from sealhost.host.errors import InternalError

    engine.failure = InternalError("step", "expected a step, got none")
    assert post("/v1/completions", json={"prompt": "a"}).status_code == 500
    engine.failure = None
    desk.admin.post("/admin/drain")
    assert post("/v1/completions", json={"prompt": "a"}).status_code == 503
    told = [count(desk, outcome) for outcome in ("finished", "refused", "failed", "unavailable", "cancelled")]
    assert told == [1, 2, 1, 1, 0]
    assert desk.scrape()["sealhost_ready"] == 0


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(400, "refused"), (404, "refused"), (413, "refused"), (429, "unavailable"), (503, "unavailable"), (500, "failed")],
)
def test_an_outcome_is_one_of_a_few(status: int, outcome: str) -> None:
    assert outcome_of(status) is Outcome(outcome)


def test_a_stream_that_fails_halfway_counts_as_failed(desk: Any) -> None:
    from sealhost.host.errors import InternalError

    engine = desk.host.planes[3].engine
    engine.failure, engine.fail_at = InternalError("step", "expected a step, got none"), 2
    answer = desk.data.post("/v1/completions", json={"prompt": "a", "stream": True})
    assert answer.status_code == 200
    assert "internal_error" in answer.text
    assert (count(desk, "failed"), count(desk, "finished")) == (1, 0)


def test_no_text_of_a_client_becomes_a_label(desk: Any) -> None:
    desk.ask()
    before = set(desk.scrape())
    for number in range(50):
        body = {"model": f"made-up-{number}", "prompt": "a", f"field-{number}": 1, "sampler": f"s{number}"}
        desk.data.post("/v1/completions", json=body)
        desk.data.get(f"/path-{number}", headers={"user-agent": f"agent-{number}"})
        desk.data.post("/v1/completions", json={"model": f"made-up-{number}", "prompt": "a"})
    assert set(desk.scrape()) == before


def test_tokens_are_counted_and_timed(desk: Any) -> None:
    for stream in (False, True):
        body = {"model": "lab", "prompt": "1234", "n": 2, "stream": stream, "max_tokens": 5}
        assert desk.data.post("/v1/completions", json=body).status_code == 200
    told = desk.scrape()
    assert told['sealhost_prompt_tokens_total{model="lab"}'] == 8
    assert told['sealhost_completion_tokens_total{model="lab"}'] == 20
    assert told['sealhost_time_to_first_token_seconds_count{model="lab"}'] == 4
    assert told['sealhost_inter_token_seconds_count{model="lab"}'] == 16
    assert told['sealhost_time_to_first_token_seconds_bucket{le="60.0",model="lab"}'] == 4
    assert 0 < told['sealhost_time_to_first_token_seconds_sum{model="lab"}'] < 40


def test_a_histogram_puts_each_value_under_the_first_edge_that_holds_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        histogram.observe(value)
    assert histogram.cumulative() == [2, 4, 5]
    assert histogram.total == 104.0


# ---- row R132: gauges that froze when everybody left at once


def test_after_twenty_clients_have_left_at_once_every_gauge_is_zero_at_the_next_scrape(desk: Any, until: Any) -> None:
    plane = desk.host.planes[3]
    plane.engine.pause_at = 2
    twenty = 20

    async def scenario() -> None:
        port = desk.data.base_url.port
        writers = []
        for _ in range(twenty):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            body = json.dumps({"model": "lab", "prompt": "go", "stream": True}).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            writers.append(writer)
        await asyncio.to_thread(plane.engine.wait_for, lambda engine: len(engine._running) == twenty)
        assert (await asyncio.to_thread(desk.scrape))[RUNNING] == twenty
        for writer in writers:  # all in one tick
            writer.transport.abort()

    asyncio.run(scenario())
    plane.engine.wait_for(lambda engine: engine.idle)
    told = desk.scrape()
    for name in ("requests_running", "requests_waiting", "kv_blocks_used"):
        assert told[f'sealhost_{name}{{model="lab"}}'] == 0
    until(lambda: count(desk, "cancelled") == twenty)
    assert desk.models()["requests"] == 0


def test_gauges_of_an_engine_are_those_of_the_moment_and_sum_over_its_versions(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    for version, running in ((3, 2), (4, 5)):
        stats = EngineStats(running=running, waiting=1, kv_free_blocks=6, kv_total_blocks=10)
        monkeypatch.setattr(desk.host.planes[version].engine, "stats", lambda stats=stats: stats)
    told = desk.scrape()
    assert told[RUNNING] == 7
    assert told['sealhost_requests_waiting{model="lab"}'] == 2
    assert told['sealhost_kv_blocks_used{model="lab"}'] == 8
    assert told['sealhost_kv_blocks{model="lab"}'] == 20
    assert told['sealhost_kv_bytes{model="lab",type="int8"}'] == 2 * 4096


def test_bundles_and_plugins_are_those_that_are_served(desk: Any) -> None:
    digest = desk.swap(desk.bundle(4)).json()["digest"]
    told = desk.scrape()
    assert told[f'sealhost_bundle_info{{digest="{digest}",model="lab",version="4"}}'] == 1
    assert sum(name.startswith("sealhost_bundle_info") for name in told) == 1
    labels = f'bundle="{digest[:12]}",model="lab",plugin="standard",role="sampler"'
    kinds = f'bundle="{digest[:12]}",kind="trap",model="lab",plugin="standard",role="sampler"'
    assert told[f"sealhost_plugin_calls_total{{{labels}}}"] == 40
    assert told[f"sealhost_plugin_sessions_total{{{labels}}}"] == 7
    assert told[f"sealhost_plugin_quarantined{{{labels}}}"] == 0
    assert told[f"sealhost_plugin_failures_total{{{kinds}}}"] == 2
    quantiles = {
        q: f'bundle="{digest[:12]}",model="lab",plugin="standard",quantile="{q}",role="sampler"'
        for q in ("0.5", "0.99")
    }
    assert [told[f"sealhost_plugin_call_seconds{{{one}}}"] for one in quantiles.values()] == pytest.approx(
        [12e-6, 8e-5]
    )


def test_fuel_is_told_where_it_is_counted(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fuel() -> dict[str, float]:
        return {key: value for key, value in desk.scrape().items() if key.startswith("sealhost_plugin_call_fuel")}

    assert fuel() == {}
    _, guest = desk.deployment.places["lab"].current.guests[0]
    counted = replace(guest.stats(), p50_fuel=900.0, p99_fuel=1500.0)
    monkeypatch.setattr(type(guest), "stats", lambda _: counted)
    assert sorted(set(fuel().values())) == [900, 1500]


def test_plugins_of_every_loaded_version_are_listed_with_what_they_did(desk: Any) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    listed = desk.admin.get("/admin/plugins").json()["plugins"]
    assert [(one["version"], one["role"], one["name"]) for one in listed] == [
        (version, role, name) for version in (4, 3) for role, name in (("tokenizer", "bpe"), ("sampler", "standard"))
    ]
    assert listed[0]["failures"] == {"trap": 2}
    assert {"sessions", "live", "refused", "calls", "strikes", "quarantined_s", "p50_us", "p99_us"} <= set(listed[0])


def test_operations_are_counted_by_how_they_ended(desk: Any) -> None:
    desk.swap(desk.bundle(4))
    desk.swap(desk.folder / "nothing")
    desk.rollback()
    desk.host.error = ZeroDivisionError()
    desk.swap(desk.bundle(5))
    told = desk.scrape()
    swaps = [told[f'sealhost_operations_total{{kind="swap",outcome="{o}"}}'] for o in ("finished", "refused", "failed")]
    assert swaps == [1, 1, 1]
    assert told['sealhost_operations_total{kind="rollback",outcome="finished"}'] == 1


def test_a_scrape_holds_up_no_client_and_needs_no_ready_host(make_desk: Any) -> None:
    desk = make_desk(start=False)
    assert desk.scrape()["sealhost_ready"] == 0
    with socket.create_connection(("127.0.0.1", desk.data.base_url.port)):
        assert desk.admin.get("/metrics").status_code == 200
    assert isinstance(desk.data, httpx.Client)
