"""``onetrip.blocking``: the client of programs without async."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

import onetrip
import onetrip.blocking
from onetrip import Gap, Notification
from onetrip.blocking import Database, Timeout, connect
from onetrip.blocking._loop import Loop
from onetrip.blocking._parts import Block
from onetrip.errors import CancelledError

from conftest import PATIENCE, URL, Line


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """It has a loop of its own: once is enough."""
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(URL) as db:
        yield db


@pytest.fixture
def far(line: Line) -> Iterator[Database]:
    """One connection, by way of the line."""
    with connect(line.url, connections_max=1) as db:
        yield db


@pytest.fixture
def table(db: Database) -> Iterator[str]:
    db.execute("drop table if exists blocked")
    db.execute("create table blocked (i int4)")
    yield "blocked"
    db.execute("drop table blocked")


def until(holds: Callable[[], Any]) -> None:
    """It is asked again until it holds, for 10 s at most."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"


def sleepers(db: Database, mark: str) -> int:
    text = (
        "select count(*) from pg_stat_activity "
        "where state = 'active' and wait_event = 'PgSleep' and query like $1"
    )
    return int(db.fetchval(text, f"%pg_sleep%{mark}%"))


def slow(mark: str) -> str:
    return f"select pg_sleep(60)::text -- {mark}"


# --- calls ---


@dataclass
class Pair:
    a: int
    b: str


def test_a_call_returns_its_result(db: Database) -> None:
    assert db.fetchval("select $1::int4 + 1", 1) == 2
    assert db.fetchval("select 1, 2", column=1) == 2
    assert [row["i"] for row in db.fetch("select generate_series(1, 3) as i")] == [1, 2, 3]
    assert db.fetchrow("select 1 where false") is None
    assert db.fetch("select 1 as a, 'x' as b", into=Pair) == [Pair(1, "x")]
    assert db.execute("notify nobody") == "NOTIFY"
    assert len(db.fetch_arrow("select generate_series(1, 5)")) == 5
    assert "server_version" in db.server_parameters
    assert db.metrics().statements > 5


def test_an_error_says_what_is_known(db: Database) -> None:
    with pytest.raises(onetrip.PostgresError) as error:
        db.fetchval("select 1 / 0")
    assert error.value.sqlstate == "22012" and error.value.outcome == "Rejected"
    with pytest.raises(onetrip.ParameterError, match=r"\$1"):
        db.fetchval("select $1::int4", 1 << 40)
    with pytest.raises(onetrip.MisuseError):
        db.execute("begin")
    with pytest.raises(TypeError):
        db.fetch("select 1", into=3)  # type: ignore[call-overload]
    assert db.fetchval("select 1") == 1


def test_a_pipeline_of_a_thousand_statements_is_one_trip(far: Database, line: Line) -> None:
    with far.pipeline() as pipeline:
        first = pipeline.fetchval("select $1::int4", 0)
    assert first.result() == 0
    line.trips
    with far.pipeline() as pipeline:
        calls = [pipeline.fetchval("select $1::int4", i) for i in range(1000)]
    assert line.trips == 1
    assert [call.result() for call in calls] == list(range(1000))


def test_a_pipeline_that_fails_has_no_effect(db: Database, table: str) -> None:
    with pytest.raises(onetrip.PostgresError):
        with db.pipeline() as pipeline:
            written = pipeline.execute("insert into blocked values (1)")
            failed = pipeline.fetchval("select 1 / 0")
            with pytest.raises(RuntimeError, match="has not ended"):
                written.result()
    with pytest.raises(onetrip.Error) as error:
        written.result()
    assert error.value.code == "rolled_back"
    with pytest.raises(onetrip.PostgresError):
        failed.result()
    with pytest.raises(onetrip.Error) as error:
        pipeline.execute("select 1").result()
    assert error.value.code == "over" and error.value.outcome == "NotSent"
    assert db.fetchval("select count(*) from blocked") == 0


def test_begin_and_reset_ride_along(far: Database, line: Line) -> None:
    far.fetchval("select 1")
    with far.begin() as tx:
        tx.fetchval("select 1")
    line.trips
    with far.begin() as tx:
        assert tx.fetchval("select 1") == 1
    assert line.trips == 2
    with far.session() as session:
        session.execute("set work_mem = '5MB'")
        assert session.fetchval("show work_mem") == "5MB"
    line.trips
    assert far.fetchval("show work_mem") == "4MB"
    assert line.trips == 1


def test_a_transaction_stands_or_falls_with_its_block(db: Database, table: str) -> None:
    with db.begin(isolation="serializable", read_only=False) as tx:
        tx.execute("insert into blocked values (1)")
        with pytest.raises(ZeroDivisionError):
            with tx.begin() as inner:
                inner.execute("insert into blocked values (2)")
                1 / 0
    with pytest.raises(ZeroDivisionError):
        with db.begin() as tx:
            tx.execute("insert into blocked values (3)")
            1 / 0
    with pytest.raises(onetrip.MisuseError):
        tx.execute("select 1")
    assert db.fetchval("select array_agg(i) from blocked") == [1]


def test_what_met_others_runs_again(db: Database, table: str) -> None:
    db.execute("insert into blocked values (0)")
    seen = []

    def work(tx: onetrip.blocking.Transaction) -> int:
        seen.append(tx.fetchval("select i from blocked"))
        if len(seen) == 1:
            db.execute("update blocked set i = 7")
        tx.execute("update blocked set i = i + 1")
        return len(seen)

    assert db.run(work) == 2 and seen == [0, 7]
    assert db.fetchval("select i from blocked") == 8


def test_many_sets_of_arguments(db: Database, table: str) -> None:
    insert = "insert into blocked values ($1)"
    assert db.executemany(insert, [(1,), (2,)]) == 2
    assert [row[0] for row in db.fetchmany(insert + " returning i", [(3,), (4,)])] == [3, 4]
    assert db.batch(insert, ((i,) for i in range(3000))).atomic() == 3000
    report = db.batch("insert into blocked values (10 / $1)", [(1,), (0,), (5,)]).isolated()
    assert (report.taken, report.affected, list(report.errors)) == (3, 2, [1])
    assert db.fetchval("select count(*) from blocked") == 3006


def test_notices_are_handed_over() -> None:
    heard: list[str] = []
    with connect(URL, on_notice=lambda notice: heard.append(notice.message)) as db:
        db.execute("do $$ begin raise notice 'listen'; end $$")
    assert heard == ["listen"]


# --- streams, COPY, listeners ---


def test_rows_as_they_arrive(db: Database) -> None:
    rows = db.stream("select generate_series(1, 100000) as i", into=tuple)
    assert sum(i for (i,) in rows) == 5000050000
    assert next(rows, None) is None
    with db.begin() as tx:
        assert len(list(tx.stream("select generate_series(1, $1::int4)", 10))) == 10
    with pytest.raises(onetrip.PostgresError):
        list(db.stream("select 1 / 0"))


def test_a_stream_that_is_left_gives_its_connection_back() -> None:
    with connect(URL, connections_max=1) as db:
        for row in db.stream("select generate_series(1, 1000000)"):
            break
        gc.collect()
        assert db.fetchval("select 1") == 1
        with db.stream("select generate_series(1, 1000000)") as stream:
            assert next(stream)[0] == 1
        assert db.fetchval("select 2") == 2


def test_copy_both_ways(db: Database, table: str) -> None:
    assert db.copy_in("copy blocked from stdin", b"1\n2\n") == 2
    assert db.copy_in("copy blocked from stdin", (b"%d\n" % i for i in range(50000))) == 50000
    # What makes the rows may use the client.
    rows = ((db.fetchval("select $1::int4", i),) for i in range(300))
    assert db.copy_rows(table, rows, columns=["i"]) == 300
    with pytest.raises(ZeroDivisionError):
        db.copy_in("copy blocked from stdin", (b"%d\n" % (1 // i) for i in (1, 0)))
    with pytest.raises(TypeError, match="bytes"):
        db.copy_in("copy blocked from stdin", ["1\n"])
    with pytest.raises(onetrip.PostgresError):
        db.copy_in("copy blocked from stdin", b"x\n" * 100000)
    out = b"".join(db.copy_out("copy blocked to stdout"))
    assert out.count(b"\n") == db.fetchval("select count(*) from blocked") == 50302
    with db.begin() as tx:
        assert tx.copy_in("copy blocked from stdin", b"1\n") == 1


def test_notifications_and_a_time_to_wait_for_them(db: Database) -> None:
    with db.listen("blocking") as events:
        assert events.take(0.01) is None
        db.execute("select pg_notify('blocking', 'a')")
        db.execute("select pg_notify('blocking', 'b')")
        event = events.take(5)
        assert isinstance(event, Notification) and event.payload == "a"
        with Timeout(5):
            event = next(events)
        assert isinstance(event, Notification) and event.payload == "b"
        with pytest.raises(onetrip.TimeoutError):
            with Timeout(0.01):
                next(events)


def test_a_listener_that_reconnects_says_so(db: Database, far: Database, line: Line) -> None:
    with far.listen("blocking_again") as events:
        line.say("cut")
        assert events.take(10) == Gap(0)
        db.execute("notify blocking_again, 'x'")
        event = events.take(10)
        assert isinstance(event, Notification) and event.payload == "x"


# --- threads ---


def test_many_threads_share_a_client() -> None:
    with connect(URL, connections_max=3) as db, ThreadPoolExecutor(12) as pool:

        def work(of: int) -> bool:
            for i in range(100):
                match i % 4:
                    case 0 | 1:
                        assert db.fetchval("select $1::int4", of * 1000 + i) == of * 1000 + i
                    case 2:
                        with db.begin() as tx:
                            tx.execute("select set_config('onetrip.of', $1, true)", str(of))
                            assert tx.fetchval("select current_setting('onetrip.of')") == str(of)
                    case 3:
                        with db.pipeline() as pipeline:
                            calls = [pipeline.fetchval("select $1::int4", of + j) for j in (0, 1)]
                        assert [call.result() for call in calls] == [of, of + 1]
            return True

        assert all(pool.map(work, range(12)))
        assert db.metrics().connections <= 3 and db.metrics().lost == 0


def test_a_thread_that_waits_holds_up_no_other(db: Database) -> None:
    limit = Timeout(None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_within, limit, lambda: db.fetchval(slow("held")))
        until(lambda: sleepers(db, "held"))
        assert db.fetchval("select 1") == 1
        limit.cancel()
        with pytest.raises(onetrip.Error) as error:
            waiting.result(10)
        assert error.value.code == "cancelled"
        until(lambda: not sleepers(db, "held"))


def _within(limit: Timeout, work: Callable[[], Any]) -> Any:
    with limit:
        return work()


@pytest.mark.parametrize("drives", [True, False])
def test_another_thread_cancels_a_call(db: Database, drives: bool) -> None:
    """The thread of the call drives, or another does."""
    limit, other = Timeout(None), Timeout(None)
    with ThreadPoolExecutor(2) as pool:
        first, second = ("other", "mine") if not drives else ("mine", "other")
        works = {}
        for name in (first, second):
            of = limit if name == "mine" else other
            works[name] = pool.submit(_within, of, lambda name=name: db.fetchval(slow(name)))
            until(lambda name=name: sleepers(db, name))
        limit.cancel()
        with pytest.raises(onetrip.Error, match="another thread") as error:
            works["mine"].result(10)
        assert error.value.outcome in ("Rejected", "Unknown")
        assert sleepers(db, "other") == 1
        other.cancel()
        until(lambda: not sleepers(db, "other"))
    assert db.metrics().lost == 0


def test_a_call_whose_time_is_over_harms_nobody() -> None:
    with connect(URL, connections_max=1) as db:
        for _ in range(3):
            with pytest.raises(onetrip.TimeoutError, match="0.5 s") as error:
                with Timeout(0.5):
                    db.fetchval(slow("timed"))
            assert error.value.outcome in ("Rejected", "Unknown")
            assert db.fetchval("select 1") == 1
        with Timeout(0.05), pytest.raises(onetrip.TimeoutError):
            with db.begin() as tx:
                tx.execute("create table never (i int4)")
                tx.fetchval(slow("timed"))
        with pytest.raises(onetrip.TimeoutError) as error:
            with Timeout(0) as limit:
                db.fetchval("select 1")
        assert error.value.outcome == "NotSent"
        with pytest.raises(onetrip.MisuseError):
            limit.__enter__()
        assert db.fetchval("select to_regclass('never')::text") is None
        assert db.metrics().lost == 0


def test_a_stream_that_is_given_up_amid_its_rows_does_not_say_that_nothing_was_sent(
    db: Database, table: str
) -> None:
    text = f"insert into {table} select $1::int4 from generate_series(1, $2::int4) returning i"
    for number, rows in enumerate((3, 300_000)):
        with pytest.raises(CancelledError) as error:
            with Timeout(30) as limit, db.stream(text, number, rows) as stream:
                next(stream)
                limit.cancel()
                list(stream)
        assert error.value.outcome in ("Applied", "Unknown")
    # The first was whole before it was given up.
    assert db.fetchval(f"select count(*) from {table} where i = 0") == 3


def test_what_a_client_calls_can_not_use_it(db: Database) -> None:
    def again(a: int) -> int:
        return int(db.fetchval("select 1"))

    with pytest.raises(onetrip.Error) as error:
        db.fetch("select 1 as a", into=again)
    assert "can't use that client" in str(error.value.__cause__)
    assert db.fetchval("select 1") == 1


async def test_it_works_where_a_loop_runs() -> None:
    with connect(URL) as db:
        assert db.fetchval("select 1") == 1
        with db.begin() as tx:
            assert tx.fetchval("select 2") == 2
    await asyncio.sleep(0)


@pytest.mark.parametrize("ends", ["time", "cancel"])
@pytest.mark.parametrize("block", ["commit", "run", "pipeline", "rollback"])
def test_a_timeout_bounds_the_way_out_of_a_block(
    far: Database, line: Line, block: str, ends: str
) -> None:
    """The server is frozen as the block is left."""
    limit, calls = Timeout(1 if ends == "time" else None), []

    def freeze(tx: Any) -> None:
        calls.append(tx.execute("select 1"))
        line.say("stall")
        if ends == "cancel":
            threading.Timer(0.2, limit.cancel).start()

    def work() -> None:
        with limit:
            if block == "run":
                return far.run(freeze)
            with far.pipeline() if block == "pipeline" else far.begin() as it:
                freeze(it)
                if block == "rollback":
                    1 / 0

    far.fetchval("select 1")
    thread = ThreadPoolExecutor(1)
    try:
        raised = ZeroDivisionError if block == "rollback" else onetrip.Error
        with pytest.raises(raised) as error:
            thread.submit(work).result(PATIENCE)
        if block != "rollback":
            assert error.value.outcome == "Unknown"
            assert error.value.code == ("timeout" if ends == "time" else "cancelled")
        if block == "pipeline":
            with pytest.raises(onetrip.Error) as error:
                calls[0].result()
            assert error.value.outcome == "Unknown"
    finally:
        # What hangs ends with this.
        far.close(0)
        thread.shutdown()


# --- signals ---


def interrupt(db: Database, mark: str) -> threading.Thread:
    """Presses Ctrl-C when that statement runs."""

    def work() -> None:
        with connect(URL) as other:
            until(lambda: sleepers(other, mark))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_ctrl_c_stops_the_statement_and_no_reply_goes_astray() -> None:
    with connect(URL, connections_max=1) as db, connect(URL) as other:
        for attempt in range(3):
            thread = interrupt(db, f"stopped {attempt}")
            with pytest.raises(KeyboardInterrupt):
                db.fetchval(slow(f"stopped {attempt}"))
            thread.join()
            until(lambda: not sleepers(other, f"stopped {attempt}"))
            assert db.fetchval("select $1::int4", attempt) == attempt
        thread = interrupt(db, "in transaction")
        with pytest.raises(KeyboardInterrupt):
            with db.begin() as tx:
                tx.execute("create table never (i int4)")
                list(tx.stream(slow("in transaction")))
        thread.join()
        assert db.fetchval("select to_regclass('never')::text") is None


def test_ctrl_c_while_another_thread_drives(db: Database) -> None:
    limit = Timeout(None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_within, limit, lambda: db.fetchval(slow("driver")))
        until(lambda: sleepers(db, "driver"))
        thread = interrupt(db, "follower")
        with pytest.raises(KeyboardInterrupt):
            db.fetchval(slow("follower"))
        thread.join()
        until(lambda: not sleepers(db, "follower"))
        assert sleepers(db, "driver") == 1
        limit.cancel()
        with pytest.raises(onetrip.Error):
            waiting.result(10)


#: A handler raises again and again, wherever it is called.
RUNG = """
import onetrip.blocking, random, signal, sys

class Rang(Exception):
    pass

def ring(*_):
    if armed:
        raise Rang

def ask(i):
    if i % 3:
        return db.fetchval("select $1::int4", i)
    with db.pipeline() as pipeline:
        calls = [pipeline.fetchval("select $1::int4", i) for _ in (1, 2)]
    return calls[1].result()

armed = False
signal.signal(signal.SIGALRM, ring)
# It does nothing, and as it is written in C, no handler runs in it.
sys.unraisablehook = id
chance, rung, right = random.Random(17), 0, 0
with onetrip.blocking.connect(sys.argv[1], connections_max=2) as db:
    for i in range(1500):
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 3e-3))
            found = ask(i)
            armed = False
            assert found == i, (found, i)
            right += 1
        except (Rang, onetrip.ConnectionLostError):
            rung += 1
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert db.fetchval("select 1") == 1
    assert rung > 5 and right > 5, (rung, right)
print("ended")
"""


# --- ends ---


def test_what_is_late_as_soon_as_it_was_made_says_whether_it_ran(db: Database) -> None:
    db.execute("drop table if exists late")
    db.execute("create table late (n int4)")
    insert = "insert into late values ($1) returning n"
    outcomes: dict[int, str] = {}
    for n in range(1000):
        try:
            # From before the call is made to behind its answer.
            with Timeout(n % 50 * 0.5e-6):
                db.fetchval(insert, n)
            outcomes[n] = "Applied"
        except onetrip.Error as error:
            outcomes[n] = error.outcome
    there = {row[0] for row in db.fetch("select n from late")}
    db.execute("drop table late")
    assert not [n for n, told in outcomes.items() if told == "NotSent" and n in there]
    assert not [n for n, told in outcomes.items() if told == "Applied" and n not in there]
    assert "NotSent" in outcomes.values()


def test_a_connection_that_is_cut_is_replaced(far: Database, line: Line, db: Database) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(far.fetchval, slow("cut"))
        until(lambda: sleepers(db, "cut"))
        line.say("cut")
        with pytest.raises(onetrip.ConnectionLostError) as error:
            waiting.result(10)
        assert error.value.outcome == "Unknown"
    assert far.fetchval("select 1") == 1


def test_a_connection_that_ended_between_calls_is_not_used(db: Database) -> None:
    with connect(URL, connections_max=1) as other:
        for _ in range(3):
            process = other.fetchval("select pg_backend_pid()")
            assert db.fetchval("select pg_terminate_backend($1, 5000)", process) is True
            assert other.fetchval("select pg_backend_pid()") != process


def test_a_client_that_was_closed_says_so(db: Database) -> None:
    db.close()
    db.close()
    for call in (
        lambda: db.fetchval("select 1"),
        lambda: list(db.stream("select 1")),
        lambda: db.begin().__enter__(),
        lambda: db.session().__enter__(),
        lambda: db.pipeline().__enter__(),
    ):
        with pytest.raises(onetrip.MisuseError, match="was closed by this program") as caught:
            call()
        assert (caught.value.code, caught.value.outcome) == ("closed", "NotSent")


def test_close_does_not_wait_longer_than_it_was_told(db: Database) -> None:
    other = connect(URL)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.fetchval, slow("closed"))
        until(lambda: sleepers(db, "closed"))
        other.close(0.05)
        with pytest.raises(onetrip.ConnectionLostError):
            waiting.result(10)


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        port = deaf.getsockname()[1]
        with pytest.raises(onetrip.Error, match="connect_timeout"):
            connect(f"postgres://u@127.0.0.1:{port}/d", connect_timeout=1, wait_timeout_ms=1900)
    with pytest.raises(onetrip.Error, match="can't be reached"):
        connect(f"postgres://u@127.0.0.1:{port}/d", wait_timeout_ms=3000)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with a key and its certificate, for localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    file = str(tmp_path_factory.mktemp("tls") / "server.pem")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    made += ["/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", file]
    certificate = subprocess.run([*made, "-out", "-"], check=True, capture_output=True).stdout
    with open(file, "ab") as to:
        to.write(certificate)
    return file


def test_tls(certificate: str, line: Line) -> None:
    """A server in front of ours ends TLS, and passes on what is in it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    behind = urlsplit(URL)

    def relay(of: socket.socket, to: socket.socket) -> None:
        ways = {of: to, to: of}
        while True:
            is_full = isinstance(of, ssl.SSLSocket) and of.pending()
            for one in [of] if is_full else select.select(list(ways), [], [])[0]:
                data = one.recv(1 << 16)
                if not data:
                    return
                ways[one].sendall(data)

    def serve(plain: socket.socket) -> None:
        with plain, socket.create_connection((behind.hostname, behind.port)) as to:
            first = plain.recv(8)
            if first != bytes.fromhex("0000000804d2162f"):
                to.sendall(first)  # A cancel.
                return relay(plain, to)
            plain.sendall(b"S")
            try:
                with context.wrap_socket(plain, server_side=True) as secure:
                    relay(secure, to)
            except OSError:
                pass

    def accept() -> None:
        try:
            while True:
                threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
        except OSError:
            pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=accept, daemon=True).start()
        url = URL.replace(f"{behind.hostname}:{behind.port}", f"localhost:{port}")
        strict = {"sslmode": "verify-full", "connections_max": 1, "wait_timeout_ms": 3000}
        with connect(url, sslrootcert=certificate, **strict) as db:
            assert db.fetchval("select $1::int4", 1) == 1
            rows = db.fetch("select repeat('x', 1000) as x from generate_series(1, 2000)")
            assert len(rows) == 2000
            with pytest.raises(onetrip.TimeoutError), Timeout(0.05):
                db.fetchval(slow("secure"))
            assert db.fetchval("select 2") == 2
        with pytest.raises(onetrip.Error, match="certificate verify failed"):
            connect(url, **strict)
        server.shutdown(socket.SHUT_RDWR)


def test_garbage_ends_its_connection() -> None:
    login = b"R" + struct.pack("!ii", 8, 0) + b"Z" + struct.pack("!i", 5) + b"I"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            for _ in range(2):
                with server.accept()[0] as line:
                    line.recv(4096)
                    line.sendall(b"N")
                    line.recv(4096)
                    line.sendall(login)
                    line.recv(4096)
                    line.sendall(os.urandom(16) + b"\0" * 64)
                    line.recv(4096)

        thread = threading.Thread(target=serve)
        thread.start()
        with connect(f"postgres://u@127.0.0.1:{port}/d") as db:
            for _ in range(2):
                with pytest.raises(onetrip.ConnectionLostError) as error:
                    db.execute("select 1")
                assert error.value.outcome == "Unknown"
        thread.join()


FORKED = """
import os, onetrip.blocking, sys

db = onetrip.blocking.connect(sys.argv[1], connections_max=1)
process = db.fetchval("select pg_backend_pid()")
child = os.fork()
if child == 0:
    try:
        db.fetchval("select 2")
    except RuntimeError as error:
        assert "fork" in str(error), error
        del db
        with onetrip.blocking.connect(sys.argv[1]) as own:
            os._exit(own.fetchval("select 5"))
    os._exit(7)
_, status = os.waitpid(child, 0)
assert db.fetchval("select pg_backend_pid()") == process
print(os.waitstatus_to_exitcode(status))
"""

#: Ends while threads wait, a stream is open, and nothing was closed.
ABRUPT = """
import onetrip.blocking, sys, threading

db = onetrip.blocking.connect(sys.argv[1])
for _ in range(3):
    work = lambda: db.fetchval("select pg_sleep(60)::text")
    threading.Thread(target=work, daemon=True).start()
stream = db.stream("select generate_series(1, 1000000)")
next(stream)
with db.listen("abrupt") as events:
    events.take(0.05)
print("ended")
"""


def run(script: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore::RuntimeWarning", "-c", script, URL],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr, done.stderr


def test_a_client_behind_a_fork_is_refused_and_harms_nobody() -> None:
    run(FORKED, "5")


def test_an_interpreter_that_ends_while_threads_wait() -> None:
    run(ABRUPT, "ended")


def test_handlers_that_raise_anywhere_cost_connections_at_most() -> None:
    run(RUNG, "ended")


def test_a_client_is_freed() -> None:
    before = threading.active_count()
    for _ in range(3):
        with connect(URL) as db:
            assert db.fetchval("select 1") == 1
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with connect(URL) as db:
            db.fetchval("select 1")
        assert threading.active_count() == before
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files


@pytest.mark.parametrize("ends", ["answered", "sent", "half", "closed"])
def test_what_ends_a_copy_speaks_of_the_whole(
    ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its steps ends by itself, and what is said of one is not true of all that was sent."""
    limit = Timeout(None)
    run = Loop.run

    async def turn() -> None:
        await asyncio.sleep(0)

    def stepped(self: Loop, work: Any, *args: Any, **how: Any) -> Any:
        if work.__name__ == "hand" and args[1] is None and ends == "half":
            limit.cancel()
        if work.__name__ == "end" and ends != "half":
            while ends == "answered" and not args[0].done():
                run(self, turn)
            limit.cancel() if ends != "closed" else db.close(0)
        return run(self, work, *args, **how)

    with connect(URL) as other:
        other.execute("create table copied_whole (n int)")
        try:
            db = connect(URL)
            monkeypatch.setattr(Loop, "run", stepped)
            outcome = "Applied"
            try:
                with limit:
                    assert db.copy_rows("copied_whole", ((n,) for n in range(50))) == 50
            except onetrip.Error as error:
                outcome = error.outcome
            monkeypatch.setattr(Loop, "run", run)
            db.close()
            # What was sent may be answered before anybody looks.
            half = ["NotSent", "Unknown"]
            may_be = {"answered": ["Applied"], "half": half}.get(ends, ["Applied", "Unknown"])
            assert outcome in may_be
            if outcome != "Unknown":
                stored = 50 if outcome == "Applied" else 0
                assert other.fetchval("select count(*) from copied_whole") == stored
        finally:
            other.execute("drop table copied_whole")


def test_what_a_signals_handler_raises_stays_what_it_is() -> None:
    """What it has interrupted ends with the client, and is not told in its place."""
    db = connect(URL)
    db.execute("create table interrupted (n int)")

    def interrupted() -> None:
        with db._loop.turn:
            db._loop._give_in()
        raise KeyboardInterrupt

    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        interrupted()

    for enter in (db.session, db.begin, db.pipeline):
        with pytest.raises(KeyboardInterrupt), enter():
            interrupted()
    with pytest.raises(KeyboardInterrupt):
        db.copy_rows("interrupted", rows())
    assert db.fetchval("select count(*) from interrupted") == 0
    db.execute("drop table interrupted")
    db.close()


def test_a_session_that_another_thread_closes_amid_its_end_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Loop.leave

    def closed_before(self: Loop, work: Any, *args: Any, **how: Any) -> Any:
        if work.__name__ == "__aexit__":
            db.close(0)
        return run(self, work, *args, **how)

    db = connect(URL)
    monkeypatch.setattr(Loop, "leave", closed_before)
    with db.session() as session:
        assert session.fetchval("select 1") == 1
    db = connect(URL)
    with pytest.raises(onetrip.errors.RolledBackError), db.begin() as tx:
        tx.execute("select 1")


def test_a_client_that_is_deleted_is_closed_in_the_background(db: Database) -> None:
    count = "select count(*) from pg_stat_activity where application_name = 'deleted'"
    for _ in range(3):
        gone = connect(URL, application_name="deleted")
        gone.fetchval("select 1")
        with pytest.warns(ResourceWarning, match="not closed"):
            del gone
            gc.collect()
    until(lambda: db.fetchval(count) == 0)


class Slow:
    """A block that is entered although its caller has given that up."""

    def __init__(self, limit: Timeout) -> None:
        self._limit = limit
        self.is_left = False

    async def __aenter__(self) -> None:
        self._limit.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE)

    async def __aexit__(self, *_: object) -> None:
        self.is_left = True


def test_a_block_that_is_entered_as_its_time_ends_has_sent_nothing(db: Database) -> None:
    limit = Timeout(None)
    slow = Slow(limit)
    with pytest.raises(onetrip.errors.CancelledError) as error, limit:
        with Block(db._loop, lambda: slow, lambda it: it):
            raise AssertionError
    assert (error.value.outcome, slow.is_left) == ("NotSent", True)


@pytest.mark.parametrize("kind", ["copy", "stream", "batch", "savepoint"])
def test_what_is_given_up_in_a_transaction_was_rolled_back_with_it(
    db: Database, kind: str
) -> None:
    """Its own step may have been done, or may not; the block speaks of the whole."""
    db.execute("create table if not exists left_in_a_block (id int)")
    limit = Timeout(None)

    def rows(end: int) -> Iterator[tuple[int]]:
        for n in range(end):
            yield (n,)
        limit.cancel()

    with pytest.raises(onetrip.errors.CancelledError) as error, limit:
        with db.begin() as tx:
            tx.execute("insert into left_in_a_block values (1)")
            if kind == "copy":
                tx.copy_rows("left_in_a_block", rows(5))
            elif kind == "batch":
                tx.batch("insert into left_in_a_block values ($1)", rows(5)).atomic()
            elif kind == "savepoint":
                with tx.begin() as inner:
                    inner.execute("insert into left_in_a_block values (2)")
                    limit.cancel()
            else:
                for _ in tx.stream("select generate_series(1, 100000)"):
                    limit.cancel()
            tx.fetchval("select 1")
    assert error.value.outcome in ("Rejected", "NotSent")
    assert db.fetchval("select count(*) from left_in_a_block") == 0


def test_an_error_is_one_line(db: Database) -> None:
    with pytest.raises(onetrip.PostgresError) as error:
        db.execute("do $$ begin raise exception E'one:\\n  two\\n'; end $$")
    assert str(error.value) == "one: two"
    assert error.value.fields is not None and error.value.fields["M"] == "one:\n  two\n"


def test_what_a_handler_has_raised_comes_out_in_no_other_thread(db: Database) -> None:
    db._loop.struck(KeyboardInterrupt())
    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(onetrip.ConnectionLostError):
            thread.submit(db.fetchval, "select 1").result(PATIENCE)
    assert db.fetchval("select 1") == 1


#: Each instruction of the way out may be the one at which a handler raises.
LEFT_BY_SIGNAL = """
import signal, sys
from onetrip.blocking import Timeout
from onetrip.blocking._loop import _limit
def strike(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, strike)
for n in range(20000):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + n % 50 * 1e-6)
        with Timeout(60):
            pass
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    assert _limit.get() is None, n
"""


def test_no_signal_leaves_a_limit_behind() -> None:
    assert subprocess.run([sys.executable, "-c", LEFT_BY_SIGNAL], timeout=PATIENCE).returncode == 0


def test_what_was_not_sent_when_a_signal_ended_the_client_says_that(db: Database) -> None:
    calls = []
    with pytest.raises(onetrip.ConnectionLostError), db.pipeline() as pipeline:
        calls.append(pipeline.fetchval("select 1"))
        with db._loop.turn:
            db._loop._give_in()
    with pytest.raises(onetrip.ConnectionLostError, match="a signal interrupted") as error:
        calls[0].result()
    assert error.value.outcome == "NotSent"
