"""The way back: explicit, logged, and never below what the state remembers."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.errors import WeightsError

WEIGHTS_BYTES = 2004
"""Of a bundle of the desk."""


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Leaves so many bytes of memory from here on."""
    return lambda free: monkeypatch.setattr("sealhost.host.memory.available_bytes", lambda: free)


def log_of(desk: Any) -> list[dict[str, Any]]:
    path = desk.state.folder / "log.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_version_before_is_back_at_once_and_the_mark_stays(desk: Any) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    desk.host.error = AssertionError("it was loaded again")
    told = desk.rollback().json()
    assert (told["version"], told["was"]["version"], desk.mark()) == (3, 4, 4)
    assert desk.ask()[0] == "version 3"
    (line,) = log_of(desk)
    assert (line["action"], line["name"], line["version"], line["mark"]) == ("accept older", "lab", 3, 4)


def test_going_back_from_going_back_is_going_forward(desk: Any) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert [desk.rollback().json()["version"] for _ in range(4)] == [3, 4, 3, 4]
    assert (desk.ask()[0], desk.mark(), desk.host.open_now) == ("version 4", 4, [3, 4])
    assert [line["version"] for line in log_of(desk)] == [3, 3]


def test_what_is_not_loaded_any_more_is_opened_again(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(keep_previous=False)
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.host.open_now == [4]
    assert desk.rollback().json()["version"] == 3
    assert (desk.ask()[0], desk.mark(), desk.host.open_now) == ("version 3", 4, [3])


@pytest.mark.parametrize("error", [MemoryError(), WeightsError("general.architecture", "expected llama, got rwkv")])
def test_a_swap_that_fails_while_it_loads_costs_no_way_back_where_memory_has_room_for_three(
    desk: Any, refused_with: Any, error: Exception
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    desk.host.error = error
    assert desk.swap(desk.bundle(5)).status_code in {422, 500}
    assert (desk.ask()[0], desk.host.open_now) == ("version 4", [3, 4])
    assert desk.rollback().json()["version"] == 3
    assert desk.host.open_now == [3, 4]


def test_where_memory_has_room_for_two_only_the_one_before_is_freed_first_and_read_anew(
    desk: Any, refused_with: Any, scarce: Callable[[int], None]
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    scarce(WEIGHTS_BYTES)
    desk.host.error = MemoryError()
    refused_with(desk.swap(desk.bundle(5)), 500, "E_INTERNAL")
    assert (desk.ask()[0], desk.host.open_now) == ("version 4", [4])
    desk.host.error = None
    assert desk.rollback().json()["version"] == 3
    assert desk.host.open_now == [4, 3]


@pytest.mark.parametrize("in_use", [False, True])
def test_what_cannot_fit_is_refused_before_the_way_back_is_freed_for_it(
    desk: Any, refused_with: Any, scarce: Callable[[int], None], in_use: bool
) -> None:
    holder = desk.service.registry.hold("lab") if in_use else contextlib.nullcontext()
    with holder:  # what a request uses is not freed for a load
        assert desk.swap(desk.bundle(4)).status_code == 200
        scarce(WEIGHTS_BYTES - 1)
        much = desk.bundle(5) if in_use else desk.bundle(5, text=b"more than freeing it gives")
        assert "of memory beside what is served" in refused_with(desk.swap(much), 400, "E_USAGE")["message"]
        assert desk.host.open_now == [3, 4]
    assert desk.rollback().json()["version"] == 3
    assert desk.host.open_now == [3, 4]


def test_a_bundle_whose_last_byte_is_bad_does_not_cost_the_way_back(
    desk: Any, refused_with: Any, scarce: Callable[[int], None]
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    scarce(WEIGHTS_BYTES)
    fifth = desk.bundle(5)
    with (fifth / "model.gguf").open("r+b") as weights:
        weights.seek(-1, 2)
        weights.write(b"!")
    refused_with(desk.swap(fifth), 422, "E_DIGEST")
    assert desk.host.open_now == [3, 4]
    desk.host.error = AssertionError("it was loaded again")
    assert desk.rollback().json()["version"] == 3


def test_a_directory_that_becomes_another_bundle_meanwhile_does_not_cost_the_way_back(
    desk: Any, refused_with: Any, scarce: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    scarce(WEIGHTS_BYTES)
    fifth, sixth = desk.bundle(5), desk.bundle(6)
    audits = desk.deployment._audit
    monkeypatch.setattr(desk.deployment, "_audit", lambda _root, trust, **more: audits(sixth, trust, **more))
    assert "somebody is writing" in refused_with(desk.swap(fifth), 400, "E_USAGE")["message"]
    assert desk.host.open_now == [3, 4]


def test_without_anything_before_there_is_no_way_back(desk: Any, refused_with: Any) -> None:
    assert "got none since the start" in refused_with(desk.rollback(), 400, "E_USAGE")["message"]
    refused_with(desk.rollback(name="other"), 400, "E_USAGE")
    assert desk.ask()[0] == "version 3"


def test_another_directory_may_be_gone_back_to_if_it_is_older(desk: Any, refused_with: Any) -> None:
    second, fifth = desk.bundle(2), desk.bundle(5)
    refused_with(desk.rollback(path=str(fifth)), 400, "E_USAGE")
    refused_with(desk.rollback(path=str(desk.bundle(2, name="other"))), 400, "E_USAGE")
    refused_with(desk.rollback(path="/etc"), 400, "E_USAGE")
    assert (desk.ask()[0], log_of(desk)) == ("version 3", [])
    assert desk.rollback(path=str(second)).json()["version"] == 2
    assert (desk.ask()[0], desk.mark()) == ("version 2", 3)
    assert [line["version"] for line in log_of(desk)] == [2]


def test_a_directory_whose_contents_are_others_by_now_is_no_way_back(
    make_desk: Callable[..., Any], refused_with: Any
) -> None:
    desk = make_desk(keep_previous=False)
    root = desk.deployment.places["lab"].current.bundle.root
    assert desk.swap(desk.bundle(4)).status_code == 200
    shutil.rmtree(root)
    desk.bundle(3, text=b"other").rename(root)
    assert "which was served before" in refused_with(desk.rollback(), 400, "E_USAGE")["message"]
    assert (desk.ask()[0], log_of(desk)) == ("version 4", [])


def test_the_same_version_with_other_bytes_is_no_way_back(desk: Any, refused_with: Any) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.rollback().json()["version"] == 3
    refused_with(desk.rollback(path=str(desk.bundle(3, text=b"x"))), 400, "E_USAGE")
    assert desk.ask()[0] == "version 3"


def test_a_way_back_that_cannot_be_logged_is_not_taken(
    desk: Any, refused_with: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert desk.swap(desk.bundle(4)).status_code == 200
    (desk.state.folder / "log.jsonl").mkdir()
    refused_with(desk.rollback(), 422, "E_IO")
    assert desk.ask()[0] == "version 4"


def test_a_higher_version_ends_what_a_rollback_has_let_pass(desk: Any, refused_with: Any) -> None:
    third = desk.deployment.places["lab"].current.bundle.root
    assert desk.swap(desk.bundle(4)).status_code == 200
    assert desk.rollback().json()["version"] == 3
    assert desk.swap(desk.bundle(5)).status_code == 200
    refused_with(desk.swap(third), 422, "E_ROLLBACK")
    assert (desk.ask()[0], desk.mark()) == ("version 5", 5)
