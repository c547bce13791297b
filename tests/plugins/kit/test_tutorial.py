"""The tutorial of plugins/README.md, run as it stands: its commands, its code, its request."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sealhost.host.cli import plugin_build
from sealhost.host.cli.main import run
from sealhost.plugins import PLUGINS

TUTORIAL = (PLUGINS / "README.md").read_text().split("## From nothing")[1].split("\n## ")[0]
PATIENCE_S = 120.0
LANGUAGES = {"c": "calm", "zig": "serene"}
"""The plugin's name in each language's run, so that one server can have all of them."""
if plugin_build._rustc() is not None:
    LANGUAGES["rust"] = "placid"
if shutil.which("asc") is not None:
    LANGUAGES["assemblyscript"] = "tranquil"
HEADS = {
    "plugin.c": "static int32_t sample(void) {\n",
    "plugin.zig": "pub fn step() i32 {\n",
    "plugin.rs": "fn step(&mut self, step: &mut Step) -> Outcome {\n",
    "plugin.ts": "function sample(): i32 {\n",
}
BLOCKS = {"assemblyscript": "ts"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)


def obey(commands: str) -> None:
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "sealhost"
        assert run(arguments) == 0, command


def write_plugin(lang: str, name: str) -> None:
    """Steps 1 and 2."""
    first, second = (block.replace("calm", name).replace("--lang c", f"--lang {lang}") for block in blocks("sh")[:2])
    obey(first)
    source, cases = Path(name, plugin_build.TOOLCHAINS[lang].source), Path(name, "golden.json")
    before, head = source.read_text(), HEADS[source.name]
    (mine,), (case,) = blocks(BLOCKS.get(lang, lang)), blocks("json")
    assert before.count(head) == 1
    source.write_text(before.replace(head, head + mine))
    cases.write_text(json.dumps([*json.loads(cases.read_text()), json.loads(case)]))
    obey(second)


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> Iterator[Path]:
    """The folder of someone who has done steps 1 to 3 in every language; the key is made once."""
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(folder / name))
        keygen, *publish = blocks("sh")[2].splitlines()
        obey(keygen)
        for lang, name in LANGUAGES.items():
            write_plugin(lang, name)
            obey("\n".join(publish).replace("calm", name))
        yield folder


def test_the_tutorials_steps_are_all_there():
    assert len(blocks("sh")) == 4
    assert all(line.startswith("sealhost ") for block in blocks("sh") for line in block.splitlines())


@pytest.mark.parametrize(("lang", "name"), LANGUAGES.items())
def test_from_nothing_to_a_signed_bundle(lang, name, reader):
    from sealhost.signing import inspect

    facts = inspect(reader / f"{name}-1")
    assert facts["manifest"]["kind"] == "plugin"
    assert [plugin["name"] for plugin in facts["manifest"]["plugins"]] == [name]
    assert len(facts["claimed_signers"]) == 1
    assert (reader / name / plugin_build.TOOLCHAINS[lang].source).exists()


@pytest.fixture
def asked(reader, smollm2_gguf, start_sealhost) -> Iterator[str]:
    """Steps 4 and 5: the address that the page asks, of a server with all bundles."""
    (reader / "model.gguf").symlink_to(smollm2_gguf)
    *prepare, serve = blocks("sh")[3].splitlines()
    obey("\n".join(prepare))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    others = [f"--plugin={name}-1" for name in LANGUAGES.values() if name not in serve]
    process = start_sealhost([*shlex.split(serve.replace("8080", port))[1:], *others])
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("ready: "):
            break
    assert said[-1].startswith("ready: "), said
    yield re.search(r"curl (\S+)", TUTORIAL)[1].replace("8080", port)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    process.stderr.close()


@pytest.mark.model
def test_the_signed_samplers_answer_a_request(asked: str):
    body = json.loads(re.search(r"-d '(.*?)'", TUTORIAL)[1])
    for name in LANGUAGES.values():
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            answer = client.post(asked, json=body | {"sampler": name}).json()
        assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (5, "stop"), answer
