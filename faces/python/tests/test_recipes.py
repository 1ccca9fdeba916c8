"""The recipes of docs/guide/python-recipes.md, with the programs that they are for."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import nbclient
import nbformat
import pytest
from test_docs import ROOT, database, event_loop_policy, examples_of, surroundings

__all__ = ["database", "event_loop_policy", "surroundings"]

PAGE = "docs/guide/python-recipes.md"
FOUND = {it.file: it.code for it in examples_of(PAGE) if it.file is not None}

#: Seconds that a server may take until it serves.
START = 60


@pytest.fixture
def place(
    tmp_path: Path, surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A directory with all files of the page, which is the current one."""
    for name, code in FOUND.items():
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*command: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@contextmanager
def served(*command: str, says: str) -> Iterator[str]:
    """Runs a server until the block ends, and gives its URL. No traceback may be on its log."""
    server = subprocess.Popen(
        [sys.executable, "-m", *command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )
    assert server.stderr is not None
    alarm = threading.Timer(START, server.kill)
    alarm.start()
    log: list[str] = []
    for line in server.stderr:
        log.append(line)
        found = re.search(says + r" (http://127\.0\.0\.1:\d+)", line)
        if found is not None:
            break
    else:
        pytest.fail("".join(log))
    rest = threading.Thread(target=lambda: log.extend(server.stderr or ()))
    rest.start()
    try:
        yield found[1]
    finally:
        server.terminate()
        rest.join()
        alarm.cancel()
        # uvicorn ends by the signal that it was told to end by.
        assert server.wait() in (0, -signal.SIGTERM), "".join(log)
    assert "Traceback" not in "".join(log), "".join(log)


async def used(url: str) -> None:
    """Many requests at once, one for what is not there, and one that writes."""
    async with httpx.AsyncClient(base_url=url, timeout=START) as http:
        answers = await asyncio.gather(*(http.get("/items/7") for _ in range(50)))
        expected = {"name": "hammer", "price": 12.0, "of": 4}
        assert all(answer.json() == expected for answer in answers)
        assert (await http.get("/items/8")).status_code == 404
        assert (await http.post("/transfers", params={"amount": 5})).status_code == 200


def test_fastapi_under_httpx(place: Path) -> None:
    assert "1 passed" in run("pytest", "-q", "-o", "asyncio_mode=auto", "test_app.py")


def test_fastapi_under_uvicorn(place: Path) -> None:
    with served("uvicorn", "app:app", "--port=0", says="running on") as url:
        asyncio.run(used(url))


@pytest.mark.parametrize("preload", [True, False])
def test_two_workers_of_gunicorn(place: Path, preload: bool) -> None:
    (place / "seen.py").write_text(
        "import os\nfrom app import app\n\n@app.get('/pid')\nasync def pid() -> int:\n"
        "    return os.getpid()\n"
    )
    of_page = ["--config=gunicorn.conf.py"]
    if not preload:
        (place / "gunicorn.conf.py").write_text("")
        of_page = ["--worker-class=uvicorn_worker.UvicornWorker"]
    more = ["--bind=127.0.0.1:0", "--workers=2", "seen:app"]
    with served("gunicorn", *of_page, *more, says="Listening at:") as url:
        asyncio.run(used(url))
        # A connection for each, so that both workers come to accept one.
        seen = set()
        while len(seen) < 2:
            seen.add(httpx.get(f"{url}/pid", timeout=START).json())


def test_sqlalchemy(place: Path) -> None:
    ended = subprocess.run([sys.executable, "models.py"], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("[101, 101]\n", "")


def test_alembic(place: Path) -> None:
    url = os.environ["DATABASE_URL"].replace("postgres://", "postgresql+onetrip://", 1)
    run("alembic", "init", "-t", "async", "migrations")
    ini = place / "alembic.ini"
    escaped = url.replace("%", "%%")
    ini.write_text(re.sub("^sqlalchemy.url = .*$", f"sqlalchemy.url = {escaped}", ini.read_text(),
                          flags=re.MULTILINE))
    env = place / "migrations/env.py"
    env.write_text(env.read_text().replace(
        "target_metadata = None", "from models import Base\ntarget_metadata = Base.metadata"
    ))
    (place / "models.py").write_text(FOUND["models.py"].replace('"account"', '"made"'))
    run("alembic", "revision", "--autogenerate", "-m", "first")
    run("alembic", "upgrade", "head")
    assert "(head)" in run("alembic", "current")
    run("alembic", "downgrade", "base")


def test_a_notebook(place: Path) -> None:
    cells = [FOUND["cell_1.py"], FOUND["cell_2.py"], "await db.close()"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(it) for it in cells])
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    shown = [cell.outputs for cell in notebook.cells]
    assert shown[1][0]["data"]["text/plain"] == "[4, 1000]"
    assert not shown[0] and not shown[2]


def test_pytest_with_a_loop_for_each_test_and_with_one_for_all(place: Path) -> None:
    [ini] = re.findall(r"^```ini\n(.*?)^```", (ROOT / PAGE).read_text(), re.MULTILINE | re.DOTALL)
    (place / "pytest.ini").write_text(ini)
    assert "4 passed" in run("pytest", "-q", "-W", "error", "test_each.py", "test_all.py")


def test_each_file_of_the_page_is_in_a_recipe() -> None:
    source = Path(__file__).read_text()
    assert not [name for name in FOUND if name not in source and name != "app.py"]
