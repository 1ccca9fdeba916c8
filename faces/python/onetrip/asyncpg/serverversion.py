"""Versions of servers."""

from __future__ import annotations

import re

from . import types


def split_server_version_string(version_string: str) -> types.ServerVersion:
    found = re.match(r"(?:\D*\s)?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:(devel|alpha|beta|rc)(\d*))?",
                     version_string)
    if found is None:
        raise ValueError(f"Unable to parse Postgres version from {version_string!r}")
    major, minor = int(found[1]), int(found[2] or 0)
    # Since version 10 there are two parts: the second is asyncpg's third.
    micro = int(found[3] or 0) if major < 10 else minor
    minor = minor if major < 10 else 0
    level, serial = found[4] or "final", int(found[5] or 0)
    return types.ServerVersion(major, minor, micro, level, serial)
