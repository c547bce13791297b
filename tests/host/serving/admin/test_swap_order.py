"""A process that dies at any step of a swap leaves marks that hold, and never uses what is not marked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CRASH = """
import os, sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
import sealhost.signing
from sealhost.host.app import Opened
from sealhost.host.deployment import Deployment
from sealhost.host.folders import AllowedFolders
from sealhost.host.judges import Judges
from sealhost.host.serving.operations import untold
from sealhost.host.serving.served import Registry
from sealhost.signing import DirectoryTrust, verify
from sealhost.signing.state import State

old, new, keys, state, point, verb = *map(Path, sys.argv[1:5]), *sys.argv[5:]
armed = []

def die_after(name, real):
    def call(*a, **k):
        result = real(*a, **k)
        if armed and name == point:
            os._exit(77)
        return result
    return call

class Model:
    def __init__(self, name, version):
        self.name, self.version = name, version

class PretendHost:
    def open(self, bundle, **_):
        bundle.weights.finish()
        bundle.weights.close()
        served = Model(bundle.manifest.name, bundle.manifest.version)
        return Opened(bundle, None, served, (), 0.0, 0.0, ExitStack())
    def close(self): pass

PretendHost.open = die_after("load", PretendHost.open)
registry = Registry()
replace = registry.replace
registry.replace = die_after("switch", lambda model: (print("using", model.version, flush=True), replace(model)))
judges = Judges(DirectoryTrust(keys), State(state))
deployment = Deployment(judges, registry, PretendHost, verify=die_after("verify", partial(verify, reading="ahead")),
                        folders=AllowedFolders([new.parent]), keep_previous=False)
deployment.start([old], [], untold, lambda _: None)
if verb == "rollback":
    deployment.swap(new, None, untold)
State.check = die_after("check", State.check)
State.accept_older = die_after("accept", State.accept_older)
State.record = die_after("record", State.record)
armed.append(True)
if verb == "swap":
    deployment.swap(new, None, untold)
else:
    deployment.rollback("lab", None, untold)
deployment.close()
"""


@pytest.mark.parametrize(
    ("verb", "point", "marks", "used"),
    [
        ("swap", "verify", (3, None), []),
        ("swap", "check", (3, None), []),
        ("swap", "load", (3, None), []),
        ("swap", "record", (4, None), []),
        ("swap", "switch", (4, None), ["using 4"]),
        ("swap", "nowhere", (4, None), ["using 4"]),
        ("rollback", "verify", (4, None), ["using 4"]),
        ("rollback", "load", (4, None), ["using 4"]),
        ("rollback", "accept", (4, 3), ["using 4"]),
        ("rollback", "record", (4, 3), ["using 4"]),
        ("rollback", "switch", (4, 3), ["using 4", "using 3"]),
        ("rollback", "nowhere", (4, 3), ["using 4", "using 3"]),
    ],
)
def test_a_crash_at_any_step_leaves_the_old_marks_or_the_new_and_uses_nothing_unmarked(
    make_desk: Any, tmp_path: Path, verb: str, point: str, marks: tuple[int, int | None], used: list[str]
) -> None:
    from sealhost.signing import verify

    desk = make_desk(start=False)
    old, new = desk.bundle(3), desk.bundle(4)
    arguments = [str(old), str(new), str(desk.keys), str(desk.state.folder), point, verb]
    ended = subprocess.run([sys.executable, "-c", CRASH, *arguments], check=False, capture_output=True, text=True)
    assert ended.returncode == (0 if point == "nowhere" else 77), ended.stderr
    remembered = desk.state.marks()
    accepted = remembered.accepted.get("lab")
    assert (remembered.bundles["lab"].version, accepted and accepted.version) == marks
    assert [line for line in ended.stdout.splitlines() if line.startswith("using")] == used
    trust = desk.deployment.judges.trust
    desk.state.record([verify(new, trust)], trust)  # the next start goes on with the newest
    assert desk.mark() == 4
