"""What type checkers accept and refuse: the package itself, and programs that use it."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import onetrip

PACKAGE = Path(onetrip.__file__).parent
TYPED = Path(__file__).parent / "typed"


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """No loop runs here."""
    return asyncio.DefaultEventLoopPolicy()


def lines_of(file: Path) -> set[int]:
    """The lines with a mark."""
    lines = file.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(cwd: Path, *arguments: str) -> str:
    return run("mypy", "--strict", "--no-error-summary", *arguments, cwd=cwd)


def pyright(cwd: Path) -> list[Any]:
    told = json.loads(run("pyright", "--pythonpath", sys.executable, "--outputjson", cwd=cwd))
    return [one for one in told["generalDiagnostics"] if one["severity"] == "error"]


def test_mypy_accepts_the_package(tmp_path: Path) -> None:
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    assert mypy(tmp_path, "--config-file", str(pyproject), "-p", "onetrip") == ""


@pytest.mark.parametrize("file", ["accepted.py", "refused.py"])
def test_mypy(file: str, tmp_path: Path) -> None:
    told = mypy(tmp_path, "--warn-unused-ignores", str(TYPED / file))
    lines = {int(number) for number in re.findall(r"\.py:(\d+): error:", told)}
    assert lines == lines_of(TYPED / file), told


@pytest.mark.parametrize("file", ["accepted.py", "refused.py"])
def test_pyright(file: str, tmp_path: Path) -> None:
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    shutil.copy(TYPED / file, tmp_path)
    found = pyright(tmp_path)
    lines = {one["range"]["start"]["line"] + 1 for one in found}
    assert lines == lines_of(TYPED / file), json.dumps(found, indent=1)


def test_pyright_knows_all_public_types(tmp_path: Path) -> None:
    """What users can name has a type that is known: the count of what has none."""
    told = json.loads(
        run(
            "pyright", "--pythonpath", sys.executable, "--outputjson", "--ignoreexternal",
            "--verifytypes", "onetrip", cwd=tmp_path,
        )
    )
    unknown = [
        symbol["name"]
        for symbol in told["typeCompleteness"]["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
    ]
    assert unknown == []
