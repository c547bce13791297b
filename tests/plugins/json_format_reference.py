"""The texts of each format that the guest `json` asserts, as clause 1.7 of its README says, put together from their parts."""

from __future__ import annotations

import functools
from collections.abc import Callable

from grammar_reference import EMPTY, Language, alt, both, cat, neither, pattern, repeat, text

DIGIT = pattern("[0-9]")


def _number(low: int, high: int, width: int = 2) -> Language:
    return alt(*(text(f"{value:0{width}}") for value in range(low, high + 1)))


def _date() -> Language:
    def days(months: tuple[int, ...], most: int) -> Language:
        return cat(alt(*(_number(month, month) for month in months)), text("-"), _number(1, most))

    def is_leap(year: int) -> bool:
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)

    day = alt(days((1, 3, 5, 7, 8, 10, 12), 31), days((4, 6, 9, 11), 30), days((2,), 28))
    leap = alt(*(_number(year, year, 4) for year in range(10000) if is_leap(year)))
    return alt(cat(repeat(DIGIT, 4, 4), text("-"), day), cat(leap, text("-02-29")))


def _time() -> Language:
    minute = cat(text(":"), _number(0, 59))
    part = cat(text("."), repeat(DIGIT, 1, 9))
    zone = alt(text("Z"), cat(pattern("[+-]"), _number(0, 23), minute))
    return cat(_number(0, 23), minute, minute, alt(EMPTY, part), zone)


def _duration() -> Language:
    """At most one of each unit, and no unit left out between two others."""

    def run(units: str) -> Language:
        one = [cat(repeat(DIGIT, 1, 9), text(unit)) for unit in units]
        return alt(*(cat(*one[i:j]) for i in range(len(one)) for j in range(i + 1, len(one) + 1)))

    later = cat(text("T"), run("HMS"))
    return cat(text("P"), alt(run("W"), cat(run("YMD"), alt(EMPTY, later)), later))


def _label(most: int) -> Language:
    anything = repeat(pattern("[a-zA-Z0-9-]"), 1, most)
    hyphens = [cat(text("-"), repeat(pattern("."), 0)), cat(repeat(pattern("."), 0), text("-"))]
    hyphens.append(cat(repeat(pattern("."), 2, 2), text("--"), repeat(pattern("."), 0)))
    return both(anything, *map(neither, hyphens))


def _list(part: Language, mark: str, most: int) -> Language:
    return cat(part, repeat(cat(text(mark), part), 0, most - 1))


def _domain() -> Language:
    return _list(_label(63), ".", 127)


def _hostname() -> Language:
    return both(_domain(), repeat(pattern("."), 0, 253))


def _email() -> Language:
    atext = pattern("[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]")
    local = alt(*(_list(repeat(atext, 1, most), ".", parts) for most, parts in ((64, 1), (31, 2), (15, 4))))
    return both(cat(local, text("@"), _domain()), repeat(pattern("."), 0, 254))


def _ipv4() -> Language:
    return cat(*([_number(0, 255, 1), text(".")] * 3), _number(0, 255, 1))


def _ipv6() -> Language:
    """Eight groups, of which a run may be left out; the last two may be an IPv4 address."""
    group = pattern("[0-9a-fA-F]{1,4}")

    def groups(count: int) -> Language:
        return _list(group, ":", count) if count == 1 else cat(*([group, text(":")] * (count - 1)), group)

    def tail(count: int) -> Language:
        if count == 0:
            return EMPTY
        if count == 1:
            return group
        last = alt(groups(2), _ipv4())
        return last if count == 2 else cat(groups(count - 2), text(":"), last)

    ways = [cat(groups(n) if n else EMPTY, text("::"), tail(m)) for n in range(8) for m in range(8 - n)]
    return alt(tail(8), *ways)


def _uuid() -> Language:
    return cat(
        *(
            cat(repeat(pattern("[0-9a-fA-F]"), n, n), text("-") if i < 4 else EMPTY)
            for i, n in enumerate((8, 4, 4, 4, 12))
        )
    )


def _uri() -> Language:
    escaped = pattern("%[0-9a-fA-F]{2}")

    def some(marks: str) -> Language:
        return alt(pattern(rf"[a-zA-Z0-9._~!$&'()*+,;={marks}-]"), escaped)

    pchar = some(":@")
    host = alt(repeat(some(""), 0), cat(text("["), _ipv6(), text("]")))
    authority = cat(
        alt(EMPTY, cat(repeat(some(":"), 0), text("@"))), host, alt(EMPTY, cat(text(":"), repeat(DIGIT, 0)))
    )
    segments = repeat(cat(text("/"), repeat(pchar, 0)), 0)
    rootless = cat(repeat(pchar, 1), segments)
    hier = alt(cat(text("//"), authority, segments), cat(text("/"), alt(EMPTY, rootless)), rootless, EMPTY)
    rest = repeat(alt(pchar, pattern("[/?]")), 0)
    return cat(
        pattern("[a-zA-Z][a-zA-Z0-9+.-]*:"), hier, alt(EMPTY, cat(text("?"), rest)), alt(EMPTY, cat(text("#"), rest))
    )


_MADE: dict[str, Callable[[], Language]] = {
    "date-time": lambda: cat(_date(), text("T"), _time()), "date": _date, "time": _time, "duration": _duration,
    "email": _email, "hostname": _hostname, "ipv4": _ipv4, "ipv6": _ipv6, "uuid": _uuid, "uri": _uri,
}  # fmt: skip
FORMATS = tuple(_MADE)


@functools.cache
def texts_of(name: str) -> Language:
    """The texts of a format, not as JSON."""
    return _MADE[name]()
