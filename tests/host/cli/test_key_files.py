"""Files of keys that others may read are refused, with the command that mends it; a container's secrets are not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sealhost.host.cli.access_keys import access_keys
from sealhost.host.cli.key_files import objection
from sealhost.host.cli.main import run

KEY = "a-long-secret-key"
WE, ROOT, ANOTHER = 1000, 0, 1001


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    path = tmp_path / "my keys"
    path.write_text(KEY + "\n")
    return path


@pytest.mark.parametrize("verb", [["serve", "x", "--api-key-file"], ["serve", "x", "--admin-key-file"]])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_have_rights_to_is_refused_with_the_command_that_mends_it(
    keys_file: Path, capsys: pytest.CaptureFixture[str], verb: list[str], mode: int
) -> None:
    keys_file.chmod(mode)
    assert run([*verb, str(keys_file)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"E_PERM {keys_file}: expected mode 0600 or less, got {mode:04o}")
    assert line.endswith(f"run: chmod 600 '{keys_file}'")
    keys_file.chmod(0o600)
    assert access_keys(keys_file, "UNSET", "--api-key-file") == [KEY]


@pytest.mark.parametrize(
    ("owner", "mode", "said"),
    [
        (WE, 0o600, None),
        (WE, 0o400, None),
        (WE, 0o440, "expected mode 0600 or less, got 0440"),
        (ROOT, 0o640, None),
        (ROOT, 0o440, None),
        (ROOT, 0o444, "expected mode 0640 or less, got 0444"),
        (ROOT, 0o660, "expected mode 0640 or less, got 0660"),
        (ANOTHER, 0o600, "expected a file of your own (user 1000) or of root, got one of user 1001; run: chown 1000 "),
        (ANOTHER, 0o444, "got one of user 1001"),
    ],
)
def test_owner_and_mode_count(owner: int, mode: int, said: str | None) -> None:
    found = objection(Path("/srv/keys"), mode, owner=owner, we=WE)
    assert (found is None) if said is None else (said in str(found))


@pytest.mark.parametrize(("mode", "noted"), [(0o444, True), (0o640, False)])
def test_on_a_read_only_mount_no_mode_counts_and_what_others_can_read_is_said(
    keys_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mode: int, noted: bool
) -> None:
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    keys_file.chmod(mode)
    assert access_keys(keys_file, "UNSET", "--api-key-file") == [KEY]
    assert (f"{keys_file} can be read by others here" in capsys.readouterr().err) == noted


def test_a_pipe_is_taken_as_it_is() -> None:
    reader, writer = os.pipe()
    os.write(writer, KEY.encode())
    os.close(writer)
    try:
        assert access_keys(Path(f"/dev/fd/{reader}"), "UNSET", "--api-key-file") == [KEY]
    finally:
        os.close(reader)
