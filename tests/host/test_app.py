"""Models of one process: each is closed by itself, and then its memory is free."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sealhost.host.cli.main import run
from sealhost.host.config import EngineConfig

pytestmark = pytest.mark.model

CONFIG = EngineConfig(context=256, kv_bytes=8 << 20, threads=1)


@pytest.fixture(scope="module")
def verified(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    """The demo model's bundle, verified anew at each call."""
    from sealhost.signing import DirectoryTrust, verify

    folder = tmp_path_factory.mktemp("app")
    root, keys = folder / "bundle", folder / "keys"
    keys.mkdir()
    assert run(["keygen", "acme", "--out", str(folder), "--no-passphrase"]) == 0
    (folder / "acme.pub").rename(keys / "acme.pub")
    assert run(["pack", str(smollm2_gguf), "--out", str(root), "--name", "smollm2", "--version", "1"]) == 0
    assert run(["sign", str(root), "--key", str(folder / "acme.key")]) == 0
    return lambda: verify(root, DirectoryTrust(keys), reading="ahead")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Whatever is freed meanwhile is freed because nobody holds it any more."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_model_that_was_closed_is_freed_while_others_go_on(verified: Callable[[], Any]) -> None:
    from sealhost.host.app import Host

    with Host(CONFIG) as host:
        first, second = host.open(verified()), host.open(verified())
        parts = [
            weakref.ref(part)
            for part in (
                first.served.engine,
                first.loaded.model,
                first.served.tokenizer,
                *first.loaded.samplers.values(),
            )
        ]
        first.close()
        first.close()
        del first
        assert [part() for part in parts] == [None] * len(parts)
        assert second.served.tokenizer.encode("a", add_special=False, parse_special=False)


def test_a_model_that_cannot_fit_is_refused_before_it_is_loaded(
    verified: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sealhost.host import app
    from sealhost.host.errors import UsageError

    bundle = verified()
    monkeypatch.setattr("sealhost.host.memory.available_bytes", lambda: bundle.weights.size - 1)
    with app.Host(CONFIG) as host:
        with pytest.raises(
            UsageError, match=r"93 MiB of memory beside what runs on this machine, got 93 MiB"
        ) as caught:
            host.open(bundle)
        assert caught.value.remedy == "free some, or take a smaller model"
        with pytest.raises(ValueError, match="finished or closed"):
            bundle.weights.view(0, 4)
        monkeypatch.setattr("sealhost.host.memory.available_bytes", lambda: bundle.weights.size)
        host.open(verified())


@pytest.mark.usefixtures("no_collector")
def test_a_model_that_makes_no_first_token_leaves_nothing_behind(
    verified: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sealhost.host import app
    from sealhost.host.errors import InternalError

    engines: list[weakref.ref[Any]] = []

    def fail(model: Any) -> None:
        engines.append(weakref.ref(model.engine))
        raise InternalError("first token", "expected one, got none")

    with app.Host(CONFIG) as host:
        monkeypatch.setattr(app, "_first_token", fail)
        with pytest.raises(InternalError):
            host.open(verified())
        assert engines[0]() is None
