"""What a signal's handler raises while several threads use one client of ``onetrip.blocking``."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from conftest import PATIENCE, REDIS, URL


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return asyncio.DefaultEventLoopPolicy()


#: The main thread is interrupted again and again, wherever it is. Another one goes on meanwhile, and
#: says what it was told.
STRUCK = """
import collections, random, signal, sys, threading
import onetrip, onetrip.blocking, onetrip.blocking.redis

INTERRUPTS, SEED = 150, 17
url, shape = sys.argv[1:]
chance, armed, is_over = random.Random(SEED), False, False
told, wrong, may_say_closed = {}, [], False

def strike(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def other():
    n = 0
    while not is_over:
        n += 1
        try:
            use(n)
            told[n] = "Applied"
        except onetrip.Error as error:
            told[n] = error.outcome
            if error.code == "closed" and not may_say_closed:
                wrong.append(error)
        except BaseException as error:
            wrong.append(error)

def hit():
    global armed
    interrupted = n = 0
    while interrupted < INTERRUPTS:
        n -= 1
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 3e-3))
            use(n)
            told[n] = "Applied"
        except onetrip.Error as error:
            told[n] = error.outcome
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            armed = False

def use_struck(db):
    global is_over
    thread = threading.Thread(target=other)
    thread.start()
    hit()
    is_over = True
    thread.join()
    db.close()
    assert not wrong, collections.Counter(map(repr, wrong))

def judge(there):
    known = {n: it for n, it in told.items() if it != "Unknown"}
    lies = {n: it for n, it in known.items() if (it == "Applied") != (n in there)}
    assert not lies, lies

sys.unraisablehook = id
signal.signal(signal.SIGALRM, strike)
"""

POSTGRES = STRUCK + """
def value(n):
    db.fetchval("insert into struck values ($1) returning n", n)

def pipeline(n):
    with db.pipeline() as batch:
        call = batch.fetchval("insert into struck values ($1) returning n", n)
    assert call.result() == n

def block(n):
    with db.begin() as tx:
        tx.execute("insert into struck values ($1)", n)

def stream(n):
    for _ in db.stream("insert into struck select $1 from generate_series(1, 1) returning n", n):
        pass

use = {"value": value, "pipeline": pipeline, "block": block, "stream": stream}[shape]
count = "select count(*) from pg_stat_activity where application_name = 'struck'"
with onetrip.blocking.connect(url) as watch:
    watch.execute("drop table if exists struck")
    watch.execute("create table struck (n int4)")
    db = onetrip.blocking.connect(url, application_name="struck", connections_max=3)
    use_struck(db)
    # Until the server has seen the last of them.
    while watch.fetchval(count):
        pass
    there = [row[0] for row in watch.fetch("select n from struck")]
    watch.execute("drop table struck")
assert len(there) == len(set(there)), "ran twice"
judge(there)
print("ended")
"""

REDIS_TOO = STRUCK + """
def value(n):
    db.rpush("struck", n)

def pipeline(n):
    with db.pipeline() as batch:
        call = batch.rpush("struck", n)
    call.result()

def raw(n):
    db.bytes.rpush("struck", n)

use = {"value": value, "pipeline": pipeline, "raw": raw}[shape]
# What is in line there is told by the core, in which nothing was interrupted.
may_say_closed = shape == "pipeline"
with onetrip.blocking.redis.connect(url) as watch:
    watch.delete("struck")
    db = onetrip.blocking.redis.connect(url, client_name="struck")
    use_struck(db)
    while " name=struck " in watch.command("client list"):
        pass
    there = list(map(int, watch.lrange("struck", 0, -1)))
    watch.delete("struck")
judge(there)
print("ended")
"""


def run(script: str, *args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *args],
        capture_output=True, text=True, timeout=PATIENCE,
    )
    assert done.stdout == "ended\n", done.stderr


@pytest.mark.parametrize("shape", ["value", "pipeline", "block", "stream"])
def test_an_interrupt_among_threads_leaves_no_connection_and_tells_the_truth(shape: str) -> None:
    run(POSTGRES, URL, shape)


@pytest.mark.skipif(not REDIS, reason="no Redis was found")
@pytest.mark.parametrize("shape", ["value", "pipeline", "raw"])
def test_an_interrupt_among_threads_of_redis(shape: str) -> None:
    run(REDIS_TOO, REDIS, shape)
