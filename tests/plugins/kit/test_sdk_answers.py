"""Every SDK says every answer in every tier: one small guest in each language, driven through the sandbox."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sealhost.host.cli import plugin_build
from sealhost.host.cli.main import run
from sealhost.host.cli.plugin_folder import AuthoredPlugin
from sealhost.sandbox import Decision, GuestError, SamplerPlugin, SamplingParams, Sandbox, Vocabulary

RUST = pytest.mark.skipif(plugin_build._rustc() is None, reason="no rustc with wasm32-unknown-unknown is installed")
ASC = pytest.mark.skipif(shutil.which("asc") is None, reason="no asc, AssemblyScript's compiler, is on the path")
LANGUAGES = ["c", "zig", pytest.param("rust", marks=RUST), pytest.param("assemblyscript", marks=ASC)]
VOCABULARY = 60

WORDS = Vocabulary(
    model="gpt2", pre="gpt-2", texts=(b"?",) * 20, types=np.array([1] * 18 + [3, 4], np.uint8), scores=np.zeros(20, np.float32),
    merges=(), bos=-1, eos=18, unknown=-1, add_bos=False, add_eos=False, add_space_prefix=False,
    token_bytes=(*(bytes([byte]) for byte in range(17)), b"07", b"<|end|>", b"012"),
)  # fmt: skip
"""Seventeen bytes, a word, a control token, a user-defined one."""

C_ROWS = "*/\n#define SEALHOST_ROWS 2u\n#define SEALHOST_MAX_BACKTRACK 4\n#define SEALHOST_VOCABULARY (1u << 20)\n{}/*"
TIERS = {
    "full": {
        "c": C_ROWS.format(""),
        "zig": ".rows = 2, .max_backtrack = 4, .vocabulary = 1 << 20",
        "rust": "seen: 263168, candidates: 0, rows: 2, max_backtrack: 4",
        "assemblyscript": "FULL_TIER",
    },
    "topk:5": {
        "c": C_ROWS.format("#define SEALHOST_CANDIDATES 5\n"),
        "zig": ".tier = .topk, .candidates = 5, .rows = 2, .max_backtrack = 4, .vocabulary = 1 << 20",
        "rust": "seen: 0, candidates: 5, rows: 2, max_backtrack: 4",
        "assemblyscript": "TOPK_TIER",
    },
    "mask": {
        "c": C_ROWS.format("#define SEALHOST_TIER_MASK\n"),
        "zig": ".tier = .mask, .rows = 2, .max_backtrack = 4, .vocabulary = 1 << 20",
        "rust": "seen: 0, candidates: 0, rows: 2, max_backtrack: 4",
        "assemblyscript": "MASK_TIER",
    },
}
"""What stands for TIER in each language's source."""

MARK = re.compile(r"\bTIER\b")

DECLARATION = """name = "speaker"\nrole = "sampler"\nabi = 1\ntier = "{}"\n
[limits]\nmemory_bytes = 16_777_216\ninit_ms = 1_000\nstep_ms = 1_000\n"""


@pytest.fixture(scope="module")
def speaker(tmp_path_factory) -> Callable[[str, str], SamplerPlugin]:
    """Builds and loads a language's guest in a tier."""
    made: dict[tuple[str, str], SamplerPlugin] = {}
    with Sandbox(use_cache=False) as sandbox:

        def load(lang: str, tier: str) -> SamplerPlugin:
            if (lang, tier) not in made:
                folder = tmp_path_factory.mktemp("speaker")
                source = plugin_build.TOOLCHAINS[lang].source
                text = (Path(__file__).parent / "speakers" / source).read_text()
                assert len(MARK.findall(text)) == 1
                (folder / source).write_text(MARK.sub(TIERS[tier][lang], text))
                (folder / "plugin.toml").write_text(DECLARATION.format(tier))
                assert run(["plugin", "build", str(folder)]) == 0
                made[lang, tier] = sandbox.load_sampler(AuthoredPlugin.read(folder), VOCABULARY, WORDS)
            return made[lang, tier]

        yield load


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_guest_that_asks_for_the_vocabulary_gets_texts_types_and_eos(lang, speaker):
    plugin = speaker(lang, "full")
    assert plugin.takes_vocabulary
    for token, (text, kind) in {5: (b"\x05", 1), 17: (b"07", 1), 18: (b"", 3), 19: (b"\x30\x31\x32", 4)}.items():
        with plugin.session(SamplingParams(), [1, token], config=b"v") as session:
            (found,) = session.step()
        assert found.tokens == (*text, kind, 20, 18)


def answered(plugin: SamplerPlugin, letter: bytes) -> Decision:
    with plugin.session(SamplingParams(temperature=0), [1, 2], config=letter) as session:
        session.accept(0, (7, 8, 7))
        session.prepare((0,))
        session.logits(0)[:] = np.arange(VOCABULARY)
        (found,) = session.step()
        assert session.log() == ("hello\n" if letter == b"l" else "")
    return found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_answer_can_be_said_in_every_language_and_tier(lang, tier, speaker):
    plugin = speaker(lang, tier)
    assert (plugin.tier, plugin.max_backtrack) == (tier, 4)
    assert answered(plugin, b"m") == Decision((40,))
    assert answered(plugin, b"s") == Decision((3,))
    assert answered(plugin, b"f") == Decision((5, 6, 7))
    assert answered(plugin, b"b") == Decision((9,), backtrack=2)
    assert answered(plugin, b"l") == Decision((59,))
    assert answered(plugin, b"x") == Decision((), stop=True)
    if tier == "topk:5":
        assert answered(plugin, b"e") == Decision((58,))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_slots_of_one_instance_have_their_own_areas(lang, speaker):
    plugin = speaker(lang, "full")
    assert plugin.max_rows == 2
    with plugin.session(SamplingParams(temperature=0), [1, 2], choices=(0, 1), config=b"m") as session:
        for slot in (0, 1):
            session.logits(slot)[[1, 40, 50]] = (slot, 0.5, 9)
        assert session.step((0, 1)) == [Decision((40,)), Decision((1,))]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_failure_comes_with_the_log_of_its_guest(lang, speaker):
    with speaker(lang, "full").session(SamplingParams(temperature=0), [1], config=b"l") as session:
        session.logits(0)[:] = -np.inf
        with pytest.raises(GuestError, match=r'its log ends with "hello') as caught:
            session.step()
        assert caught.value.kind == "empty"
