"""Kinds of DDL under a running client. No value may be stored or read otherwise than by a client
that was started behind it. ``ONETRIP_SEED`` repeats the choices, ``ONETRIP_SECONDS`` goes on for so
long, and ``ONETRIP_CASE`` runs the cases whose names contain it.
"""

from __future__ import annotations

import os
import time

import pytest

from conftest import URL
from migrations import migrations

SEED = int(os.environ.get("ONETRIP_SEED", time.time_ns() % 2**31))
SECONDS = os.environ.get("ONETRIP_SECONDS")
ONLY = os.environ.get("ONETRIP_CASE", "")


# asyncpg with new connections for each use shows that what is expected is right.
@pytest.mark.parametrize("face", ["native", "asyncpg", "renewed"])
async def test_a_migration_changes_no_value_in_secret(face: str) -> None:
    print(f"ONETRIP_SEED={SEED}")
    rounds = None if SECONDS else 3 if ONLY else 2 if face == "renewed" else 8
    book = await migrations(face, URL, SEED, rounds, float(SECONDS or 0), ONLY)
    print(f"{book.uses} uses, {book.migrations} migrations, {dict(book.errors)}, {book.skipped}")
    print(f"{len(book.unlike)} values are stored otherwise than by asyncpg, by new clients too")
    assert not book.wrong, "\n".join(book.wrong)
    assert book.uses
