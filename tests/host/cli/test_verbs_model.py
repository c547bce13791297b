"""The verbs that answer on the terminal, on the real model."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import reference_plugin

pytestmark = pytest.mark.model

FRANCE = "What is the capital of France?"


@pytest.fixture
def bundle_arguments(signed_smollm2: Any) -> tuple[str, list[str]]:
    return str(signed_smollm2.root), ["--keys", str(signed_smollm2.keys)]


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_run_prints_the_answer_alone(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    root, keys = bundle_arguments
    assert run(["run", root, FRANCE, "--system", "Answer in one sentence.", *keys]) == 0
    output = capsys.readouterr()
    assert output.out == "The capital of France is Paris.\n"
    assert run(["run", root, "The capital of France is", "--raw", "--max-tokens", "1", *keys]) == 0
    output = capsys.readouterr()
    assert output.out == " Paris\n"
    assert output.err.splitlines()[-1] == "[cut after 1 token by --max-tokens]"


def test_run_refuses_nonsense_in_one_line(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    root, keys = bundle_arguments
    assert run(["run", root, "a", "--temperature", "-1", *keys]) == 2
    assert run(["run", root, "a\udcff", *keys]) == 2
    assert run(["run", root, "a", "--sampler-config", "{", *keys]) == 2
    assert run(["run", root, "a", "--sampler-config", '{"tau": 1}', *keys]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("E_")] == ["E_USAGE"] * 4
    wheres = [line.split()[1] for line in lines if line.startswith("E_")]
    assert wheres == ["--temperature:", "prompt:", "--sampler-config:", "--sampler-config.tau:"]


def test_chat_keeps_the_conversation_until_exit(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, keys = bundle_arguments
    lines = (FRANCE, "", "/help", "word " * 300, "/clear", FRANCE, "/exit", "never")
    feed(monkeypatch, "\n".join(lines).encode())
    options = ["--system", "Answer in one sentence.", "--temperature", "0", "--context", "128"]
    assert run(["chat", root, *options, *keys]) == 0
    output = capsys.readouterr()
    assert output.out == "The capital of France is Paris.\n" * 2
    assert output.err.count("/clear forgets the conversation") == 2  # once at the start, once for /help
    assert "127 tokens" in output.err  # the line that did not fit is refused, and the conversation goes on


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (["--plugin-memory-mib", "8"], "memory"),
        (["--plugin-fuel", "1"], "fuel"),
    ],
)
def test_what_the_operator_allows_plugins_is_less_than_what_they_ask_for(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str], limit: list[str], said: str
) -> None:
    root, keys = bundle_arguments
    assert run(["run", root, FRANCE, *limit, *keys]) == 1
    output = capsys.readouterr()
    assert re.match(rf"E_PLUGIN .*{said}", output.err.splitlines()[-1])
    assert output.out == ""


def test_enough_fuel_changes_no_answer(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    root, keys = bundle_arguments
    answers = []
    for options in ([], ["--plugin-fuel", "1000000"]):
        assert run(["run", root, FRANCE, "--seed", "3", "--max-tokens", "12", *options, *keys]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("source", ["bundle", "file"])
def test_tokenize_equals_the_goldens(
    bundle_arguments: tuple[str, list[str]],
    smollm2_gguf: Path,
    smollm2_goldens: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
) -> None:
    root, keys = bundle_arguments
    arguments = [root, *keys] if source == "bundle" else [str(smollm2_gguf)]
    feed(monkeypatch, b"".join(json.dumps(golden["prompt"]).encode() + b"\n" for golden in smollm2_goldens))
    assert run(["tokenize", *arguments, "--jsonl"]) == 0
    output = capsys.readouterr()
    assert [json.loads(line) for line in output.out.splitlines()] == [golden["token_ids"] for golden in smollm2_goldens]
    assert ("nothing of it was verified" in output.err) == (source == "file")


def test_tokenize_takes_whole_text_and_parses_specials_only_when_told(
    smollm2_gguf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, b"<|im_end|>")
    assert run(["tokenize", str(smollm2_gguf), "--parse-special"]) == 0
    assert json.loads(capsys.readouterr().out) == [2]
    feed(monkeypatch, b"<|im_end|>")
    assert run(["tokenize", str(smollm2_gguf)]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 3


@pytest.mark.parametrize("line", [b"[1]\n", b"no json\n", b'"\\ud800"\n', b'"\xff"\n', b"[" * 100_000 + b"\n"])
def test_tokenize_names_a_line_that_is_no_json_string(
    smollm2_gguf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    feed(monkeypatch, b'"good"\n' + line)
    assert run(["tokenize", str(smollm2_gguf), "--jsonl"]) == 2
    output = capsys.readouterr()
    assert output.out.count("\n") == 1
    assert "E_USAGE line 2" in output.err


def test_bench_prints_one_object_with_the_agreed_fields(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    root, keys = bundle_arguments
    options = ["--json", "--repeats", "1", "--decode-tokens", "8", "--prompt-tokens", "16", "--context", "1024"]
    assert run(["bench", root, *keys, *options, "--kv-type", "int8", "--kv-mib", "16"]) == 0
    facts = json.loads(capsys.readouterr().out)
    fields = {"prefill_512_tok_s", "prefill_16_tok_s", "decode_tok_s", "threads", "backend", "peak_rss_bytes"}
    assert fields | {"load_s", "open_s", "first_token_s", "verify_s", "decode_spread"} <= set(facts)
    assert all(facts[name] > 0 for name in fields - {"backend"})
    assert facts["backend"].startswith("cpu-")
    assert facts["kv_type"] == "int8"
    position = 2 * 30 * 3 * (64 + 2 * 2)  # layers, KV heads, head_dim and its scales
    assert facts["memory_bytes"]["kv"] == (16 << 20) // (16 * position) * 16 * position


def test_bench_sweeps_depths_and_batches_and_draws_them(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root, keys = bundle_arguments
    picture = tmp_path / "speed.svg"
    options = ["--repeats", "1", "--decode-tokens", "4", "--context", "600", "--max-sequences", "4"]
    assert run(["bench", root, *keys, *options, "--depth", "32", "--batch", "3", "--plot", str(picture), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    speeds = {name.removesuffix("_tok_s") for name in facts if name.endswith("_tok_s")}
    decodes = {"decode", "decode_depth_32", "decode_depth_512"}
    assert speeds == {"prefill_32", "prefill_128", "prefill_512", *decodes, *(f"batch_{size}" for size in (1, 2, 3, 4))}
    assert all(facts[f"{name}_tok_s"] > 0 for name in speeds)
    assert "sequences that decode together" in picture.read_text()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--depth", "590"], "--depth"),
        (["--batch", "8", "--kv-mib", "16"], "--batch"),
        (["--decode-tokens", "600"], "600"),
    ],
)
def test_bench_says_what_does_not_fit(
    bundle_arguments: tuple[str, list[str]], capsys: pytest.CaptureFixture[str], options: list[str], named: str
) -> None:
    root, keys = bundle_arguments
    assert run(["bench", root, *keys, "--context", "600", *options]) == 2
    assert re.search(rf"E_USAGE .*{named}", capsys.readouterr().err)


def test_the_demo_shows_what_it_trusted_uses_its_bundle_again_and_repairs_it(
    smollm2_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("sealhost.host.cli.demo.fetch_demo_model", lambda: smollm2_gguf)
    bundle = tmp_path / "sealhost/bundles/smollm2-135m-instruct"

    def demo() -> str:
        assert run(["demo"]) == 0
        return capsys.readouterr().out

    first = demo()
    digest = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    modules = [hashlib.sha256(module.read_bytes()).hexdigest() for module in (bundle / "plugins").iterdir()]
    assert "The capital of France is Paris." in first
    assert len(modules) == 3
    verified = re.search(r"verified 99 MB \((\d+\.\d+) s\) and loaded them in (\d+\.\d+) s", first)
    assert verified is not None
    assert float(verified[1]) > 0
    limits = tomllib.loads((reference_plugin("sampler", "standard") / "plugin.toml").read_text())["limits"]
    for fact in (
        digest,
        *modules,
        f"step {limits['step_ms'] / 1000} s",
        "tokens/s",
        "sealhost serve",
    ):
        assert fact in first
    second = demo()
    assert digest in second
    assert "packed and signed" not in second
    weights = bundle / "model.gguf"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    third = demo()
    assert "E_DIGEST" in third
    assert "version 2" in third
    assert (tmp_path / "sealhost/demo/demo.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "sealhost/keys").iterdir()] == ["demo.pub"]
