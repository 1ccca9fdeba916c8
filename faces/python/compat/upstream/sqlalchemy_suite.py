"""Runs the tests of SQLAlchemy on a private server, once per way, and prints what ends otherwise:

    sqlalchemy_suite.py SOURCES [TEST…]

The ways are `asyncpg`; `onetrip`, the dialect; and `installed`, the dialect for asyncpg on
`onetrip.asyncpg.install()`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

URL = os.environ["ONETRIP_TEST_POSTGRES"]
WAYS = ("asyncpg", "onetrip", "installed")
TESTS = ("dialect/postgresql", "dialect/test_suite.py", "engine", "ext/asyncio")

#: With asyncpg a statement whose table was altered by others fails once; here it runs.
MEANT = ("test_detect_stale_ddl_cache_raise_recover",)

#: As SQLAlchemy's README.unittests asks for it.
PREPARE = """create schema test_schema; create schema test_schema_2;
create extension hstore; create extension citext;"""


async def prepare(name: str) -> str:
    con = await asyncpg.connect(URL)
    await con.execute(f"create database {name}")
    search = "default_text_search_config = 'pg_catalog.english'"
    await con.execute(f"alter database {name} set {search}")
    await con.close()
    url = urlsplit(URL)._replace(path=f"/{name}")
    con = await asyncpg.connect(url.geturl())
    await con.execute(PREPARE)
    await con.close()
    return url.netloc + url.path


def begin(way: str, sources: Path, tests: list[str]) -> subprocess.Popen[bytes]:
    place = asyncio.run(prepare(f"sqlalchemy_{way}"))
    driver = "onetrip" if way == "onetrip" else "asyncpg"
    told = (sources.parent / f"sqlalchemy-{way}.log").open("wb")
    return subprocess.Popen(
        # Without user sites SQLAlchemy's conftest takes the package that is installed.
        [sys.executable, "-s", "-m", "pytest", "-p", "ways", "--quiet", "--tb=short",
         "-p", "no:cacheprovider", f"--junitxml={report(sources, way)}",
         "--dburi", f"postgresql+{driver}://{place}", *(f"test/{test}" for test in tests)],
        cwd=sources, stdout=told, stderr=told,
        env={**os.environ, "ONETRIP_WAY": way, "PYTHONPATH": str(Path(__file__).parent)},
    )


def report(sources: Path, way: str) -> Path:
    return sources.parent / f"sqlalchemy-{way}.xml"


def ends(sources: Path, way: str) -> dict[str, str]:
    """How each test ended."""
    found = {}
    for case in xml.parse(report(sources, way)).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}".replace("+onetrip", "+asyncpg")
        found[name] = next((child.tag for child in case if child.tag != "properties"), "passed")
    return found


def main(sources: str, *tests: str) -> int:
    of = Path(sources)
    for run in [begin(way, of, list(tests or TESTS)) for way in WAYS]:
        run.wait()
    theirs = ends(of, "asyncpg")
    print("asyncpg", dict(Counter(theirs.values())))
    differences = 0
    for way in WAYS[1:]:
        ours = ends(of, way)
        print(way, dict(Counter(ours.values())))
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name) and name.rsplit(".", 1)[-1] not in MEANT:
                differences += 1
                print(f"  {name}: {ours.get(name)}, with asyncpg {theirs.get(name)}")
    print(f"{differences} differences; what was told: {of.parent}/sqlalchemy-*.log")
    return differences > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
