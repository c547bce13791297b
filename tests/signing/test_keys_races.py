"""A keys folder that changes while it is read."""

from __future__ import annotations

import pytest

from sealhost.signing import DirectoryTrust, SealError, trust


@pytest.mark.parametrize("times", [1, 3])
def test_an_update_that_ends_under_the_reader_is_no_refusal(seal_lab, monkeypatch, times) -> None:
    """The file that an update writes beside the old one is listed, and gone when it is to be opened."""
    new, read, left = seal_lab.keys / ".trust.toml.x.new", trust._read_key_file, [None] * times
    new.touch()

    def replaced(source, name):
        if name == new.name:
            new.unlink()
            if left.pop() is None and left:
                new.with_name(f".{len(left)}.new").touch()
        elif name.endswith(".new"):
            (seal_lab.keys / name).unlink()
            left.pop()
            if left:
                (seal_lab.keys / f".{len(left)}.new").touch()
        return read(source, name)

    monkeypatch.setattr(trust, "_read_key_file", replaced)
    assert DirectoryTrust(seal_lab.keys).keys
    assert not left


def test_a_folder_that_never_rests_is_refused_in_the_end(seal_lab, monkeypatch) -> None:
    count = iter(range(1000))

    def restless(source, name):
        (seal_lab.keys / f".{next(count)}.new").touch()
        raise SealError(trust.Code.MISSING, name, "expected a file, got nothing", "fetch it again")

    monkeypatch.setattr(trust, "_read_key_file", restless)
    with pytest.raises(SealError, match="E_MISSING"):
        DirectoryTrust(seal_lab.keys)
    assert next(count) == 21


def test_a_folder_that_cannot_be_listed_is_refused_as_what_it_is(seal_lab, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("sealhost.signing.source.os.scandir", fail)
    with pytest.raises(SealError, match=r"E_IO .*Input/output error"):
        DirectoryTrust(seal_lab.keys)
