"""The examples of the users' pages, as they stand there.

One that calls ``asyncio.run``, or awaits nothing, is a program. Any other goes on with the ``db``
and ``cache`` of the first example of its page, and may await. One marked ``no-run`` is only
compiled. One that begins with the name of a file belongs to a recipe: `test_recipes.py` runs it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import onetrip
import onetrip.redis
from conftest import REDIS, URL

ROOT = Path(__file__).parents[3]
FILES = [
    "README.md",
    "faces/python/README.md",
    "docs/guide/python.md",
    "docs/guide/python-asyncpg.md",
    "docs/guide/python-recipes.md",
    "docs/guide/python-redis.md",
    "docs/concepts/outcomes.md",
    "docs/operations/clusters.md",
]

TABLES = """
drop schema public cascade;
create schema public;
create table item (id int primary key, name text, price float8);
create table account (id int primary key, balance int);
create table event (id int primary key, kind text);
create table reading (sensor int, value float8);
insert into item values (1, 'nail', 0.10), (2, 'screw', 0.20), (3, 'nut', 0.30);
insert into item values (7, 'hammer', 12);
insert into account values (1, 100), (2, 100);
insert into event select generate_series(1, 1000), 'visit';
"""


@dataclass
class Example:
    page: str
    heading: str
    mark: str
    code: str

    @property
    def file(self) -> str | None:
        """The file of a recipe that it is."""
        match = re.match(r"# ([\w.]+\.py)\n", self.code)
        return None if match is None else match[1]

    @property
    def is_program(self) -> bool:
        return "asyncio.run(" in self.code or not re.search("await|async ", self.code)

    @property
    def prints(self) -> list[str]:
        """What is said behind each ``print``."""
        return re.findall(r"print\(.*\)  # (.*)$", self.code, re.MULTILINE)


def examples_of(page: str) -> list[Example]:
    found, heading = [], ""
    pattern = r"^#+ (.*)$|^```(\w+)(.*)\n([^`]*?)^```$"
    for match in re.finditer(pattern, (ROOT / page).read_text(), re.MULTILINE):
        title, language, mark, code = match.groups()
        heading = title or heading
        if language == "python":
            found.append(Example(page, heading, mark.strip(), code))
    return found


EXAMPLES = [example for page in FILES for example in examples_of(page)]


def ids(example: Example) -> str:
    return f"{example.page}: {example.heading}"


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """Each runs its own loop, once."""
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture(scope="session")
def database() -> str:
    """The URL of a database of the pages' own."""

    async def make() -> None:
        async with onetrip.connect(URL) as db:
            await db.execute("drop database if exists docs")
            await db.execute("create database docs")

    asyncio.run(make())
    return urlsplit(URL)._replace(path="/docs").geturl()


@pytest.fixture
def surroundings(database: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A server that has the tables, and an empty Redis, in the variables that the pages name."""

    async def prepare() -> None:
        async with onetrip.connect(database) as db, db.session() as session:
            await session.script(TABLES)
        if REDIS:
            async with onetrip.redis.connect(REDIS) as cache:
                await cache.flushall()

    asyncio.run(prepare())
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("REDIS_URL", REDIS)
    return dict(os.environ)


@pytest.mark.parametrize("example", EXAMPLES, ids=ids)
def test_the_example_runs(
    example: Example, surroundings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    if not REDIS and re.search("redis|cache", example.code):
        pytest.skip("no Redis was found")
    if "TaskGroup" in example.code and sys.version_info < (3, 11):
        pytest.skip("asyncio.TaskGroup is of Python 3.11")
    if example.mark == "no-run" or example.file is not None:
        compile(example.code, example.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return
    if example.is_program:
        # A warning is about a call that nobody awaited, or a connection that nobody closed.
        command = [sys.executable, "-W", "default", "-c", example.code]
        ended = subprocess.run(command, env=surroundings, capture_output=True, text=True)
        assert ended.returncode == 0 and not ended.stderr, ended.stderr
        printed = ended.stdout
    else:
        asyncio.run(go_on(example))
        printed = capsys.readouterr().out
    for line in example.prints:
        assert line in printed, printed


async def go_on(example: Example) -> None:
    async with onetrip.connect(os.environ["DATABASE_URL"]) as db:
        names: dict[str, Any] = {"asyncio": asyncio, "db": db, "onetrip": onetrip, "os": os}
        if REDIS:
            names["cache"] = await onetrip.redis.connect(REDIS)
        code = compile(example.code, example.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        try:
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result
        finally:
            if REDIS:
                await names["cache"].close()


def test_there_are_examples_on_each_page() -> None:
    assert {example.page for example in EXAMPLES} == set(FILES)


def test_the_types_of_programs_are_strict(tmp_path: Path) -> None:
    programs = [it for it in EXAMPLES if "asyncio.run(" in it.code and it.file is None]
    programs += [it for it in EXAMPLES if it.file == "app.py"]
    assert any("FastAPI" in it.code for it in programs)
    files = []
    for number, example in enumerate(programs):
        name = re.sub(r"\W", "_", example.page)
        files.append(tmp_path / f"{name}_{number}.py")
        files[-1].write_text(example.code)
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, files)]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
