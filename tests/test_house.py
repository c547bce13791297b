"""What holds for the house as a whole: its rooms, their chapters, their public names, the README's commands."""

from __future__ import annotations

import importlib
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
ROOMS = ("host", "kernels", "keys", "plugins", "sandbox", "signing", "tests")
ROOT_FILES = {"CHANGELOG.md", "Makefile", "README.md", "SECURITY.md", "pyproject.toml"}
LONGEST_FILE = 450
"""Lines past which a file has become a warehouse."""

EXPORTED = {
    "sealhost.signing": {
        "Audit",
        "Code",
        "DirectoryTrust",
        "ExitCode",
        "FileEntry",
        "IntegrityError",
        "Manifest",
        "PluginEntry",
        "PluginLimits",
        "PublicKey",
        "SealError",
        "SealhostError",
        "TrustPolicy",
        "VerifiedBundle",
        "VerifiedPlugin",
        "VerifiedWeights",
        "VerifyReport",
        "audit",
        "inspect",
        "verify",
    },
    "sealhost.sandbox": {
        "AdmissionError",
        "CompileLimits",
        "Decision",
        "GuestError",
        "Limits",
        "OperatorLimits",
        "Plugin",
        "PluginLimits",
        "PluginStats",
        "SamplerPlugin",
        "SamplerSession",
        "SamplingParams",
        "Sandbox",
        "SandboxError",
        "TokenizerPlugin",
        "Vocabulary",
    },
    "sealhost.kernels.cpu": {"CpuBackend", "Isa", "default_threads", "detect_isa", "supported"},
}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--", *patterns], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [REPOSITORY / line for line in listed.stdout.splitlines() if (REPOSITORY / line).exists()]


def test_the_root_holds_the_rooms_and_nothing_else():
    top = {path.relative_to(REPOSITORY).parts[0] for path in tracked()}
    assert {name for name in top if not name.startswith(".")} == {*ROOMS, *ROOT_FILES}


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_its_chapter(room: str):
    assert (REPOSITORY / room / "README.md").stat().st_size > 500


def test_no_file_is_a_warehouse():
    code = [path for path in tracked("*.py", "*.c", "*.h", "*.cu") if path.relative_to(REPOSITORY).parts[0] != "tests"]
    lengths = {path: path.read_text().count("\n") for path in code}
    assert {str(path): lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


@pytest.mark.parametrize("module", EXPORTED)
def test_a_room_exports_the_names_that_others_build_on(module: str):
    assert set(importlib.import_module(module).__all__) == EXPORTED[module]


def test_weights_and_private_keys_are_not_tracked():
    assert tracked("*.gguf", "*.key", "*.safetensors", "*.cwasm", "*.cubin", "*.whl") == []


def test_every_command_that_a_readme_shows_exists():
    from sealhost.host.cli.main import command_line

    verbs = set(command_line().resolved_commands())
    for page in tracked("*.md"):
        blocks = "\n".join(re.findall(r"^```.*?\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
        shown = set(re.findall(r"^(?:\.venv/bin/)?sealhost (?!\w+ v1)([a-z]+)", blocks, re.MULTILINE))
        assert shown <= verbs, page


def test_every_link_between_the_pages_leads_somewhere():
    for page in tracked("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
