"""Transactions, savepoints, sessions and pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
from onetrip.blocking._loop import Loop
from onetrip.errors import CancelledError, SerializationError, UniqueViolation

from conftest import URL, Line, until_active


@pytest.fixture
async def table(db: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    await db.execute("create table things (i int4 primary key)")
    yield db
    await db.execute("drop table things")


async def things(db: onetrip.Database) -> list[int]:
    return [row["i"] for row in await db.fetch("select i from things order by i")]


async def test_a_block_commits_or_rolls_back(table: onetrip.Database) -> None:
    async with table.begin() as tx:
        await tx.execute("insert into things values ($1)", 1)
    with pytest.raises(ValueError):
        async with table.begin() as tx:
            await tx.execute("insert into things values ($1)", 2)
            raise ValueError
    assert await things(table) == [1]


async def test_modes(db: onetrip.Database) -> None:
    async with db.begin(isolation="repeatable_read", read_only=True) as tx:
        assert await tx.fetchval("show transaction_isolation") == "repeatable read"
        assert await tx.fetchval("show transaction_read_only") == "on"
    with pytest.raises(TypeError, match="isolation is"):
        async with db.begin(isolation="chaos"):  # type: ignore[arg-type]
            pass
    assert await db.fetchval("show transaction_isolation") == "read committed"


async def test_savepoints(table: onetrip.Database) -> None:
    async with table.begin() as tx:
        await tx.execute("insert into things values ($1)", 1)
        with pytest.raises(UniqueViolation):
            async with tx.begin() as inner:
                await inner.execute("insert into things values ($1)", 2)
                await inner.execute("insert into things values ($1)", 1)
        async with tx.begin() as inner:
            await inner.execute("insert into things values ($1)", 3)
            with pytest.raises(onetrip.MisuseError, match="a savepoint is open"):
                await tx.execute("insert into things values ($1)", 4)
    assert await things(table) == [1, 3]
    with pytest.raises(onetrip.MisuseError, match="is over"):
        await tx.execute("insert into things values ($1)", 5)


async def test_a_failed_transaction_does_not_commit(table: onetrip.Database) -> None:
    with pytest.raises(onetrip.Error) as caught:
        async with table.begin() as tx:
            await tx.execute("insert into things values ($1)", 1)
            with pytest.raises(UniqueViolation):
                await tx.execute("insert into things values ($1)", 1)
    assert caught.value.outcome == "Rejected"
    assert await things(table) == []


async def test_cancelled_inside_of_a_transaction(table: onetrip.Database) -> None:
    async def work() -> None:
        async with table.begin() as tx:
            await tx.execute("insert into things values ($1)", 1)
            await tx.execute("select pg_sleep(30), 'inside'")

    task = asyncio.create_task(work())
    await until_active("'inside'")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await things(table) == []


async def test_run_again_after_a_conflict(table: onetrip.Database) -> None:
    await table.execute("insert into things values (1)")
    tries = 0

    async def work(tx: onetrip.Transaction) -> int:
        nonlocal tries
        tries += 1
        await tx.fetch("select * from things")
        if tries == 1:
            # Somebody else is first.
            async with table.begin(isolation="serializable") as other:
                await other.execute("update things set i = i + 10")
        await tx.execute("update things set i = i + 100")
        return tries

    assert await table.run(work) == 2
    assert await things(table) == [111]
    with pytest.raises(SerializationError):
        tries = 0
        await table.run(work, attempts=1)


async def test_a_session_is_reset(db: onetrip.Database) -> None:
    async with db.session() as session:
        await session.execute("set work_mem = '5MB'")
        await session.execute("create temp table mine (i int4)")
        async with session.begin() as tx:
            await tx.execute("insert into mine values (1)")
        assert await session.fetchval("select count(*) from mine") == 1
        assert await session.fetchval("show work_mem") == "5MB"
    with pytest.raises(onetrip.MisuseError, match="released"):
        await session.fetchval("select 1")
    for _ in range(20):
        assert await db.fetchval("show work_mem") == "4MB"


@pytest.mark.parametrize(
    "text",
    ["begin", "set work_mem = '5MB'", "listen x", "create temp table x (i int4)", "select 1; select 2"],
)
async def test_what_belongs_to_a_session_is_refused(db: onetrip.Database, text: str) -> None:
    with pytest.raises(onetrip.MisuseError) as caught:
        await db.execute(text)
    assert caught.value.outcome == "NotSent"


async def test_order_is_kept_behind_a_description(table: onetrip.Database) -> None:
    async with table.begin() as tx:
        tx_first = tx.execute("insert into things values ($1) /* never seen */", 7)
        second = tx.fetchval("select count(*) from things")
        assert await second == 1
        await tx_first


async def test_a_pipeline_stands_or_falls(table: onetrip.Database) -> None:
    async with table.pipeline() as pipeline:
        first = pipeline.execute("insert into things values ($1)", 1)
        second = pipeline.fetchval("select count(*) from things")
    assert await first == "INSERT 0 1" and await second == 1
    with pytest.raises(UniqueViolation):
        async with table.pipeline() as pipeline:
            first = pipeline.execute("insert into things values ($1)", 2)
            second = pipeline.execute("insert into things values ($1)", 1)
            third = pipeline.execute("insert into things values ($1)", 3)
    for call, kind in ((first, onetrip.errors.RolledBackError), (second, UniqueViolation)):
        with pytest.raises(kind) as caught:
            await call
        assert caught.value.outcome == "Rejected"
    with pytest.raises(onetrip.Error):
        await third
    assert await things(table) == [1]


async def test_a_pipeline_with_an_argument_that_does_not_fit(table: onetrip.Database) -> None:
    with pytest.raises(onetrip.ParameterError):
        async with table.pipeline() as pipeline:
            first = pipeline.execute("insert into things values ($1)", 1)
            second = pipeline.execute("insert into things values ($1)", "x\0")
    for call in (first, second):
        with pytest.raises(onetrip.ParameterError):
            await call
    assert await things(table) == []


async def test_executemany_is_atomic(table: onetrip.Database) -> None:
    await table.executemany("insert into things values ($1)", ((i,) for i in range(3)))
    with pytest.raises(UniqueViolation):
        await table.executemany("insert into things values ($1)", [[5], [6], [1], [7]])
    with pytest.raises(onetrip.ParameterError, match="set 2 of arguments"):
        await table.executemany("insert into things values ($1)", [[5], [1.5]])
    assert await things(table) == [0, 1, 2]


async def test_errors_say_what_the_server_said(table: onetrip.Database) -> None:
    await table.execute("insert into things values (1)")
    with pytest.raises(onetrip.errors.IntegrityError) as caught:
        await table.execute("insert into things values ($1)", 1)
    error = caught.value
    assert (error.sqlstate, error.code, error.outcome) == ("23505", "23505", "Rejected")
    assert (error.table_name, error.constraint_name) == ("things", "things_pkey")
    assert error.detail == "Key (i)=(1) already exists."
    with pytest.raises(onetrip.errors.UndefinedTableError):
        await table.fetch("select * from nowhere where i = $1", 5)


async def test_a_table_that_changes_is_described_anew(table: onetrip.Database) -> None:
    text = "select * from things where i = $1"
    await table.execute("insert into things values (1)")
    assert await table.fetch(text, 1) == [(1,)]
    await table.execute("alter table things add b text default 'x'")
    assert await table.fetch(text, 1) == [(1, "x")]
    await table.execute("alter table things alter i type text")
    with pytest.raises(onetrip.Error):
        await table.fetch(text, 1)
    assert await table.fetch(text, "1") == [("1", "x")]
    await table.execute("alter table things alter i type int4 using i::int4")


class Unread:
    """Rows are made into it, and can't be."""

    def __init__(self, **_: object) -> None:
        raise ValueError("never")


async def test_what_leaves_a_transaction_speaks_of_the_whole(db: onetrip.Database) -> None:
    """A statement that took effect in it did so nowhere else, where it is rolled back."""
    await db.execute("create table left_whole (n int)")
    insert = "insert into left_whole values (1) returning n"
    try:
        with pytest.raises(onetrip.Error) as inside:
            async with db.begin() as tx:
                with pytest.raises(onetrip.Error) as within:
                    await tx.fetchval(insert, column=7)
                assert within.value.outcome == "Applied"
                raise within.value
        assert (inside.value.outcome, inside.value.is_retry_safe) == ("Rejected", True)

        async def work(tx: onetrip.Transaction) -> None:
            await tx.fetch(insert, into=Unread)

        with pytest.raises(onetrip.Error) as run:
            await db.run(work)
        assert run.value.outcome == "Rejected"

        async with db.begin() as tx:
            with pytest.raises(onetrip.Error) as savepoint:
                async with tx.begin() as inner:
                    await inner.fetch(insert, into=Unread)
            assert savepoint.value.outcome == "Rejected"
        assert await db.fetchval("select count(*) from left_whole") == 0

        # What another place did stands, and nothing else.
        with pytest.raises(onetrip.Error) as beside:
            async with db.begin() as tx:
                await tx.execute("insert into left_whole values (2)")
                await db.fetch(insert, into=Unread)
        assert beside.value.outcome == "Unknown"
        assert await db.fetch("select n from left_whole", into=tuple) == [(1,)]
    finally:
        await db.execute("drop table left_whole")


async def test_what_leaves_a_transaction_of_the_dropin_speaks_of_the_whole() -> None:
    con = await onetrip.asyncpg.connect(URL)
    try:
        def never(_: str) -> None:
            raise ValueError("never")

        await con.execute("create temp table left_whole (n int)")
        await con.set_type_codec("int4", schema="pg_catalog", encoder=str, decoder=never)
        with pytest.raises(ValueError, match="never") as caught:
            async with con.transaction():
                await con.fetch("insert into left_whole values (1) returning n")
        assert caught.value.outcome == "Rejected"  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="never") as alone:
            await con.fetch("insert into left_whole values (1) returning n")
        assert alone.value.outcome == "Applied"  # type: ignore[attr-defined]
    finally:
        await con.close()


def test_what_leaves_a_blocking_block_speaks_of_the_whole() -> None:
    insert = "insert into left_blocking values ($1) returning n"
    with onetrip.blocking.connect(URL) as db:
        db.execute("create table left_blocking (n int)")

        def own(tx: onetrip.blocking.Transaction) -> None:
            tx.fetch(insert, 1, into=Unread)

        def other(tx: onetrip.blocking.Transaction) -> None:
            tx.execute(insert, 1)
            db.fetch(insert, 2, into=Unread)

        def savepoint(tx: onetrip.blocking.Transaction) -> None:
            with tx.begin() as inner:
                other(inner)

        def begun(work: Any) -> None:
            with db.begin() as tx:
                work(tx)

        def pipeline(work: Any) -> None:
            with db.pipeline() as batch:
                work(batch)

        try:
            for work in (own, other, savepoint):
                for place in (begun, db.run):
                    with pytest.raises(onetrip.Error) as caught:
                        place(work)
                    assert caught.value.outcome == ("Rejected" if work is own else "Unknown")
            with pytest.raises(onetrip.Error) as caught:
                pipeline(other)
            assert caught.value.outcome == "Unknown"
            # What another place did stands, and nothing of the blocks.
            assert db.fetch("select distinct n from left_blocking", into=tuple) == [(2,)]
        finally:
            db.execute("drop table left_blocking")


async def test_a_commit_that_nobody_answered_did_not_commit_what_had_failed(line: Line) -> None:
    for fails in (True, False):
        async with onetrip.connect(line.url, connections_max=1) as db:
            with pytest.raises(onetrip.ConnectionLostError) as caught:
                async with db.begin() as tx:
                    await tx.fetchval("select 1")
                    if fails:
                        with pytest.raises(onetrip.errors.DataError):
                            await tx.fetchval("select 1 / 0")
                    # From the next byte of the server's on.
                    line.say("cut")
            assert caught.value.outcome == ("Rejected" if fails else "Unknown")


async def test_a_pipeline_and_a_full_queue_wait_for_each_other_and_harm_nobody() -> None:
    """All is sent in one turn, so the queue has 16 MiB before anything is answered."""
    large = "x" * (1 << 20)
    async with onetrip.connect(URL, connections_max=1) as db:
        length = "select length($1::text)"
        pid = await db.fetchval("select pg_backend_pid()")
        assert await db.fetchval(length, "x") == 1

        async def pipelined(value: str, times: int) -> list[int]:
            async with db.pipeline() as pipeline:
                calls = [pipeline.fetchval(length, value) for _ in range(times)]
            return [await call for call in calls]

        for value, times in (("x", 3), (large, 20)):
            before = [asyncio.ensure_future(db.fetchval(length, large)) for _ in range(20)]
            pipeline = asyncio.ensure_future(pipelined(value, times))
            await asyncio.sleep(0)
            behind = [asyncio.ensure_future(db.fetchval(length, large)) for _ in range(20)]
            assert await asyncio.gather(*before, *behind) == [len(large)] * 40
            assert await pipeline == [len(value)] * times
        assert await db.fetchval("select pg_backend_pid()") == pid


async def test_a_statement_of_a_pipeline_that_can_not_be_sent_harms_no_neighbour(
    table: onetrip.Database,
) -> None:
    async with onetrip.connect(URL, connections_max=1) as db:
        pid = await db.fetchval("select pg_backend_pid()")
        neighbour = asyncio.ensure_future(db.fetchval("select 1"))
        with pytest.raises(onetrip.Error) as caught:
            async with db.pipeline() as pipeline:
                pipeline.execute("insert into things values (1)")
                pipeline.execute("select '\0'")
        assert caught.value.outcome in ("NotSent", "Rejected")
        assert await neighbour == 1
        assert await db.fetchval("select pg_backend_pid()") == pid
        assert await things(table) == []


async def test_what_was_not_sent_itself_leaves_a_block_as_rejected(db: onetrip.Database) -> None:
    """It speaks of the whole, of which a part was sent and is rolled back."""
    async def parameter(tx: onetrip.Transaction) -> None:
        await tx.fetchval("select $1::int", 1 << 40)

    async def refused(tx: onetrip.Transaction) -> None:
        await tx.execute("commit")

    async def elsewhere(tx: onetrip.Transaction) -> None:
        await db.execute("set search_path = public")

    async def of(work: Any, sends: bool) -> str:
        with pytest.raises(onetrip.Error) as caught:
            async with db.begin() as tx:
                if sends:
                    await tx.execute("select 1")
                await work(tx)
        return str(caught.value.outcome)

    await db.fetchval("select $1::int", 1)
    for work in (refused, elsewhere):
        assert [await of(work, sends) for sends in (True, False)] == ["Rejected", "NotSent"], work
    assert await of(parameter, True) == "Rejected"

    async def savepoint(tx: onetrip.Transaction) -> None:
        with pytest.raises(onetrip.Error) as caught:
            async with tx.begin() as inner:
                await refused(inner)
        assert caught.value.outcome == "NotSent"
        async with tx.begin() as inner:
            await inner.execute("select 1")
            await refused(inner)

    assert await of(savepoint, True) == "Rejected"

    async def work(tx: onetrip.Transaction) -> None:
        await tx.execute("select 1")
        await refused(tx)

    with pytest.raises(onetrip.Error) as run:
        await db.run(work)
    assert run.value.outcome == "Rejected"


async def test_what_leaves_a_block_says_what_was_sent_before_its_connection_was_lost(
    db: onetrip.Database,
) -> None:
    for sends in (True, False):
        with pytest.raises(onetrip.Error) as caught:
            async with db.begin() as tx:
                if sends:
                    await tx.execute("select 1")
                db._host.core.destroy(tx._loan.number, "it was cut")
                await tx.execute("select 2")
        whole = "Rejected" if sends else "NotSent"
        assert (caught.value.code, caught.value.outcome) == ("connection_lost", whole)
        # So does what its end says.
        with pytest.raises(onetrip.Error) as end:
            async with db.begin() as tx:
                if sends:
                    await tx.execute("select 1")
                db._host.core.destroy(tx._loan.number, "it was cut")
        assert (end.value.code, end.value.outcome) == ("connection_lost", whole)


#: Ends the connection that it is sent on.
END_OWN = "select pg_terminate_backend(pg_backend_pid())"


async def test_what_leaves_a_savepoint_says_what_was_sent_before_its_connection_was_lost(
    db: onetrip.Database,
) -> None:
    async def killed(tx: onetrip.Transaction) -> None:
        with pytest.raises(onetrip.ConnectionLostError) as own:
            await tx.execute(END_OWN)
        assert own.value.outcome == "Unknown"

    async def of(sends: bool, deep: bool) -> list[str]:
        """What leaves the inner savepoint, the outer one and the transaction."""
        said = []
        with pytest.raises(onetrip.ConnectionLostError) as whole:
            async with db.begin() as tx:
                await tx.execute("select 1")
                with pytest.raises(onetrip.ConnectionLostError) as outer:
                    async with tx.begin() as a:
                        if sends:
                            await a.execute("select 1")
                        if deep:
                            with pytest.raises(onetrip.ConnectionLostError) as inner:
                                async with a.begin() as b:
                                    db._host.core.destroy(tx._loan.number, "it was cut")
                                    await b.execute("select 2")
                            said.append(inner.value.outcome)
                        elif sends:
                            await killed(a)
                        else:
                            db._host.core.destroy(tx._loan.number, "it was cut")
                        await a.execute("select 3")
                said.append(outer.value.outcome)
                await tx.execute("select 4")
        return [*said, whole.value.outcome]

    assert await of(True, False) == ["Rejected", "Rejected"]
    assert await of(False, False) == ["NotSent", "Rejected"]
    assert await of(True, True) == ["NotSent", "Rejected", "Rejected"]
    assert await of(False, True) == ["NotSent", "NotSent", "Rejected"]

    # So it is where a statement was under way, or the end.
    with pytest.raises(onetrip.ConnectionLostError) as left:
        async with db.begin() as tx:
            with pytest.raises(onetrip.ConnectionLostError) as under_way:
                async with tx.begin() as a:
                    await a.execute(END_OWN)
            with pytest.raises(onetrip.ConnectionLostError):
                async with tx.begin():
                    raise AssertionError("its connection is gone")
            await tx.execute("select 1")
    assert (under_way.value.outcome, left.value.outcome) == ("Rejected", "Rejected")
    with pytest.raises(onetrip.ConnectionLostError) as ended:
        async with db.begin() as tx:
            with pytest.raises(onetrip.ConnectionLostError) as released:
                async with tx.begin() as a:
                    await killed(a)
            raise released.value
    assert (released.value.outcome, ended.value.outcome) == ("Rejected", "Rejected")


def test_what_leaves_a_blocking_savepoint_says_what_was_sent_before_its_connection_was_lost(
) -> None:
    with onetrip.blocking.connect(URL) as db:

        def killed(tx: onetrip.blocking.Transaction) -> None:
            with pytest.raises(onetrip.ConnectionLostError):
                tx.execute(END_OWN)

        # In the savepoint; and behind one, in front of another.
        with pytest.raises(onetrip.ConnectionLostError) as whole:
            with db.begin() as tx:
                tx.execute("select 1")
                with pytest.raises(onetrip.ConnectionLostError) as savepoint:
                    with tx.begin() as inner:
                        inner.execute("select 1")
                        killed(inner)
                        inner.execute("select 1")
                tx.execute("select 1")
        assert (savepoint.value.outcome, whole.value.outcome) == ("Rejected", "Rejected")
        with pytest.raises(onetrip.ConnectionLostError) as under_way:
            with db.begin() as tx, tx.begin() as inner:
                inner.execute(END_OWN)
        assert under_way.value.outcome == "Rejected"
        with pytest.raises(onetrip.ConnectionLostError) as entered:
            with db.begin() as tx:
                with tx.begin() as inner:
                    inner.execute("select 1")
                killed(tx)
                with tx.begin() as inner:
                    raise AssertionError("its connection is gone")
        assert entered.value.outcome == "Rejected"
        # Before anything of the savepoint was sent.
        with onetrip.blocking.connect(URL) as other:
            with pytest.raises(onetrip.ConnectionLostError) as unsent:
                with db.begin() as tx:
                    process = tx.fetchval("select pg_backend_pid()")
                    with tx.begin() as inner:
                        other.fetchval("select pg_terminate_backend($1, 5000)", process)
                        inner.execute("select 1")
        assert unsent.value.outcome in ("Rejected", "Unknown")


async def test_a_transaction_is_not_committed_without_a_statement_that_was_given_up(
    db: onetrip.Database,
) -> None:
    await db.execute("create table left_out (n int)")

    async def new(tx: onetrip.Transaction, number: int) -> None:
        """The server has to be asked about its text, so it is not sent when it is given up."""
        call = tx.execute(f"insert into left_out values ($1) /* {number} */", 1)
        call.close()
        with pytest.raises(onetrip.errors.CancelledError) as caught:
            call.result()
        assert caught.value.outcome == "NotSent"

    try:
        with pytest.raises(onetrip.errors.RolledBackError, match="was not sent") as caught:
            async with db.begin() as tx:
                await new(tx, 1)
                await tx.execute("insert into left_out values (2)")
        assert caught.value.outcome == "Rejected"
        # Only the savepoint that it belongs to.
        async with db.begin() as tx:
            await tx.execute("insert into left_out values (3)")
            with pytest.raises(onetrip.errors.RolledBackError, match="was not sent") as caught:
                async with tx.begin() as inner:
                    await inner.execute("insert into left_out values (4)")
                    await new(inner, 2)
            assert caught.value.outcome == "Rejected"
            with pytest.raises(KeyError):
                async with tx.begin() as inner:
                    await new(inner, 3)
                    raise KeyError
        assert await db.fetch("select n from left_out", into=tuple) == [(3,)]
    finally:
        await db.execute("drop table left_out")


def test_a_blocking_transaction_is_not_committed_without_a_statement_that_was_given_up() -> None:
    def copy(tx: onetrip.blocking.Transaction) -> None:
        tx.copy_rows("left_out_blocking", [(1,)])

    def execute(tx: onetrip.blocking.Transaction) -> None:
        tx.execute("insert into left_out_blocking values (1)")

    def batch(tx: onetrip.blocking.Transaction) -> None:
        tx.batch("insert into left_out_blocking values ($1)", [(1,)]).atomic()

    def savepoint(tx: onetrip.blocking.Transaction) -> None:
        with tx.begin() as inner:
            execute(inner)

    def late(tx: onetrip.blocking.Transaction, work: Any) -> None:
        with onetrip.blocking.Timeout(None) as limit:
            limit.cancel()
            with pytest.raises(onetrip.errors.CancelledError) as caught:
                work(tx)
        assert caught.value.outcome == "NotSent"

    with onetrip.blocking.connect(URL) as db:
        db.execute("create table left_out_blocking (n int)")
        try:
            for work in (copy, execute, batch, savepoint):
                with pytest.raises(onetrip.errors.RolledBackError, match="was not sent") as whole:
                    with db.begin() as tx:
                        tx.execute("insert into left_out_blocking values (2)")
                        late(tx, work)
                assert whole.value.outcome == "Rejected"
            # Where it is not caught it leaves as what it is, and speaks of the whole.
            with pytest.raises(onetrip.errors.CancelledError) as own:
                with db.begin() as tx, onetrip.blocking.Timeout(None) as limit:
                    tx.execute("insert into left_out_blocking values (2)")
                    limit.cancel()
                    execute(tx)
            assert own.value.outcome == "Rejected"
            assert db.fetchval("select count(*) from left_out_blocking") == 0
        finally:
            db.execute("drop table left_out_blocking")


async def test_what_leaves_a_transaction_of_the_dropin_says_what_was_sent() -> None:
    con = await onetrip.asyncpg.connect(URL)
    try:
        await con.fetchval("select $1::int", 1)
        with pytest.raises(onetrip.asyncpg.DataError) as caught:
            async with con.transaction():
                await con.execute("select 1")
                with pytest.raises(onetrip.asyncpg.DataError) as within:
                    await con.fetchval("select $1::int", "x")
                assert within.value.outcome == "NotSent"  # type: ignore[attr-defined]
                raise within.value
        assert caught.value.outcome == "Rejected"  # type: ignore[attr-defined]
    finally:
        await con.close()


# --- what is refused ---

SMALL: dict[str, Any] = {"connections_max": 1, "in_flight_max": 1, "queue_max": 8}
INSERT = "insert into things values ($1)"


@pytest.mark.parametrize("ways", ["calls", "tasks", "gathered"])
async def test_a_block_is_not_committed_without_what_found_the_queue_full(
    table: onetrip.Database, ways: str
) -> None:
    async with onetrip.connect(URL, **SMALL) as it:
        await it.execute(INSERT, 0)
        calls: list[Any] = []
        with pytest.raises(onetrip.Error) as left:
            async with it.begin() as tx:
                await tx.execute(INSERT, 1)
                calls = [tx.execute(INSERT, n) for n in range(2, 102)]
                if ways != "calls":
                    calls = [asyncio.ensure_future(call) for call in calls]
                if ways == "gathered":
                    await asyncio.gather(*calls, return_exceptions=True)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert "queue_full" in {getattr(end, "code", None) for end in ends}
        assert left.value.outcome == "Rejected" and left.value.code in ("rolled_back", "queue_full")
        assert await things(table) == [0]


async def test_a_savepoint_is_not_kept_without_what_found_the_queue_full(
    table: onetrip.Database,
) -> None:
    async with onetrip.connect(URL, **SMALL) as it:
        await it.execute(INSERT, 0)
        async with it.begin() as tx:
            await tx.execute(INSERT, 1)
            with pytest.raises(onetrip.Error) as left:
                async with tx.begin() as inner:
                    calls = [inner.execute(INSERT, n) for n in range(2, 102)]
                    await asyncio.gather(*calls, return_exceptions=True)
            assert left.value.outcome == "Rejected"
        assert await things(table) == [0, 1]


@pytest.mark.parametrize("query", ["select '\0'", "commit"])
async def test_a_block_is_not_committed_without_a_text_that_was_refused(
    table: onetrip.Database, query: str
) -> None:
    with pytest.raises(onetrip.errors.RolledBackError) as left:
        async with table.begin() as tx:
            await tx.execute(INSERT, 1)
            refused = tx.execute(query)
            await tx.execute(INSERT, 2)
    with pytest.raises(onetrip.Error):
        await refused
    assert left.value.outcome == "Rejected"
    assert await things(table) == []
