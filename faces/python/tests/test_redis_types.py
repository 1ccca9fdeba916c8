"""onetrip.redis as type checkers see it, installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_redis.py")


@pytest.mark.parametrize(
    "checker",
    [
        ["mypy", "--strict", "--no-incremental"],
        ["pyright", "--pythonpath", sys.executable],
    ],
    ids=lambda checker: checker[0],
)
def test_a_program_is_accepted(checker: list[str], tmp_path: Path) -> None:
    # Elsewhere, so that no configuration of this project counts.
    program = tmp_path / PROGRAM.name
    program.write_bytes(PROGRAM.read_bytes())
    command = [sys.executable, "-m", *checker, str(program)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
