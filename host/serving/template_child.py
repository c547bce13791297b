"""The child process that renders chat templates (clause 5.13 of host/README.md).

Run by path, so that it imports nothing of this package: `python -I template_child.py`.

Standard input and output carry messages, JSON after its size as four bytes. The first one in is the template,
{"source": …, "limits": {…}}, and its answer {} or {"fault": …}. Each one after that is a rendering, {"context": {…}},
and its answer {"text": …}, {"refusal": …} (the template's own word on these messages) or {"fault": …}. The end of the
input ends it. What is beyond a limit ends it, too: memory by abortion, time by SIGPROF, which no code of a template can
put off.

Settings follow what model publishers test with: trim_blocks, lstrip_blocks, Python methods on strings, raise_exception,
strftime_now and a tojson that does not escape for HTML.
"""

from __future__ import annotations

import datetime as dt
import json
import resource
import signal
import struct
import sys
from typing import TYPE_CHECKING, Any

import minijinja

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = struct.Struct("<I")
NAME = "chat_template"

MAX_PATTERN_LETTERS = 300
"""Letters of a date's pattern."""


class _Raised(Exception):  # noqa: N818 — carries a template's own refusal through the engine
    """raise_exception(…) was called."""


def _raise_exception(message: object = "") -> None:
    raise _Raised(str(message))


def _strftime_now(pattern: str) -> str:
    return dt.datetime.now().astimezone().strftime(str(pattern)[:MAX_PATTERN_LETTERS])


def _tojson(
    value: object,
    *,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # the parameters that templates were written for; none escapes for HTML
    pair = (separators[0], separators[1]) if separators else None
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=pair, sort_keys=sort_keys)


def _environment(source: str, fuel: int) -> minijinja.Environment:
    environment = minijinja.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        pycompat=True,
        fuel=fuel,
        auto_escape_callback=lambda _name: None,
        filters={"tojson": _tojson},
    )
    functions: dict[str, Callable[..., Any]] = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    for name, function in functions.items():
        environment.add_global(name, function)
    environment.add_template(NAME, source)
    return environment


def _limit(limits: dict[str, int]) -> None:
    asked = ((resource.RLIMIT_AS, limits["memory_bytes"]), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0))
    for number, limit in (*asked, (resource.RLIMIT_NOFILE, 16)):
        hard = resource.getrlimit(number)[1]  # the operator's own, which nobody may raise
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(number, (most, most))
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a group's: the host ends in its own order, and us
        signal.signal(one, signal.SIG_IGN)


def _fault(error: minijinja.TemplateError) -> dict[str, str]:
    what = error.detail or ("it used up its fuel" if error.kind == "OutOfFuel" else error.kind)
    return {"fault": f"{what} (line {error.line})" if error.line else str(what)}


def _render(environment: minijinja.Environment, context: dict[str, Any]) -> dict[str, str]:
    try:
        return {"text": environment.render_template(NAME, **context)}
    except _Raised as refusal:
        return {"refusal": str(refusal)}
    except minijinja.TemplateError as error:
        return _fault(error)
    except Exception as error:  # noqa: BLE001 — of a function of ours, called as a template likes
        return {"fault": f"{type(error).__name__}: {error}"}


def _read() -> Any:
    size = sys.stdin.buffer.read(SIZE.size)
    if len(size) < SIZE.size:
        return None
    return json.loads(sys.stdin.buffer.read(SIZE.unpack(size)[0]))


def _write(answer: dict[str, str], most: int) -> None:
    data = json.dumps(answer, ensure_ascii=False).encode()
    if len(data) > most:
        data = json.dumps({"fault": f"expected at most {most} bytes of text, got {len(data)}"}).encode()
    sys.stdout.buffer.write(SIZE.pack(len(data)) + data)
    sys.stdout.buffer.flush()


def main() -> None:
    """Parses one template, and renders it as often as it is asked to."""
    first = _read()
    limits = first["limits"]
    _limit(limits)
    signal.setitimer(signal.ITIMER_PROF, limits["seconds"])
    try:
        environment = _environment(first["source"], limits["fuel"])
    except minijinja.TemplateError as error:
        _write(_fault(error), limits["answer_bytes"])
        return
    signal.setitimer(signal.ITIMER_PROF, 0)
    _write({}, limits["answer_bytes"])
    while (asked := _read()) is not None:
        signal.setitimer(signal.ITIMER_PROF, limits["seconds"])
        answer = _render(environment, asked["context"])
        _write(answer, limits["answer_bytes"])
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main()
