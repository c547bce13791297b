"""`plugin`: the author's kit: new, build, check, test, replay, bench, pack; and detect.

Rules
* Only `build` runs a compiler; nothing here signs (`sealhost sign` does).
* A table for people, one JSON object with `--json`; a plugin that is refused or fails a trial ends with exit code 1.

Example:
    sealhost plugin new calm --lang zig && sealhost plugin build calm && sealhost plugin test calm
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ...signing import Code, SealError
from ..errors import UsageError
from .facts import answering, print_facts, say
from .options import OPTIONS
from .plugin_detect import detect
from .plugin_folder import read_config

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...sandbox import Vocabulary
    from .plugin_bench import Measured
    from .plugin_rows import Config
    from .plugin_trial import Trial

app = App(
    name="plugin",
    help="Make, build, check, test, measure and pack a tokenizer or sampler.",
    group_parameters=OPTIONS,
)

app.command(detect)

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object instead of text.")]
Role = Literal["sampler", "tokenizer"]
Lang = Literal["c", "zig", "rust", "assemblyscript"]

WIDTH = 160
"""Columns of a table where nobody's terminal says how many there are."""

_PATIENT = 1 << 30
"""Strikes before a quarantine, for trials that want to see every failure."""

MAX_ROUNDS = 1_000_000
"""More than anyone waits for."""


@app.command
def new(name: str, /, *, role: Role = "sampler", lang: Lang = "c", out: Path | None = None, json: Json = False) -> None:
    """Make a plugin's folder from a template that builds and passes its tests.

    Args:
        name: The plugin's name.
        role: What it is.
        lang: What it is written in.
        out: The folder to make. [default: the name]
        json: Print one JSON object.
    """
    from .plugin_new import new_plugin, sdk  # noqa: PLC0415 — verbs load what they need

    with answering(as_json=json):
        folder = out if out is not None else Path(name)
        made = new_plugin(folder, name, role, lang)
        files = [path.name for path in made]
        facts = {"folder": str(folder), "role": role, "lang": lang, "files": files, "sdk": str(sdk() / lang)}
        print_facts(facts, as_json=json)
        if not json:
            say(f"next: sealhost plugin build {folder} && sealhost plugin test {folder}")


@app.command
def build(folder: Path = Path(), /, *, json: Json = False) -> None:
    """Compile a plugin's folder to plugin.wasm.

    Args:
        folder: The plugin's folder.
        json: Print one JSON object.
    """
    from .plugin_build import build_plugin  # noqa: PLC0415 — see above

    with answering(as_json=json):
        module = build_plugin(folder)
        data = module.read_bytes()
        facts = {"module": str(module), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        print_facts(facts, as_json=json)
        if not json:
            say(f"next: sealhost plugin test {folder}")


@app.command
def check(module: Path, /, *, role: Role | None = None, model: Path | None = None, json: Json = False) -> None:
    """Say clause by clause whether the sandbox lets a module in.

    Args:
        module: The .wasm, with its .toml beside it; or a plugin's folder.
        role: Take it for this, under the operator's limits, and look at no .toml.
        model: GGUF file whose vocabulary the plugin is loaded with, if it takes one. [default: a small one]
        json: Print one JSON object.
    """
    from ...sandbox import Sandbox  # noqa: PLC0415 — brings wasmtime (clause 6.5)
    from ...sandbox.report import Verdict, admission_report  # noqa: PLC0415
    from .plugin_folder import AuthoredPlugin  # noqa: PLC0415

    with answering(as_json=json):
        plugin = AuthoredPlugin.read(module) if role is None else AuthoredPlugin.undeclared(module, role)
        words = _vocabulary(model)
    with Sandbox(use_cache=False) as sandbox:
        findings = admission_report(sandbox, plugin, words)
    admitted = all(finding.verdict is Verdict.OK for finding in findings)
    if json:
        rows = [{field: getattr(finding, field) for field in finding.__slots__} for finding in findings]
        facts = {"module": str(module), "name": plugin.name, "role": plugin.role, "sha256": plugin.sha256}
        print_facts({**facts, "admitted": admitted, "clauses": rows}, as_json=True)
    else:
        told = [(f.clause, f.title, str(f.verdict), _told([*f.problems, f.remedy])) for f in findings]
        _table(("clause", "what it asks", "verdict", "found"), told)
    if not admitted:
        refused = [finding.clause for finding in findings if finding.verdict is Verdict.REFUSED]
        problem = f"expected an admissible module, got one that breaks {', '.join(refused)}"
        raise SealError(Code.PLUGIN, str(module), problem, "the clauses stand in sandbox/README.md, chapter 1")


@app.command(name="test")
def try_out(
    folder: Path = Path(),
    /,
    *,
    seed: int = 0,
    rounds: int = 300,
    config: Path | None = None,
    model: Path | None = None,
    json: Json = False,
) -> None:
    """Try a built plugin: golden cases, edge cases, reset, replay, slots, random input.

    Args:
        folder: The plugin's folder.
        seed: Of everything random.
        rounds: Random rows or texts to try.
        config: File with a JSON object: the sampler's configuration in every trial.
        model: GGUF file whose vocabulary the plugin is loaded with, if it takes one. [default: a small one]
        json: Print one JSON object.
    """
    with answering(as_json=json):
        _require_range("--rounds", rounds)
        _require_range("--seed", seed, least=0)
        trials = _tried(folder, seed=seed, rounds=rounds, config=read_config(config), model=model)
    failed = [trial for trial in trials if trial.verdict == "failed"]
    if json:
        rows = [{field: getattr(trial, field) for field in trial.__slots__} for trial in trials]
        print_facts({"folder": str(folder), "seed": seed, "passed": not failed, "trials": rows}, as_json=True)
    else:
        _table(("trial", "verdict", "what was seen"), [(trial.name, trial.verdict, trial.detail) for trial in trials])
    if failed:
        problem = f"expected {len(trials)} trials to pass, got {len(failed)} that failed, first {failed[0].name!r}"
        raise SealError(
            Code.PLUGIN,
            str(folder),
            problem,
            "mend the plugin, or its golden.json; plugins/README.md, 'When it does not work'",
        )


@app.command
def replay(recording: Path, plugin: Path, /, *, model: Path | None = None, json: Json = False) -> None:
    """Run a sampler over what `run --record` wrote, and say where it first decides otherwise.

    Args:
        recording: The file.
        plugin: The sampler's folder, or its .wasm with its .toml beside it.
        model: GGUF file of the model that answered, for a sampler that takes its vocabulary.
        json: Print one JSON object.
    """
    from .plugin_folder import AuthoredPlugin  # noqa: PLC0415 — see above
    from .plugin_replay import replayed  # noqa: PLC0415 — brings wasmtime (clause 6.5)

    with answering(as_json=json):
        facts = replayed(recording, AuthoredPlugin.read(plugin), None if model is None else _vocabulary(model))
    print_facts(facts, as_json=json)
    if not facts["alike"]:
        problem = f"expected the recorded decisions, got another one at step {facts['step']}"
        remedy = "a sampler's answers are a function of what the host wrote: plugins/README.md, clause 1.8"
        raise SealError(Code.PLUGIN, str(recording), problem, remedy)


@app.command
def bench(
    folder: Path = Path(),
    /,
    *,
    repeats: int = 100,
    config: Path | None = None,
    model: Path | None = None,
    json: Json = False,
) -> None:
    """Measure a built plugin: time and fuel of its calls, its memory, against its limits.

    Args:
        folder: The plugin's folder.
        repeats: Most calls of each kind; a slow one is called less often.
        config: File with a JSON object: the sampler's configuration.
        model: GGUF file whose vocabulary the plugin is loaded with, if it takes one. [default: a small one]
        json: Print one JSON object.
    """
    from .plugin_bench import bench_plugin  # noqa: PLC0415 — brings wasmtime (clause 6.5)
    from .plugin_folder import AuthoredPlugin  # noqa: PLC0415

    with answering(as_json=json):
        _require_range("--repeats", repeats)
        plugin = AuthoredPlugin.read(folder)
        found = bench_plugin(plugin, _vocabulary(model), repeats, read_config(config))
        if json:
            print_facts({"name": plugin.name, "role": plugin.role, **found.facts()}, as_json=True)
            return
        head = ("call", "calls", "p50 µs", "p99 µs", "p99 of limit", "fuel")
        _table(head, [_measured(line) for line in found.lines], numbers=range(1, len(head)))
        say(
            f"module {found.module_bytes:,} bytes; memory {found.memory_bytes:,} of {found.memory_limit:,} bytes, "
            f"{found.memory_bytes / found.memory_limit:.0%} of its limit"
        )
        say("times hold the host's part of each call, fuel only the guest's; limits are in milliseconds")


@app.command
def pack(
    plugins: Annotated[list[Path], Parameter(negative="")],
    /,
    *,
    out: Path,
    name: str,
    version: int,
    document: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Json = False,
) -> None:
    """Make a plugin bundle, ready to be signed, for `serve --plugin`.

    Args:
        plugins: Folders of built plugins, or names of reference samplers (json, regex, guard, …).
        out: Directory to make; it must not exist.
        name: The bundle's name.
        version: At least 1, higher for each release.
        document: Licence, description or the like to carry along; may be given several times.
        json: Print one JSON object.
    """
    from ...signing import pack as signing_pack  # noqa: PLC0415 — only verbs that publish load this
    from .packing import check_release, find_authored, read_document  # noqa: PLC0415

    with answering(as_json=json):
        check_release(name, version)
        sources = [find_authored(place) for place in plugins]
        documents = [read_document(path) for path in document or []]
        packed = signing_pack.pack(out, name=name, version=version, model=None, plugins=sources, documents=documents)
        facts = {
            "bundle": str(out),
            "name": packed.manifest.name,
            "version": packed.manifest.version,
            "digest": packed.digest,
        }
        print_facts(facts, as_json=json)
        if not json:
            say(f"next: sealhost sign {out} --key YOUR.key")


for _order, _verb in enumerate(("new", "build", "check", "test", "replay", "bench", "pack", "detect")):
    app[_verb].sort_key = _order  # help lists them as an author meets them


def _vocabulary(model: Path | None) -> Vocabulary:
    from .plugin_vocabulary import model_vocabulary, trial_vocabulary  # noqa: PLC0415 — see above

    return trial_vocabulary() if model is None else model_vocabulary(model)


def _tried(folder: Path, *, seed: int, rounds: int, config: Config, model: Path | None) -> list[Trial]:
    from ...sandbox import OperatorLimits, Sandbox  # noqa: PLC0415 — brings wasmtime (clause 6.5)
    from .plugin_folder import AuthoredPlugin  # noqa: PLC0415
    from .plugin_rows import Loads  # noqa: PLC0415
    from .plugin_sampler_trials import sampler_trials  # noqa: PLC0415
    from .plugin_tokenizer_trials import tokenizer_trials  # noqa: PLC0415

    plugin = AuthoredPlugin.read(folder)
    with Sandbox(OperatorLimits(strikes=_PATIENT)) as sandbox:
        if plugin.role == "sampler":
            loads = Loads(sandbox, plugin, _vocabulary(model))
            return list(sampler_trials(loads, folder, seed=seed, rows=rounds, config=config))
        words, of_model = _vocabulary(model), model is not None
        return list(tokenizer_trials(sandbox, plugin, folder, words, of_model=of_model, seed=seed, texts=rounds))


def _require_range(option: str, value: int, least: int = 1) -> None:
    if not least <= value <= MAX_ROUNDS:
        raise UsageError(option, f"expected {least} to {MAX_ROUNDS}, got {value}", "choose another number")


def _told(parts: list[str]) -> str:
    return "; ".join(part for part in parts if part)


def _measured(line: Measured) -> tuple[str, ...]:
    share = ""
    if line.limit_ms is not None:
        share = f"{line.p99_us / (line.limit_ms * 1000):.1%} of {line.limit_ms:,}"
    fuel = "" if line.fuel is None else f"{line.fuel:,}"
    return line.name, f"{line.calls:,}", f"{line.p50_us:,.1f}", f"{line.p99_us:,.1f}", share, fuel


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], numbers: range = range(0)) -> None:
    from rich.console import Console  # noqa: PLC0415 — only for people
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from .terminal import harmless  # noqa: PLC0415

    table = Table()
    for index, title in enumerate(head):
        if index in numbers:  # a narrow terminal breaks names over lines, but takes no digit from a number
            table.add_column(title, justify="right", min_width=max(len(row[index]) for row in rows))
        else:
            table.add_column(title, no_wrap=not numbers and index < len(head) - 1, overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    width = None if sys.stdout.isatty() else WIDTH
    Console(highlight=False, markup=False, width=width).print(table)
