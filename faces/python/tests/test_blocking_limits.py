"""Calls of ``onetrip.blocking`` whose time ends: what they say, and that nothing is lost with it."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onetrip
import onetrip.blocking.redis
from onetrip.blocking import Database, Timeout, connect
from onetrip.blocking._loop import Grace, Loop

from conftest import PATIENCE, REDIS, URL, Line
from test_blocking import db, far, sleepers, slow, table, until  # noqa: F401


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """It has a loop of its own: once is enough."""
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Timeout]:
    """Makes a limit that is over before anybody waits for the answer of a call; the answer comes as
    that call is given up.
    """
    made: list[Timeout] = []
    wait = Loop._wait

    def waits(self: Loop, work: Any, limit: Timeout | None) -> None:
        if limit is None:
            return wait(self, work, limit)
        limit.cancel()

    def give_up(self: Loop, work: Any, *_: object) -> None:
        wait(self, work, None)

    def make() -> Timeout:
        made.append(Timeout(None))
        return made[-1]

    monkeypatch.setattr(Loop, "_wait", waits)
    monkeypatch.setattr(Loop, "_give_up", give_up)
    return make


# --- what has come is given ---


def test_a_call_that_is_answered_as_its_time_ends_has_its_result(
    db: Database, table: str, late: Callable[[], Timeout]
) -> None:
    with late():
        assert db.fetchval("select 1") == 1
    with late():
        assert db.execute(f"insert into {table} values (7)") == "INSERT 0 1"
    assert db.fetchval(f"select i from {table}") == 7


def test_a_row_that_was_refused_as_its_time_ended_is_said_to_be(
    db: Database, table: str, late: Callable[[], Timeout]
) -> None:
    """No error says of it that it took effect."""
    db.execute(f"create unique index on {table} (i)")
    insert = f"insert into {table} values ($1)"
    db.execute(insert, 0)
    with late():
        report = db.batch(insert, [(0,)]).isolated()
    assert (report.taken, report.affected, list(report.errors)) == (1, 0, [0])
    with late(), pytest.raises(onetrip.Error) as error:
        db.execute(insert, 0)
    assert error.value.outcome == "Rejected"


def test_a_stream_that_has_come_as_its_time_ends_is_whole(
    db: Database, late: Callable[[], Timeout]
) -> None:
    for rows in (3, 20_000):
        got: list[int] = []
        with db.stream("select generate_series(1, $1::int4)", rows, into=tuple) as stream:
            with late():
                got.append(next(stream)[0])
            got += [row[0] for row in stream]
        assert got == list(range(1, rows + 1))


def test_no_notification_is_lost_where_who_takes_it_has_no_time_left(
    db: Database, late: Callable[[], Timeout]
) -> None:
    taken: list[str] = []
    with db.listen("late") as events:
        for n in range(20):
            db.execute("select pg_notify('late', $1)", str(n))
            with late():
                event = events.take(PATIENCE)
            assert isinstance(event, onetrip.Notification)
            taken.append(event.payload)
    assert taken == [str(n) for n in range(20)]


def test_take_without_time_gives_what_has_come(db: Database) -> None:
    with db.listen("at_once") as events:
        assert events.take(0) is None
        for payload in "ab":
            db.execute("select pg_notify('at_once', $1)", payload)
        taken: list[onetrip.Event] = []

        def have_come() -> bool:
            event = events.take(0)
            taken.extend([] if event is None else [event])
            return len(taken) == 2

        until(have_come)
        assert [getattr(event, "payload", None) for event in taken] == ["a", "b"]


def test_a_block_bounds_take_as_well(db: Database) -> None:
    with db.listen("bounded") as events:
        with pytest.raises(onetrip.TimeoutError), Timeout(0.01):
            events.take(PATIENCE)
        with Timeout(PATIENCE):
            assert events.take(0.01) is None


@pytest.mark.skipif(not REDIS, reason="no Redis was found")
def test_take_without_time_gives_the_message_that_has_come() -> None:
    with onetrip.blocking.redis.connect(REDIS) as redis:
        with redis.subscribe("at_once") as messages:
            assert messages.take(0) is None
            redis.publish("at_once", "a")
            taken: list[Any] = []
            until(lambda: taken.append(messages.take(0)) or taken[-1])
            assert taken[-1].data == "a"


# --- what is said where it has not ---


def test_a_text_does_not_deny_what_the_outcome_says() -> None:
    assert "no answer came" in str(Timeout(1).error("Unknown"))
    assert "no answer came" not in str(Timeout(1).error("Applied"))


@pytest.mark.parametrize(
    "kind",
    [
        "call", "pipeline", "executemany", "atomic", "long", "isolated", "copy", "rows", "made rows",
        "stream", "copy out", "begin", "run", "session",
    ],
)
def test_what_waits_in_line_as_its_time_ends_was_not_sent(far: Database, kind: str) -> None:
    text, limit, calls = "select $1::int4", Timeout(0.02), []

    def pipeline() -> None:
        with far.pipeline() as batch:
            calls.extend([batch.fetchval("select 1"), batch.execute("select 2")])

    def begin() -> None:
        with far.begin():
            raise AssertionError

    works: dict[str, Callable[[], object]] = {
        "call": lambda: far.fetch("select 1"),
        "pipeline": pipeline,
        "executemany": lambda: far.executemany(text, [(1,), (2,)]),
        "atomic": lambda: far.batch(text, [(1,)]).atomic(),
        "long": lambda: far.batch(text, ((n,) for n in range(3000))).atomic(),
        "isolated": lambda: far.batch(text, [(1,)]).isolated(),
        "copy": lambda: far.copy_in("copy nothing from stdin", b"1"),
        "rows": lambda: far.copy_rows("nothing", [(1,)]),
        "made rows": lambda: far.copy_rows("nothing", iter([(1,)])),
        "stream": lambda: list(far.stream("select 1")),
        "copy out": lambda: list(far.copy_out("copy nothing to stdout")),
        "begin": begin,
        "run": lambda: far.run(lambda tx: tx.fetchval("select 1")),
        "session": lambda: far.session().__enter__(),
    }
    with far.session():
        with pytest.raises(onetrip.TimeoutError) as error, limit:
            works[kind]()
        assert error.value.outcome == "NotSent"
        for call in calls:
            with pytest.raises(onetrip.Error) as error:
                call.result()
            assert error.value.outcome == "NotSent"
    assert far.fetchval("select 1") == 1


def test_an_atomic_batch_that_is_given_up_was_rolled_back(db: Database, table: str) -> None:
    limit = Timeout(None)

    def rows() -> Iterator[tuple[int]]:
        for n in range(5000):
            if n == 4000:
                limit.cancel()
            yield (n,)

    with pytest.raises(onetrip.errors.CancelledError) as error, limit:
        db.batch(f"insert into {table} values ($1)", rows()).atomic()
    assert error.value.outcome == "Rejected"
    # Nothing is left of it at the server.
    open_ = "select count(*) from pg_locks where relation = $1::regclass"
    assert db.fetchval(f"select count(*) from {table}") == 0
    with connect(URL) as other:
        assert other.fetchval(open_, table) == 0


def test_calls_of_a_pipeline_that_was_given_up_have_an_outcome_behind_its_block(
    db: Database,
) -> None:
    """Another thread drives meanwhile."""
    driver, limit = Timeout(None), Timeout(None)

    def drive() -> None:
        with driver, pytest.raises(onetrip.errors.CancelledError):
            db.fetchval(slow("drives"))

    def cancel() -> None:
        with connect(URL) as other:
            until(lambda: sleepers(other, "piped"))
        limit.cancel()

    with ThreadPoolExecutor(2) as pool:
        driving = pool.submit(drive)
        until(lambda: sleepers(db, "drives"))
        cancelling = pool.submit(cancel)
        with pytest.raises(onetrip.errors.CancelledError), limit:
            with db.pipeline() as batch:
                calls = [batch.fetchval("select 1"), batch.fetchval(slow("piped"))]
        for call in calls:
            with pytest.raises(onetrip.Error) as error:
                call.result()
            assert error.value.outcome in ("Rejected", "Unknown")
        cancelling.result(PATIENCE)
        driver.cancel()
        driving.result(PATIENCE)


@pytest.mark.parametrize("kind", ["stream", "copy out", "in a transaction"])
def test_a_stream_that_was_given_up_does_not_look_as_if_it_had_ended(
    db: Database, kind: str
) -> None:
    limit = Timeout(None)

    def read(stream: Iterator[Any]) -> None:
        next(stream)
        limit.cancel()
        with pytest.raises(onetrip.errors.CancelledError), limit:
            while True:
                next(stream)
        for _ in range(2):
            with pytest.raises(onetrip.MisuseError, match="ended before its rows") as error:
                next(stream)
            assert error.value.outcome == "Unknown"

    # It lasts until the server is asked to stop it.
    rows = "select n, pg_sleep(case when n > 20000 then 60 else 0 end) from generate_series(1, 99999) n"
    if kind == "stream":
        read(db.stream(rows))
    elif kind == "copy out":
        read(db.copy_out(f"copy ({rows}) to stdout"))
    else:
        with pytest.raises(onetrip.errors.RolledBackError), db.begin() as tx:
            read(tx.stream(rows))
    assert db.fetchval("select 1") == 1


def test_a_stream_that_a_signal_interrupted_does_not_look_as_if_it_had_ended(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    stream = db.stream("select generate_series(1, 300000)")
    next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_end_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            for _ in stream:
                pass
    with pytest.raises(onetrip.MisuseError, match="ended before its rows"):
        next(stream)


def test_a_copy_whose_source_closes_the_client_had_no_effect(db: Database, table: str) -> None:
    outcomes = set()
    for size in (1, 100_000):
        client = connect(URL)

        def source() -> Iterator[bytes]:
            for n in range(9):
                yield b"5\n" * size
                if n == 7:
                    client.close()

        with pytest.raises(onetrip.Error) as error:
            client.copy_in(f"copy {table} from stdin", source())
        outcomes.add(error.value.outcome)
    assert outcomes == {"NotSent", "Rejected"}
    assert db.fetchval(f"select count(*) from {table}") == 0


def test_what_is_beyond_a_limit_is_a_second_for_all_of_it(far: Database, line: Line) -> None:
    """The server is frozen, so the call and the end of its block take what there is."""
    limit = Timeout(None)
    far.fetchval("select 1")
    with pytest.raises(onetrip.Error), limit:
        with far.begin() as tx:
            tx.execute("select 1")
            line.say("stall")
            limit.cancel()
            tx.execute("select 1")
    assert Grace(limit).left() == 0
    far.close(0)


# --- signals ---


@pytest.mark.parametrize("use", ["call", "close", "begin", "stream"])
def test_a_handler_that_uses_the_client_it_interrupts_hears_that_it_can_not(
    db: Database, use: str
) -> None:
    told: list[onetrip.Error] = []
    limit = Timeout(None)
    uses: dict[str, Callable[[], object]] = {
        "call": lambda: db.fetchval("select 1"),
        "close": lambda: db.close(0),
        "begin": lambda: db.begin().__enter__(),
        "stream": lambda: next(db.stream("select 1")),
    }

    def handler(*_: object) -> None:
        try:
            uses[use]()
        except onetrip.Error as error:
            told.append(error)
        limit.cancel()

    def ring() -> None:
        with connect(URL) as other:
            until(lambda: sleepers(other, "handled"))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=ring)
    try:
        thread.start()
        with pytest.raises(onetrip.errors.CancelledError), limit:
            db.fetchval(slow("handled"))
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert [(type(error), error.outcome) for error in told] == [(onetrip.MisuseError, "NotSent")]
    assert "handler" in str(told[0])
    assert db.fetchval("select 1") == 1


@pytest.mark.parametrize("use", ["call", "close", "begin"])
def test_a_handler_that_uses_the_client_amid_its_work_hears_that_it_can_not(
    db: Database, use: str
) -> None:
    """Its thread does not wait then, but reads what has come."""
    told: list[BaseException] = []
    uses: dict[str, Callable[[], object]] = {
        "call": lambda: db.fetchval("select 1"),
        "close": lambda: db.close(0),
        "begin": lambda: db.begin().__enter__(),
    }

    def handler(*_: object) -> None:
        try:
            uses[use]()
        except BaseException as error:
            told.append(error)

    def read(a: int) -> int:
        signal.raise_signal(signal.SIGUSR1)
        return a

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert db.fetch("select 1 as a", into=read) == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)
    known = [(type(error), getattr(error, "outcome", None)) for error in told]
    assert known == [(onetrip.MisuseError, "NotSent")]
    assert "handler" in str(told[0])
    assert db.fetchval("select 1") == 1


@pytest.mark.parametrize("kind", [KeyError, ValueError])
def test_what_a_handler_raises_in_what_another_thread_gave_comes_out_in_its_own(
    db: Database, kind: type[Exception]
) -> None:
    """The main thread leads, and so takes the rows of another one's batch."""
    told: list[BaseException] = []

    def handler(*_: object) -> None:
        raise kind("of a handler")

    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        assert threading.current_thread() is threading.main_thread()
        signal.raise_signal(signal.SIGUSR1)
        yield (2,)

    def give() -> None:
        with connect(URL) as other:
            until(lambda: sleepers(other, "anothers"))
        try:
            db.batch("select $1::int4", rows()).atomic()
        except BaseException as error:
            told.append(error)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=give)
    try:
        thread.start()
        with pytest.raises(kind, match="of a handler"):
            db.fetchval(slow("anothers"))
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert [isinstance(error, onetrip.Error) for error in told] == [True]
    assert db.fetchval("select 1") == 1


def test_what_a_handler_raises_is_not_taken_for_the_answer_of_a_call(db: Database) -> None:
    """It looks like an error of a call's, and what it interrupts is given up."""

    def handler(*_: object) -> None:
        db.fetchval("select 1")

    def ring() -> None:
        with connect(URL) as other:
            until(lambda: sleepers(other, "raised"))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=ring)
    try:
        thread.start()
        with pytest.raises(onetrip.MisuseError, match="handler"):
            db.fetchval(slow("raised"))
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    with connect(URL) as other:
        until(lambda: not sleepers(other, "raised"))
    assert db.fetchval("select 1") == 1


# --- ends ---


def test_a_call_that_is_given_up_as_its_client_ends_has_an_outcome(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread has closed the client, and the one that gives up is the last to lead."""

    def waits(self: Loop, work: Any, limit: Timeout) -> None:
        self._is_ending = True
        limit.cancel()

    monkeypatch.setattr(Loop, "_wait", waits)
    with pytest.raises(onetrip.Error) as error, Timeout(None):
        db.batch("select $1::int4", [(1,)]).isolated()
    assert error.value.outcome in ("NotSent", "Unknown")


def test_a_call_behind_the_last_round_of_its_client_says_that_it_was_closed(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Loop._look

    def last(self: Loop, *args: Any, **how: Any) -> None:
        look(self, *args, **how)
        self._is_ending = True
        self._rounds()

    monkeypatch.setattr(Loop, "_look", last)
    with pytest.raises(onetrip.MisuseError, match="closed"):
        db.session().__enter__()


@pytest.mark.parametrize("kind", ["isolated", "atomic", "copy"])
def test_what_a_signal_cuts_off_from_its_next_step_ends_silently(
    db: Database, table: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is never run again, and what it holds is given back with the client's end."""
    is_armed = False
    unraised: list[Any] = []
    run = asyncio.Handle._run

    def struck(self: Any) -> None:
        nonlocal is_armed
        if is_armed and "wakeup" in repr(self._callback).lower():
            is_armed = False
            raise KeyboardInterrupt
        run(self)

    def rows() -> Iterator[tuple[int]]:
        nonlocal is_armed
        for n in range(3000):
            yield (n,)
        is_armed = True

    monkeypatch.setattr(asyncio.Handle, "_run", struck)
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)
    batch = db.batch(f"insert into {table} values ($1)", rows())
    with pytest.raises(KeyboardInterrupt):
        if kind == "copy":
            db.copy_rows(table, rows())
        else:
            getattr(batch, kind)()
    assert not is_armed
    del batch
    gc.collect()
    assert [str(one.exc_value) for one in unraised] == []
    assert db.fetchval("select 1") == 1


def test_a_pipeline_that_an_error_leaves_does_not_say_that_it_was_sent(
    db: Database, table: str
) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ZeroDivisionError), db.pipeline() as batch:
            batch.execute(f"insert into {table} values (1)")
            1 / 0
        gc.collect()
    assert not told
    assert db.fetchval(f"select count(*) from {table}") == 0


def test_a_copy_that_a_signal_cuts_off_as_it_begins_gives_its_connection_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Loop.run
    left = [KeyboardInterrupt]

    def struck(self: Loop, *args: Any, **kwargs: Any) -> Any:
        result = run(self, *args, **kwargs)
        # As a handler does it behind the last step of a call.
        while left:
            raise left.pop()
        return result

    with connect(URL, connections_max=1, wait_timeout_ms=5_000) as db:
        db.execute("drop table if exists copied_in_part")
        db.execute("create table copied_in_part (id int)")
        monkeypatch.setattr(Loop, "run", struck)
        with pytest.raises(KeyboardInterrupt):
            db.copy_in("copy copied_in_part from stdin", iter([b"1\n", b"2\n"]))
        assert db.fetchval("select count(*) from copied_in_part") == 0
        db.execute("drop table copied_in_part")
