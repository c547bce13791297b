"""Another version takes the place of the one that is served; whatever fails leaves the old one serving."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sealhost.host.errors import WeightsError
from sealhost.host.serving.operations import untold
from sealhost.sandbox import AdmissionError
from sealhost.signing.errors import Code, SealError

STREAM_TOKENS = 200


def test_a_newer_version_answers_from_the_swap_on(desk: Any) -> None:
    before = desk.ask()
    assert before[0] == "version 3"
    answer = desk.swap(root := desk.bundle(4))
    assert answer.status_code == 200
    told = answer.json()
    assert (told["name"], told["version"], told["changed"], told["path"]) == ("lab", 4, True, str(root))
    assert told["was"] == {"version": 3, "digest": told["was"]["digest"]}
    assert desk.ask() == ("version 4", "fp_" + told["digest"][:12])
    assert desk.mark() == 4
    assert desk.models()["models"][0]["previous"]["loaded"]


def test_a_bundle_that_is_served_already_changes_nothing(desk: Any) -> None:
    root = desk.deployment.places["lab"].current.bundle.root
    assert desk.swap(root).json()["changed"] is False
    assert desk.host.open_now == [3]
    assert desk.models()["models"][0]["previous"] is None


def test_a_copy_of_what_is_served_that_was_tampered_with_is_refused(desk: Any, refused_with: Any) -> None:
    root = desk.deployment.places["lab"].current.bundle.root
    data = (root / "model.gguf").read_bytes()
    (root / "model.gguf").write_bytes(data[:-1] + b"x")
    refused_with(desk.swap(root), 422, "E_DIGEST")
    assert desk.ask()[0] == "version 3"


def test_a_name_alone_reads_its_directory_anew(desk: Any) -> None:
    root = desk.deployment.places["lab"].current.bundle.root
    root.rename(root.with_suffix(".old"))
    desk.bundle(4).rename(root)
    assert desk.admin.post("/admin/swap", json={"name": "lab"}).json()["version"] == 4
    assert desk.ask()[0] == "version 4"


def test_a_swap_of_one_model_leaves_the_others_alone(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(start=False)
    roots = [desk.bundle(3), desk.bundle(8, name="other")]
    desk.deployment.start(roots, [], untold, lambda _: None)
    before = desk.ask("other")
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert (desk.ask()[0], desk.ask("other")) == ("version 4", before)
    listed = desk.data.get("/v1/models").json()["data"]
    assert [one["id"] for one in listed] == ["lab", "other"]
    assert (desk.mark(), desk.mark("other")) == (4, 8)


# ---- row R96: what is signed is not yet what was asked for


def test_a_good_bundle_of_another_model_does_not_take_a_models_place(desk: Any, refused_with: Any) -> None:
    other = desk.bundle(9, name="other")
    assert (
        "expected a bundle of lab, got one of other"
        in refused_with(desk.swap(other, name="lab"), 400, "E_USAGE")["message"]
    )
    assert "expected one of lab, got other" in refused_with(desk.swap(other), 400, "E_USAGE")["message"]
    assert desk.ask()[0] == "version 3"


def test_the_signature_of_one_model_does_not_pass_for_another(desk: Any, refused_with: Any) -> None:
    other, mine = desk.bundle(9, name="other"), desk.bundle(9)
    (mine / "bundle.sig").write_bytes((other / "bundle.sig").read_bytes())
    refused_with(desk.swap(mine), 422, "E_SIG")
    assert desk.ask()[0] == "version 3"


def test_an_older_version_needs_a_rollback_and_an_equal_one_with_other_bytes_never_passes(
    desk: Any, refused_with: Any
) -> None:
    older = desk.bundle(2)
    assert desk.swap(desk.bundle(4)).status_code == 200
    refused_with(desk.swap(older), 422, "E_ROLLBACK")
    assert desk.swap(desk.bundle(5)).status_code == 200
    refused_with(desk.swap(desk.bundle(5, text=b"x")), 422, "E_EQUIVOCATION")
    assert (desk.ask()[0], desk.mark()) == ("version 5", 5)


# ---- row R130: a swap ends nobody's answer


def test_a_stream_that_began_on_the_old_version_ends_on_it_with_every_token(desk: Any) -> None:
    old = desk.host.planes[3].engine
    old.script, old.pause_at = (lambda _request: list(b"abcdefghij" * (STREAM_TOKENS // 10))), 50
    texts: list[str] = []
    prints: set[str] = set()
    halfway = threading.Event()

    def read() -> None:
        body = {"model": "lab", "prompt": "go", "stream": True, "max_tokens": STREAM_TOKENS, "ignore_eos": True}
        with desk.data.stream("POST", "/v1/completions", json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    chunk = json.loads(line.removeprefix("data: "))
                    texts.extend(one["text"] for one in chunk["choices"])
                    prints.add(chunk["system_fingerprint"])
                if sum(map(len, texts)) >= 50:
                    halfway.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert halfway.wait(120)
    change = desk.swap(desk.bundle(4)).json()
    assert change["still_running"] == 1
    with httpx.Client(base_url=desk.data.base_url, trust_env=False) as another:
        answer = another.post("/v1/completions", json={"prompt": "who?"}).json()
    assert answer["choices"][0]["text"] == "version 4"
    # a further swap has the one before last freed, but not under those who use it
    assert desk.swap(desk.bundle(5)).status_code == 200
    (retiring,) = desk.models()["retiring"]
    assert (retiring["version"], retiring["requests"], desk.host.open_now) == (3, 1, [3, 4, 5])
    old.resume()
    reader.join(120)
    assert "".join(texts) == "abcdefghij" * (STREAM_TOKENS // 10)
    assert prints == {"fp_" + change["was"]["digest"][:12]}
    assert old.cancelled == []
    for thread in list(desk.deployment._retiring):
        thread.join(120)
    assert desk.host.open_now == [4, 5]
    assert desk.models()["retiring"] == []


def test_a_host_that_ends_waits_for_nobody_who_still_uses_an_older_version(desk: Any) -> None:
    with desk.service.registry.hold("lab"):
        assert desk.swap(desk.bundle(4)).status_code == 200
        assert desk.swap(desk.bundle(5)).status_code == 200
        assert [one["version"] for one in desk.models()["retiring"]] == [3]
        desk.deployment.close()
        assert desk.deployment.retiring == []


def test_a_request_that_is_being_encoded_keeps_its_version(desk: Any, until: Any) -> None:
    plane = desk.host.planes[3]
    plane.tokenizer.gate = threading.Event()
    told: list[str] = []
    asking = threading.Thread(target=lambda: told.append(desk.ask()[0]))
    asking.start()
    until(lambda: desk.service.registry.holders(plane.model))
    assert desk.swap(desk.bundle(4)).json()["still_running"] == 1
    plane.tokenizer.gate.set()
    asking.join(120)
    assert told == ["version 3"]


def test_without_keeping_the_one_before_it_is_freed_at_once(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(keep_previous=False)
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.host.open_now == [4]
    assert desk.models()["models"][0]["previous"]["loaded"] is False


def test_a_model_that_cannot_be_freed_makes_no_failure_of_a_swap_that_is_done(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(keep_previous=False)

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    desk.deployment.places["lab"].current._resources.callback(fail)
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert (desk.ask()[0], desk.host.open_now) == ("version 4", [4])


# ---- what fails on the way


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (WeightsError("general.architecture", "expected llama, got rwkv"), 422, "E_GGUF"),
        (AdmissionError("standard", "1.5", "expected no imports, got 1", "build it without"), 422, "E_PLUGIN"),
        (ZeroDivisionError("a bug"), 500, "E_INTERNAL"),
        (MemoryError(), 500, "E_INTERNAL"),
    ],
)
def test_what_cannot_be_loaded_leaves_the_old_one_serving_and_raises_no_mark(
    desk: Any, refused_with: Any, error: Exception, status: int, code: str
) -> None:
    desk.host.error = error
    refused_with(desk.swap(desk.bundle(4)), status, code)
    assert (desk.ask()[0], desk.mark(), desk.host.open_now) == ("version 3", 3, [3])
    desk.host.error = None
    assert desk.swap(desk.bundle(4)).status_code == 200


def test_what_does_not_fit_beside_the_old_one_is_refused_before_it_is_loaded(
    desk: Any, refused_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sealhost.host.memory.available_bytes", lambda: 2003)
    assert "0 MiB" in refused_with(desk.swap(desk.bundle(4)), 400, "E_USAGE")["message"]
    assert (desk.ask()[0], desk.mark(), desk.host.open_now) == ("version 3", 3, [3])
    monkeypatch.setattr("sealhost.host.memory.available_bytes", lambda: None)
    assert desk.swap(desk.bundle(4)).status_code == 200


def test_marks_that_cannot_be_written_keep_the_new_one_from_use_and_free_it(
    desk: Any, refused_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SealError(Code.IO, "state.json", "cannot write: No space left on device", "make room")

    monkeypatch.setattr("sealhost.signing.state.replace_file", fail)
    refused_with(desk.swap(desk.bundle(4)), 422, "E_IO")
    assert (desk.ask()[0], desk.mark(), desk.host.open_now) == ("version 3", 3, [3])


def test_a_newer_version_recorded_meanwhile_by_another_process_wins(desk: Any, refused_with: Any) -> None:
    root, newer = desk.bundle(4), desk.bundle(7)
    desk.host.loading.clear()
    desk.host.gate = threading.Event()
    answers: list[httpx.Response] = []
    swapping = threading.Thread(target=lambda: answers.append(desk.swap(root)))
    swapping.start()
    assert desk.host.loading.wait(120)
    from sealhost.signing import verify

    trust = desk.deployment.judges.trust
    desk.state.record([verify(newer, trust)], trust)
    desk.host.gate.set()
    swapping.join(120)
    refused_with(answers[0], 422, "E_ROLLBACK")
    assert (desk.ask()[0], desk.mark(), desk.host.open_now) == ("version 3", 7, [3])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.write_bytes(state.read_bytes().replace(b"3", b"4", 1)),
        lambda state: state.write_bytes(b""),
        lambda state: state.unlink(),
        lambda state: state.parent.chmod(0o777),
        lambda state: (state.unlink(), state.symlink_to("/dev/null")),
        lambda state: (state.unlink(), os.mkfifo(state)),
    ],
    ids=["flipped", "emptied", "gone", "open to all", "a link", "a fifo"],
)
def test_a_state_that_cannot_be_trusted_stops_swaps_and_rollbacks_and_no_answer(
    desk: Any, refused_with: Any, spoil: Callable[[Path], object]
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    root, opened = desk.bundle(5), list(desk.host.open_now)
    spoil(desk.state.folder / "state.json")
    refused_with(desk.swap(root), 422, "E_STATE")
    refused_with(desk.rollback(), 422, "E_STATE")
    refused_with(desk.admin.post("/admin/keys/reload"), 422, "E_STATE")
    assert (desk.ask()[0], desk.host.open_now) == ("version 4", opened)


# ---- which paths


def test_a_path_outside_of_the_folders_is_refused_and_never_opened(
    desk: Any, refused_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.deployment, "_verify", lambda *_a, **_o: pytest.fail("it was opened"))
    folder = desk.folder
    for path in (
        "models/lab-4",
        folder / ".." / "models" / "lab-3",
        "/etc",
        folder,
        desk.keys,
        "",
        "/" + "a" * 2000 + "/b",
        folder / "a\0b",
        linked(folder / "out", folder.parent / "elsewhere") / "bundle",
        linked(folder / "circle", folder / "circle") / "bundle",
    ):
        refused_with(desk.admin.post("/admin/swap", json={"path": str(path)}), 400, "E_USAGE")
        refused_with(desk.rollback(path=str(path)), 400, "E_USAGE")
    assert desk.ask()[0] == "version 3"


def linked(link: Path, target: Path) -> Path:
    link.symlink_to(target)
    return link


def test_a_body_that_is_none_is_400(desk: Any) -> None:
    for body in (
        b"{}",
        b'{"path": 3}',
        b'{"name": null}',
        b'{"path": "/x", "paht": "/y"}',
        b"[]",
        b"{",
        b'{"path": "\\ud800"}',
        json.dumps({"path": "/a" * 3000}).encode(),
        json.dumps({"name": "a" * 65}).encode(),
    ):
        answer = desk.admin.post("/admin/swap", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"][0].islower()
    assert answer.json()["error"]["param"] == "name"
    assert desk.admin.post("/admin/swap", content=b"{}").status_code == 415


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from(["path", "name", "undo", "x"]), JSON | st.sampled_from(["/", "lab", "/etc"]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(["swap", "rollback", "keys/reload", "drain"]), body=FIELDS | JSON)
def test_whatever_is_posted_is_answered_in_one_shape_and_changes_no_model(desk: Any, path: str, body: Any) -> None:
    answer = desk.admin.post(f"/admin/{path}", json=body)
    assert answer.status_code in {200, 400, 422}
    if answer.status_code != 200:
        assert set(answer.json()["error"]) >= {"message", "type", "param", "code"}
        assert answer.json()["error"]["message"].isprintable()
    assert desk.host.open_now == [3]
    assert desk.admin.post("/admin/drain", json={"undo": True}).json()["phase"] == "ready"


# ---- one at a time, and watched


def test_a_second_operation_is_409_and_the_first_goes_on_when_its_client_goes(
    desk: Any, refused_with: Any, until: Any
) -> None:
    root = desk.bundle(4)
    desk.host.loading.clear()
    desk.host.gate = threading.Event()
    with pytest.raises(httpx.ReadTimeout):
        desk.admin.post("/admin/swap", json={"path": str(root)}, timeout=0.2)
    assert desk.host.loading.wait(120)
    running = desk.admin.get("/admin/operation").json()["running"]
    assert (running["kind"], running["target"], running["stage"]) == ("swap", str(root), "verifying and loading")
    assert (running["done"], running["total"]) == (1, 2)
    for answer in (desk.swap(root), desk.rollback(), desk.admin.post("/admin/keys/reload")):
        assert "got a swap of" in refused_with(answer, 409, "operation_running")["message"]
    assert desk.admin.get("/livez").status_code == 200
    assert desk.ask()[0] == "version 3"
    desk.host.gate.set()
    until(lambda: desk.operations.current is None)
    last = desk.admin.get("/admin/operation").json()["last"]
    assert (last["kind"], last["outcome"], last["error"]) == ("swap", "finished", "")
    assert desk.ask()[0] == "version 4"


def test_a_plane_that_ends_says_so_to_who_waits_and_the_operation_goes_on(
    make_desk: Callable[..., Any], refused_with: Any, until: Any
) -> None:
    desk = make_desk()
    desk.host.loading.clear()
    desk.host.gate = threading.Event()
    answers: list[httpx.Response] = []
    root = desk.bundle(4)
    swapping = threading.Thread(target=lambda: answers.append(desk.swap(root)))
    swapping.start()
    assert desk.host.loading.wait(120)
    desk.admin_server.should_exit = True
    swapping.join(120)
    refused_with(answers[0], 503, "shutting_down")
    desk.host.gate.set()
    until(lambda: desk.operations.current is None)
    assert (desk.operations.last.outcome, desk.ask()[0]) == ("finished", "version 4")


def test_while_the_host_loads_nothing_can_be_swapped(make_desk: Callable[..., Any], refused_with: Any) -> None:
    desk = make_desk(start=False)
    with desk.operations.slot("load", "lab"):
        refused_with(desk.swap(desk.bundle(4)), 409, "operation_running")
        refused_with(desk.admin.post("/admin/drain"), 503, "loading")
    assert desk.models() == {"phase": "loading", "requests": 0, "models": [], "retiring": []}


def test_a_fifo_in_the_bundles_place_hangs_nobody(desk: Any, refused_with: Any) -> None:
    os.mkfifo(desk.folder / "pipe")
    refused_with(desk.swap(desk.folder / "pipe"), 422, "E_FILETYPE")
    assert desk.ask()[0] == "version 3"
