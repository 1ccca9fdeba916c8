"""Programs that use asyncpg or redis-py, unmodified, run on both drivers: they must see the same.

A file of `scenarios` is a program. Its coroutine functions of a `stage` are the scenarios, each a
test here. It runs in one process with the real drivers, and in another with those of onetrip.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

HERE = Path(__file__).parent
URL = os.environ["ONETRIP_TEST_POSTGRES"]
REDIS = os.environ.get("ONETRIP_TEST_REDIS", "")
#: Programs that speak through SQLAlchemy run with its dialect for onetrip as well.
WAYS = {"sqlalchemy_orm": ("ours", "dialect"), "alembic_": ("dialect",)}
#: What the programs import, with the real drivers and with ours.
DRIVERS = (["asyncpg", "redis.asyncio"], ["onetrip.asyncpg", "onetrip.redis.asyncio"])
#: Programs that run with what is in `newest.txt`.
NEWEST = ("channels_",)
NEEDS_REDIS = ("arq_", "channels_")
LIMIT_S = 120


def is_scenario(it: ast.AsyncFunctionDef) -> bool:
    return not it.name.startswith("_") and [arg.arg for arg in it.args.args] == ["stage"]


def scenarios() -> Iterator[Any]:
    for file in sorted((HERE / "scenarios").glob("*.py")):
        for way in WAYS.get(file.stem, ("ours",)):
            for it in ast.parse(file.read_text()).body:
                if isinstance(it, ast.AsyncFunctionDef) and is_scenario(it):
                    yield pytest.param(file.stem, way, it.name, id=f"{file.stem}-{way}-{it.name}")


def ask(*texts: str) -> None:
    async def run() -> None:
        con = await asyncpg.connect(URL)
        for text in texts:
            await con.execute(text)
        await con.close()

    asyncio.run(run())


def at(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def perform(program: str, driver: str, place: int, report: Path) -> dict[str, Any]:
    """Runs a program with a driver, in a database of its own."""
    name = f"compat_{program.strip('_')}_{driver}"
    ask(f"drop database if exists {name} with (force)", f"create database {name}")
    url, redis = at(URL, name), at(REDIS, str(place))
    file = HERE / "scenarios" / f"{program}.py"
    path = os.environ["ONETRIP_COMPAT_NEWEST"] if program in NEWEST else ""
    arguments = [driver, str(file), url, redis, name, str(report)]
    done = subprocess.run(
        [sys.executable, str(HERE / "child.py"), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, cwd=HERE,
        env={**os.environ, "PYTHONPATH": path},
    )
    ask(f"drop database {name} with (force)")
    if done.returncode:
        text = f"{program} with {driver} ended with {done.returncode}\n{done.stdout}"
        pytest.fail(text, pytrace=False)
    told = json.loads(report.read_text())
    assert told["drivers"] == DRIVERS[driver == "ours"]
    return told


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Any]:
    """The runs of the chosen programs: all begin at once, as many at a time as there are cores."""
    reports = tmp_path_factory.mktemp("reports")
    wanted = dict.fromkeys(
        (it.callspec.params["program"], way)
        for it in request.session.items
        for way in ("real", it.callspec.params["way"])
    )
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield {
            (program, way): threads.submit(
                perform, program, way, place % 15 + 1, reports / f"{program}-{way}.json"
            )
            for place, (program, way) in enumerate(wanted)
        }
        threads.shutdown(cancel_futures=True)


def report(run: Future[dict[str, Any]], scenario: str) -> dict[str, Any]:
    (found,) = [it for it in run.result()["reports"] if it["scenario"] == scenario]
    return found


def labelled(seen: list[tuple[str, Any]]) -> dict[str, Any]:
    """By label, of which one that is used again gets a number."""
    found: dict[str, Any] = {}
    for label, value in seen:
        name, n = label, 2
        while name in found:
            name, n = f"{label} ({n})", n + 1
        found[name] = value
    return found


def differing(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    return [
        f"{label}:\n  ours   {json.dumps(ours.get(label))}\n"
        f"  theirs {json.dumps(theirs.get(label))}"
        for label in {**theirs, **ours}
        if (label in ours, ours.get(label)) != (label in theirs, theirs.get(label))
    ]


@pytest.mark.parametrize("program, way, scenario", list(scenarios()))
def test_both_see_the_same(runs: Any, program: str, way: str, scenario: str) -> None:
    if program in NEEDS_REDIS and not REDIS:
        pytest.skip("no Redis was found")
    theirs = report(runs[program, "real"], scenario)
    ours = report(runs[program, way], scenario)
    found = [
        f"with {driver} it failed:\n{of['failure']}"
        for driver, of in (("the real driver", theirs), ("onetrip", ours))
        if of["failure"]
    ]
    found += differing(labelled(ours["seen"]), labelled(theirs["seen"])) if not found else ()
    found += () if theirs["seen"] else ("the scenario recorded nothing",)
    if found:
        pytest.fail("\n".join(found), pytrace=False)
