"""Programs of others through `onetrip sidecar`: the trips that they pay, counted at the server's side
by `onetrip proxy`, and what they leave behind."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

HERE = Path(__file__).parent
ONETRIP = os.environ["ONETRIP_COMMAND"]
HEAD, SERVER, DATABASE = re.fullmatch(
    r"(postgres(?:ql)?://[^@]*@)([^/]*)(/.*)", os.environ["ONETRIP_TEST_POSTGRES"]
).groups()


class Command:
    """A command of onetrip that listens, until it is asked for what it has counted."""

    def __init__(self, *arguments):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([ONETRIP, *arguments], stdout=pipe, text=True)
        self.address = self.process.stdout.readline().split(" -> ")[0]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=60)[0]
        assert self.process.returncode == 0, said
        return said.strip()


def php():
    """PHP with PDO for PostgreSQL, if it is installed."""
    found = shutil.which("php")
    if found and "pdo_pgsql" in subprocess.run([found, "-m"], capture_output=True, text=True).stdout:
        return [found, str(HERE / "program.php")]
    return None


def python(name):
    return [sys.executable, str(HERE / "programs.py"), name]


def trips(program, early):
    """The trips of a unit; `early` is None without the sidecar. And what the sidecar says."""
    UNITS = 10
    counted, said = [], None
    for units in (1, 1 + UNITS):
        proxy = Command("proxy", "--upstream", SERVER, "--interval", "3600")
        address, sidecar = proxy.address, None
        if early is not None:
            more = ["--early", early] if early else []
            sidecar = Command("sidecar", "--listen", "127.0.0.1:0", "--to", address, *more)
            address = sidecar.address
        url = f"{HEAD}{address}{DATABASE}?sslmode=disable"
        environment = {**os.environ, "DATABASE_URL": url}
        subprocess.run([*program, str(units)], env=environment, check=True, timeout=120)
        said = sidecar and sidecar.end()
        count = re.search(r"([\d,]+) trips?", proxy.end())[1]
        counted.append(int(count.replace(",", "")))
    return (counted[1] - counted[0]) / UNITS, said


PROGRAMS = [
    # Program, early, directly, through the sidecar at most.
    (python("psycopg_nested"), "", 6, 3),
    (python("psycopg_prepared"), "", 2, 1),
    (python("psycopg_cursor"), "", 5, 3),
    (python("psycopg_pipeline"), "", 1, 1),
    (python("psycopg2_transaction"), "", 7, 6),
    (python("sqlalchemy_reads"), "", 4, 3),
    (python("sqlalchemy_pings"), "ping", 5, 3),
    (python("asyncpg_pool"), "", 8, 7),
    (python("django_atomic"), "", 6, 3),
    *([(php(), "", 17, 6)] if php() else []),
]


@pytest.fixture(scope="module", autouse=True)
def table():
    with psycopg.connect(f"{HEAD}{SERVER}{DATABASE}", autocommit=True) as db:
        db.execute("drop table if exists kv")
        db.execute("create table kv (k int primary key, v int)")
        db.execute("insert into kv select k, 0 from generate_series(0, 9) k")
        yield db


@pytest.mark.parametrize("program, early, directly, through", PROGRAMS)
def test_a_program_pays_for_fewer_trips_and_writes_the_same(
    table, program, early, directly, through
):
    def written():
        return table.execute("select sum(v) from kv").fetchone()[0]

    before = written()
    counted, _ = trips(program, None)
    by_itself = written() - before
    assert counted == directly
    counted, said = trips(program, early)
    assert counted <= through, said
    assert written() - before == 2 * by_itself
    assert "proved false" not in said
