"""Who may steer a host."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from sealhost.host.cli.admin_options import AdminOptions, check_guarded
from sealhost.host.errors import UsageError
from sealhost.host.serving.server import bind

GUARDED = ("/metrics", "/admin/models", "/admin/plugins", "/admin/operation", "/admin/swap", "/nowhere", "/livez/")
HEALTH = ("/livez", "/readyz", "/health")


def test_with_a_key_every_path_but_health_needs_it(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(admin_keys=("the-admin-key", "another-key"))
    for authorization in ("", "Bearer wrong", "Basic the-admin-key", "the-admin-key", "Bearer the-admin-key2"):
        headers = {"authorization": authorization}
        for path in GUARDED:
            for method in ("GET", "POST"):
                answer = desk.admin.request(method, path, headers=headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_admin_key"), path
        for path in HEALTH:
            assert desk.admin.get(path, headers=headers).status_code == 200
    answer = desk.admin.get("/admin/models")
    assert answer.status_code == 200
    assert answer.json()["models"][0]["engine"]["running"] == 0
    assert desk.admin.get("/admin/models", headers={"authorization": "bearer another-key"}).status_code == 200


def test_with_a_key_any_name_of_the_host_will_do(make_desk: Callable[..., Any]) -> None:
    desk = make_desk(admin_keys=("the-admin-key",))
    assert desk.admin.get("/admin/models", headers={"host": "host-7.example.org:8081"}).status_code == 200


HOSTS = {
    "localhost": 200,
    "localhost:8081": 200,
    "LOCALHOST": 200,
    "127.0.0.1:1": 200,
    "[::1]:8081": 200,
    "[::1]": 200,
    "example.org": 403,
    "localhost.example.org": 403,
    "127.0.0.1.example.org:8081": 403,
    "127.0.0.2": 403,
    "example.org@localhost:x": 400,
    "example.org@localhost": 400,
    "localhost, example.org": 400,
    "localhost:": 403,
    "[": 403,
    "": 403,
}


def test_without_a_key_a_name_that_another_machine_could_have_is_refused(desk: Any) -> None:
    for path in ("/metrics", "/admin/models", "/livez"):
        answers = {host: desk.admin.get(path, headers={"host": host}) for host in HOSTS}
        assert {host: answer.status_code for host, answer in answers.items()} == HOSTS
        codes = {answer.json()["error"]["code"] for answer in answers.values() if answer.status_code == 403}
        assert codes == {"host_refused"}
    assert desk.admin.get("/nowhere", headers={"host": "example.org"}).status_code == 403


def test_without_a_key_a_request_of_no_or_of_two_names_is_refused(desk: Any) -> None:
    port = int(desk.admin_url.rpartition(":")[2])
    for head in (b"", b"host: localhost\r\nhost: example.org\r\n", b"host: example.org\r\nhost: localhost\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
            client.sendall(b"GET /livez HTTP/1.1\r\n" + head + b"connection: close\r\n\r\n")
            assert client.recv(65536).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400"))


@pytest.mark.parametrize("keys", [(), ("the-admin-key",)])
def test_a_web_page_is_refused_with_and_without_a_key(make_desk: Callable[..., Any], keys: tuple[str, ...]) -> None:
    desk = make_desk(admin_keys=keys)
    for origin in ("http://localhost:3000", "http://127.0.0.1", "https://example.org", "null", ""):
        for method, path in (("POST", "/admin/drain"), ("GET", "/metrics"), ("OPTIONS", "/admin/swap")):
            answer = desk.admin.request(method, path, headers={"origin": origin})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_refused")
            assert not any(name.startswith("access-control") for name in answer.headers)
    assert desk.models()["phase"] == "ready"


def test_each_plane_answers_its_own_paths_alone(desk: Any) -> None:
    for path in ("/v1/models", "/v1/chat/completions", "/tokenize"):
        assert desk.admin.post(path, json={}).json()["error"]["code"] == "not_found"
    for method, path in (("GET", "/admin/swap"), ("DELETE", "/admin/models"), ("POST", "/metrics")):
        answer = desk.admin.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    for path in ("/metrics", "/admin/models", "/admin/plugins", "/admin/swap", "/admin/drain"):
        for method in ("GET", "POST"):
            assert desk.data.request(method, path, json={}).json()["error"]["code"] == "not_found"


def test_without_a_key_only_an_address_of_this_machine_will_do() -> None:
    with bind("127.0.0.1", 0) as here, bind("0.0.0.0", 0) as everywhere:  # noqa: S104 — what is refused
        check_guarded(here, [])
        check_guarded(everywhere, ["the-admin-key"])
        with pytest.raises(UsageError, match=r"--admin-host: expected an admin key.*--admin-key-file"):
            check_guarded(everywhere, [])


def test_an_admin_key_that_is_an_api_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALHOST_ADMIN_KEY", "the-same-key")
    assert AdminOptions().keys(["another-key"]) == ["the-same-key"]
    with pytest.raises(UsageError, match="no API key"):
        AdminOptions().keys(["another-key", "the-same-key"])
