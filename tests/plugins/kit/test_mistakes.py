"""What authors get wrong at first, and the words that tell them what was expected, what came, and what to do."""

from __future__ import annotations

import tomllib

import pytest

from sealhost.host.cli.main import run
from sealhost.plugins import PLUGINS

HEAD, INIT = "static int32_t sample(void) {", "return SEALHOST_OK; /* tables"
STEPS = {
    "a token past the vocabulary": ("return answer(SEALHOST_TOKEN, row->vocab_size);", "expected a token below 512, got 512"),
    "no answer": ("return SEALHOST_OK;", "expected a result for a row that wants an answer, got none written"),
    "back without leave": ("return backtrack(1, 0);", "expected no ids to take back, for there is room for none, got 1"),
    "a loop": ("for (volatile int on = 1; on;) {}", "step took longer than 50 ms; raise step_ms, or make the plugin faster"),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_wrong_step_is_told_what_was_expected(name, kit_variant, kit_says):
    code, said = STEPS[name]
    found = kit_says("test", kit_variant("sampler", HEAD, HEAD + code), "--rounds", 1, code=1)
    assert said in {trial["name"]: trial["detail"] for trial in found["trials"]}["edge: one candidate"]


LOADS = {
    "a function under another name": (
        "SEALHOST_EXPORT(init) int32_t init", "SEALHOST_EXPORT(start) int32_t start",
        "1.9", "expected an exported function 'init', got none, but 'start'",
    ),
    "init refuses": (INIT, 'return fail(SEALHOST_ERROR, "init: no luck"); /* tables', "1.15", 'init answered ERROR: "init: no luck"'),
    "init traps": (INIT, "__builtin_trap(); /* tables", "1.15", "init trapped: unreachable"),
    "no room for the vocabulary": (
        '#include "sealhost_sampler.h"', '#define SEALHOST_VOCABULARY 64\n#include "sealhost_sampler.h"',
        "1.15", "bytes of vocabulary, got none: vocabulary answered 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_a_module_that_is_not_let_in_is_told_why(name, kit_variant, kit_says):
    old, new, clause, said = LOADS[name]
    found = kit_says("check", kit_variant("sampler", old, new), code=1)
    refused = {each["clause"]: each for each in found["clauses"] if each["verdict"] == "refused"}
    assert refused.keys() == {clause}
    assert said in refused[clause]["problems"][0]
    assert "plugins/README.md" in refused[clause]["remedy"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("step_ms", "steps_ms", "expected fields in [limits] among memory_bytes, init_ms, load_ms, step_ms, encode_ms, got 'steps_ms'"),
        ("step_ms = 50", "config_schema = '{}'", "expected config_schema above the line [limits], got it below"),
        ("abi = 1", "abi = 1\nversion = 2", "expected fields among name, role, abi, limits, tier, config_schema, description, got 'version'"),
        ("[limits]", "[limit]", "expected fields among name, role, abi, limits, tier, config_schema, description, got 'limit'"),
    ],
)  # fmt: skip
def test_a_declaration_with_a_stray_line_is_told_where_it_belongs(old, new, said, kit_plugin, tmp_path, capsys):
    for name in ("plugin.wasm", "plugin.toml"):
        (tmp_path / name).write_bytes((kit_plugin("c", "sampler") / name).read_bytes())
    declaration = (tmp_path / "plugin.toml").read_text()
    assert old in declaration
    (tmp_path / "plugin.toml").write_text(declaration.replace(old, new))
    assert run(["plugin", "test", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err


def test_the_page_shows_a_declaration_whole_and_the_chapter_that_messages_name():
    page = (PLUGINS / "README.md").read_text()
    assert "\n## When it does not work\n" in page
    assert any("config_schema" in tomllib.loads(block.split("```")[0]) for block in page.split("```toml\n")[1:])
