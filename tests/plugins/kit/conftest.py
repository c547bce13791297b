"""The kit's templates, made and built once for all its tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sealhost.host.cli.main import run


@pytest.fixture(scope="session")
def kit_plugin(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """A template's folder, built; tests leave it as it is."""
    made: dict[tuple[str, str], Path] = {}

    def build(lang: str, role: str) -> Path:
        if (lang, role) not in made:
            folder = tmp_path_factory.mktemp("kit") / f"{lang}-{role}"
            assert run(["plugin", "new", f"my-{role}", "--role", role, "--lang", lang, "--out", str(folder)]) == 0
            assert run(["plugin", "build", str(folder)]) == 0
            made[lang, role] = folder
        return made[lang, role]

    return build


@pytest.fixture
def kit_says(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict]:
    """Runs a verb with --json; its object."""

    def ask(*arguments: object, code: int = 0) -> dict:
        capsys.readouterr()
        assert run(["plugin", *map(str, arguments), "--json"]) == code
        output = capsys.readouterr()
        assert output.err.count("\n") == (code != 0)
        (line,) = output.out.splitlines()
        return json.loads(line)

    return ask


def declare_schema(folder: Path, schema: str) -> None:
    declaration = (folder / "plugin.toml").read_text()
    (folder / "plugin.toml").write_text(declaration.replace("[limits]", f"config_schema = '{schema}'\n\n[limits]"))


@pytest.fixture(scope="session")
def kit_schema() -> Callable[[Path, str], None]:
    """Writes a schema into a folder's declaration."""
    return declare_schema


@pytest.fixture(scope="session")
def kit_variant(
    kit_plugin: Callable[[str, str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """A built C template with a part of its source replaced, and maybe with a schema."""

    def make(role: str, old: str, new: str, schema: str | None = None) -> Path:
        folder = tmp_path_factory.mktemp("variant")
        for path in kit_plugin("c", role).iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        source = (folder / "plugin.c").read_text()
        assert source.count(old) == 1
        (folder / "plugin.c").write_text(source.replace(old, new))
        if schema is not None:
            declare_schema(folder, schema)
        assert run(["plugin", "build", str(folder)]) == 0
        return folder

    return make
