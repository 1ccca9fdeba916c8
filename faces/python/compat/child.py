"""Runs the scenarios of one file with one driver, as a process of its own:

    child.py real|ours|dialect FILE URL REDIS NAME REPORT

With `real` the drivers are asyncpg and redis-py. With `ours`, `import asyncpg` and
`import redis.asyncio` give onetrip's. With `dialect` nothing is replaced, and SQLAlchemy has
`postgresql+onetrip`. The report is written to a file.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from support.stage import Stage

LIMIT_S = 40


def install() -> None:
    import redis.asyncio

    import onetrip.asyncpg
    import onetrip.redis.asyncio

    onetrip.asyncpg.install()
    sys.modules["redis.asyncio"] = redis.asyncio = onetrip.redis.asyncio


def load(file: Path) -> ModuleType:
    name = f"scenario_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def is_scenario(run: Any) -> bool:
    return asyncio.iscoroutinefunction(run) and list(inspect.signature(run).parameters) == ["stage"]


async def perform(run: Any, stage: Stage) -> None:
    def stray(_: asyncio.AbstractEventLoop, told: dict[str, Any]) -> None:
        stage.see("stray", [told.get("message"), told.get("exception")])

    asyncio.get_running_loop().set_exception_handler(stray)
    await asyncio.wait_for(run(stage), LIMIT_S)


def main(driver: str, file: str, url: str, redis: str, name: str, report: str) -> None:
    if driver == "ours":
        install()
    dialect = "onetrip" if driver == "dialect" else "asyncpg"
    module = load(Path(file))
    reports = []
    for title, run in list(vars(module).items()):
        if title.startswith("_") or not is_scenario(run):
            continue
        stage = Stage(url, redis, name, dialect)
        failure = None
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", RuntimeWarning)
            try:
                asyncio.run(perform(run, stage))
            except BaseException:
                failure = traceback.format_exc(limit=-5, chain=False)
        for it in warned:
            if issubclass(it.category, RuntimeWarning):
                stage.see("warning", str(it.message))
        reports.append({"scenario": title, "seen": stage.seen, "failure": failure})
    # What the program has imported.
    drivers = [getattr(sys.modules.get(it), "__name__", it) for it in ("asyncpg", "redis.asyncio")]
    Path(report).write_text(json.dumps({"drivers": drivers, "reports": reports}))


if __name__ == "__main__":
    main(*sys.argv[1:])
