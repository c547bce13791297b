"""A hostile template costs its own renderings an error, and never the host's process, memory or time."""

from __future__ import annotations

import gc
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sealhost.host.errors import TemplateError
from sealhost.host.serving.renderer import Renderer

GROW = "{{% set ns = namespace(x={seed}) %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}"
BOMBS = {
    "a width of terabytes": "{{ '{:2000000000000}'.format(1) }}",
    "a width of gigabytes": "{{ ('{:3000000000}'.format(1)) | length }}",
    "indented by gigabytes": "{{ [1, 2] | tojson(indent=1000000000) }}",
    "separated by gigabytes": "{{ range(2000) | list | tojson(separators=('a' * 1000000, ':')) }}",
    "a list of itself twice, sixty times": GROW.format(seed="[1]", step="[ns.x, ns.x]") + "{{ ns.x | tojson }}",
    "a list doubled sixty times": GROW.format(seed="[1, 2]", step="ns.x + ns.x") + "{{ ns.x | length }}",
}


def process_of(renderer: Renderer) -> int:
    return renderer._child._process.pid


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_ends_in_an_error_and_the_next_rendering_works(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = "{% if messages %}" + source + "{% else %}fine{% endif %}"
    with closing(Renderer(guarded)) as renderer:
        with monkeypatch.context() as patch:
            patch.setattr("sealhost.host.serving.renderer.MAX_SECONDS", 1)
            with pytest.raises(TemplateError, match="E_TEMPLATE chat_template"):
                renderer.render({"messages": [1]})
        assert renderer.render({"messages": []}) == "fine"


def test_a_long_rendering_holds_up_no_other_thread() -> None:
    turns, done = 0, threading.Event()

    def watch() -> None:
        nonlocal turns
        while not done.wait(0.001):
            turns += 1

    watcher = threading.Thread(target=watch)
    with closing(Renderer("{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}")) as renderer:
        renderer.check()
        watcher.start()
        with pytest.raises(TemplateError, match="fuel"):
            renderer.render({})
        done.set()
        watcher.join()
    assert turns > 10  # in this process it would hold the interpreter from beginning to end


def test_closing_ends_a_rendering_and_its_process() -> None:
    renderer = Renderer(BOMBS["a list doubled sixty times"])
    renderer.check()
    pid, refused = process_of(renderer), []

    def render() -> None:
        with pytest.raises(TemplateError) as caught:
            renderer.render({})
        refused.append(caught.value)

    waiting = threading.Thread(target=render)
    waiting.start()
    renderer.close()
    waiting.join(120)
    assert refused
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(TemplateError, match="closed"):
        renderer.render({})


def test_nobody_who_lets_go_of_a_renderer_leaves_a_process_behind() -> None:
    renderer = Renderer("x")
    assert renderer.render({}) == "x"
    pid = process_of(renderer)
    del renderer
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


def test_the_process_sees_no_environment_and_no_open_files_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALHOST_PASSPHRASE", "secret")
    with closing(Renderer("x")) as renderer:
        renderer.check()
        pid = process_of(renderer)
        assert b"SEALHOST" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) == 3


def test_a_process_that_died_is_started_again() -> None:
    with closing(Renderer("{{ x }}")) as renderer:
        assert renderer.render({"x": "é🎉\ud7ff"}) == "é🎉\ud7ff"
        renderer._child.kill()
        with pytest.raises(TemplateError, match="process that ended"):
            renderer.render({"x": 1})
        assert renderer.render({"x": 2}) == "2"


def test_a_large_conversation_passes_through() -> None:
    text = "字" * 1_000_000
    with closing(Renderer("{{ x }}")) as renderer:
        assert renderer.render({"x": text}) == text
