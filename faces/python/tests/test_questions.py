"""The client's own questions about types that it meets for the first time: what becomes of the
statement that needs the answer where none comes, and of others that need the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
from conftest import PATIENCE, URL, until

SETUP = """
drop schema if exists asking cascade;
create schema asking;
create type asking.pair as (a int, b text);
create type asking.mood as enum ('sad', 'glad');
create table asking.things (id int, c asking.pair, e asking.mood, t text default '(5,z)');
insert into asking.things values (1, '(1,x)', 'glad');
"""

#: Statements that need to know a type, by what they do with it: what they take, what they give
#: if the type is known, and how many rows they add.
USES: dict[str, tuple[str, tuple[Any, ...], Any, int]] = {
    "read": ("select c from asking.things where id = $1", (1,), (1, "x"), 0),
    "write": (
        "insert into asking.things (id, c) values ($1, $2)",
        (2, {"a": 1, "b": "y"}),
        None,
        1,
    ),
    "return": (
        "insert into asking.things (id, c) values ($1, '(3,z)') returning c",
        (2,),
        (3, "z"),
        1,
    ),
}

Fetch = Callable[..., Awaitable[Any]]


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """What is asked has nothing to do with the loop: once is enough."""
    return asyncio.DefaultEventLoopPolicy()


class Server:
    """Two sessions of asyncpg's own: one that holds the catalogue, one that looks and cancels."""

    def __init__(self, holds: asyncpg.Connection[Any], looks: asyncpg.Connection[Any]) -> None:
        self.holds, self.looks = holds, looks

    @asynccontextmanager
    async def stuck(self) -> AsyncIterator[None]:
        """Questions about types wait as long as the block is open, and no other statement does."""
        await self.holds.execute("begin; lock table pg_catalog.pg_range in access exclusive mode")
        try:
            yield
        finally:
            await self.holds.execute("rollback")

    async def asked(self) -> list[int]:
        """The processes that wait with a question about types."""
        rows = await self.looks.fetch(
            "select pid from pg_stat_activity"
            " where wait_event_type = 'Lock' and query like 'with recursive wanted%'"
        )
        return [row[0] for row in rows]

    async def until_asked(self) -> None:
        await until(self.asked)

    async def until_quiet(self) -> None:
        async def quiet() -> bool:
            return not await self.asked()

        await until(quiet)

    async def cancel(self) -> None:
        await self.until_asked()
        for pid in await self.asked():
            await self.looks.execute("select pg_cancel_backend($1)", pid)

    async def count(self) -> int:
        return int(await self.looks.fetchval("select count(*) from asking.things"))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server(await asyncpg.connect(URL), await asyncpg.connect(URL))
    await server.looks.execute(SETUP)
    yield server
    await server.looks.execute("drop schema asking cascade")
    await server.holds.close()
    await server.looks.close()


async def plain(db: Any, work: Callable[[Fetch], Awaitable[Any]]) -> Any:
    return await work(db.fetch)


async def in_session(db: Any, work: Callable[[Fetch], Awaitable[Any]]) -> Any:
    async with db.session() as session:
        return await work(session.fetch)


async def in_begin(db: Any, work: Callable[[Fetch], Awaitable[Any]]) -> Any:
    async with db.begin() as tx:
        await tx.execute("select 1")
        return await work(tx.fetch)


async def in_run(db: Any, work: Callable[[Fetch], Awaitable[Any]]) -> Any:
    async def inside(tx: Any) -> Any:
        await tx.execute("select 1")
        return await work(tx.fetch)

    return await db.run(inside, isolation="read_committed")


async def in_pipeline(db: Any, work: Callable[[Fetch], Awaitable[Any]]) -> Any:
    kept: list[Any] = []

    async def keep(*args: Any) -> Any:
        kept.append(p.fetch(*args))

    async with db.pipeline() as p:
        await work(keep)
    return await kept[0]


async def in_transaction_of_asyncpg(db: Any, work: Callable[[Fetch], Awaitable[Any]]) -> Any:
    async with db.transaction():
        return await work(db.fetch)


#: The drop-in for asyncpg has names of its own.
PLACES = {
    "plain": plain,
    "session": in_session,
    "begin": in_begin,
    "run": in_run,
    "pipeline": in_pipeline,
    "asyncpg": plain,
    "asyncpg transaction": in_transaction_of_asyncpg,
}


@asynccontextmanager
async def opened(place: str, **settings: Any) -> AsyncIterator[Any]:
    if place.startswith("asyncpg"):
        con = await onetrip.asyncpg.connect(URL, server_settings=settings or None)
        try:
            yield con
        finally:
            await con.close()
        return
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    extra = {"options": options} if options else {}
    async with onetrip.connect(URL, connections_max=1, **extra) as db:
        yield db


def used(place: str, use: str, db: Any) -> Awaitable[Any]:
    query, args, _, _ = USES[use]
    if place.startswith("asyncpg") and use == "write":
        # asyncpg takes a tuple for a composite.
        args = (args[0], tuple(args[1].values()))

    async def work(fetch: Fetch) -> Any:
        return await fetch(query, *args)

    return PLACES[place](db, work)


def is_right(use: str, rows: Any) -> bool:
    value = USES[use][2]
    return value is None or [tuple(row[0]) for row in rows] == [value]


def is_cancelled(error: BaseException) -> bool:
    """Whether it is what the server said of the question, and nothing else has run."""
    return (getattr(error, "sqlstate", None), getattr(error, "outcome", None)) == (
        "57014",
        "Rejected",
    )


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("place", PLACES)
async def test_the_cancel_of_a_question_is_the_error_of_its_statement(
    server: Server, place: str, use: str
) -> None:
    before = await server.count()
    async with opened(place) as db:
        async with server.stuck():
            call = asyncio.ensure_future(used(place, use, db))
            await server.cancel()
        with pytest.raises(Exception) as raised:
            await asyncio.wait_for(call, PATIENCE)
        assert is_cancelled(raised.value), repr(raised.value)
        assert await server.count() == before
        # Nothing is known by that, so it is asked again.
        assert is_right(use, await used(place, use, db))
        assert await server.count() == before + USES[use][3]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("place", ["plain", "begin", "asyncpg transaction"])
async def test_a_question_that_takes_longer_than_the_server_grants(
    server: Server, place: str, use: str
) -> None:
    before = await server.count()
    async with opened(place, statement_timeout="1000") as db:
        async with server.stuck():
            with pytest.raises(Exception) as raised:
                await asyncio.wait_for(used(place, use, db), PATIENCE)
        assert is_cancelled(raised.value), repr(raised.value)
        assert is_right(use, await used(place, use, db))
        assert await server.count() == before + USES[use][3]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("place", PLACES)
async def test_a_question_that_its_caller_gives_up_is_asked_again(
    server: Server, place: str, use: str
) -> None:
    before = await server.count()
    async with opened(place) as db:
        async with server.stuck():
            call = asyncio.ensure_future(used(place, use, db))
            await server.until_asked()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(call, PATIENCE)
            await server.until_quiet()
        assert await server.count() == before
        assert is_right(use, await used(place, use, db))
        assert await server.count() == before + USES[use][3]


@pytest.mark.parametrize("use", USES)
async def test_who_waits_for_the_question_of_another_gets_its_answer(
    server: Server, use: str
) -> None:
    async with opened("plain") as db:
        async with server.stuck():
            calls = [asyncio.ensure_future(used("plain", use, db)) for _ in range(3)]
            await server.until_asked()
            calls[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await calls[0]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(calls[1], 0.01)
            assert await server.asked()
        assert is_right(use, await asyncio.wait_for(calls[2], PATIENCE))


#: Other ways to send a statement that needs to know a type, and what they give if it is known.
async def streamed(db: Any) -> Any:
    async with db.stream("select c from asking.things where id = $1", 1) as rows:
        return [tuple(row[0]) async for row in rows]


async def of_sets(db: Any) -> Any:
    text = "insert into asking.things (id, c) values ($1, $2)"
    return await db.executemany(text, [(8, {"a": 1, "b": "y"}), (9, None)])


async def of_sets_with_rows(db: Any) -> Any:
    text = "select $2::asking.pair, $1::int4"
    return [tuple(row[0]) for row in await db.fetchmany(text, [(1, {"a": 1, "b": "y"})])]


async def prepared(db: Any) -> Any:
    statement = await db.prepare("select c from asking.things where id = $1")
    return [tuple(row[0]) for row in await statement.fetch(1)]


async def by_cursor(db: Any) -> Any:
    async with db.transaction():
        text = "select c from asking.things where id = $1"
        return [tuple(row[0]) async for row in db.cursor(text, 1)]


WAYS: dict[str, tuple[Callable[[Any], Awaitable[Any]], str, Any]] = {
    "stream": (streamed, "plain", [(1, "x")]),
    "sets": (of_sets, "plain", None),
    "sets with rows": (of_sets_with_rows, "plain", [(1, "y")]),
    "prepare": (prepared, "asyncpg", [(1, "x")]),
    "cursor": (by_cursor, "asyncpg", [(1, "x")]),
}


@pytest.mark.parametrize("way", WAYS)
async def test_the_cancel_of_a_question_is_the_error_of_any_call(server: Server, way: str) -> None:
    call, place, right = WAYS[way]
    before = await server.count()
    async with opened(place) as db:
        async with server.stuck():
            asked = asyncio.ensure_future(call(db))
            await server.cancel()
        with pytest.raises(Exception) as raised:
            await asyncio.wait_for(asked, PATIENCE)
        assert is_cancelled(raised.value), repr(raised.value)
        assert await server.count() == before
        assert (await call(db) == right) or right is None


# --- a reply whose types are not known any more, or not yet ---

#: Its columns are of another type by the time that it runs.
OF_ROWS = {
    "read": "select t from asking.things where id = $1",
    "return": "insert into asking.things (id) values ($1) returning t",
}


@pytest.mark.parametrize("use", OF_ROWS)
@pytest.mark.parametrize("place", PLACES)
async def test_the_cancel_of_a_question_about_a_reply_is_the_error_of_its_statement(
    server: Server, place: str, use: str
) -> None:
    async def work(fetch: Fetch) -> Any:
        return await fetch(OF_ROWS[use], 1)

    def call() -> Awaitable[Any]:
        return PLACES[place](db, work)

    async with opened(place) as db:
        assert [row[0] for row in await call()][:1] == ["(5,z)"]
        await made_of_pairs(server)
        before = await server.count()
        async with server.stuck():
            asked = asyncio.ensure_future(call())
            await server.cancel()
        with pytest.raises(Exception) as raised:
            await asyncio.wait_for(asked, PATIENCE)
        error: Any = raised.value
        assert error.sqlstate == "57014", repr(error)
        # It has run, and stands where no transaction was around it.
        is_undone = place in ("begin", "run", "asyncpg transaction")
        assert error.outcome == ("Rejected" if is_undone else "Applied")
        assert await server.count() == before + (use == "return" and not is_undone)
        assert [tuple(row[0]) for row in await call()][:1] == [(5, "z")]


async def made_of_pairs(server: Server) -> None:
    """The column is of another type than clients know by now, which they have to ask for."""
    await server.looks.execute(
        "alter table asking.things alter t drop default,"
        " alter t type asking.pair using t::asking.pair,"
        " alter t set default '(5,z)'::asking.pair"
    )


@pytest.mark.parametrize("place", PLACES)
async def test_a_question_about_a_reply_is_stopped_if_its_caller_gives_up(
    server: Server, place: str
) -> None:
    async def work(fetch: Fetch) -> Any:
        return await fetch(OF_ROWS["read"], 1)

    async with opened(place) as db:
        await PLACES[place](db, work)
        await made_of_pairs(server)
        async with server.stuck():
            asked = asyncio.ensure_future(PLACES[place](db, work))
            await server.until_asked()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(asked, PATIENCE)
            # Its connection is of use again before the catalogue is.
            assert await asyncio.wait_for(db.fetchval("select 1"), PATIENCE) == 1
            await server.until_quiet()
        assert [tuple(row[0]) for row in await PLACES[place](db, work)] == [(5, "z")]


async def test_a_type_that_is_dropped_before_the_question_about_it_is_a_text(
    server: Server,
) -> None:
    async with opened("plain") as db:
        await db.fetchval(OF_ROWS["read"], 1)
        await made_of_pairs(server)
        async with server.stuck():
            asked = asyncio.ensure_future(db.fetchval(OF_ROWS["read"], 1))
            await server.until_asked()
            await server.holds.execute(
                "alter table asking.things alter t drop default, alter t type text;"
                " drop type asking.pair cascade; commit"
            )
        assert await asyncio.wait_for(asked, PATIENCE) == "(5,z)"


async def test_who_goes_in_the_line_takes_no_question_of_another_along(server: Server) -> None:
    async with opened("session") as db, db.session() as session:
        assert await session.fetchval(OF_ROWS["read"], 1) == "(5,z)"
        await made_of_pairs(server)
        async with server.stuck():
            asked = asyncio.ensure_future(session.fetchval(OF_ROWS["read"], 1))
            await server.until_asked()
            behind = asyncio.ensure_future(session.fetchval("select $1::int4 + 5", 1))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(behind, 0.01)
            # A cancel takes a connection, as does this.
            for _ in range(5):
                await (await asyncpg.connect(URL)).close()
                assert await server.asked()
        assert tuple(await asyncio.wait_for(asked, PATIENCE)) == (5, "z")


async def test_a_question_whose_connection_is_lost(server: Server) -> None:
    async def kill() -> None:
        await server.until_asked()
        for pid in await server.asked():
            await server.looks.execute("select pg_terminate_backend($1)", pid)

    async def work(fetch: Fetch) -> Any:
        return await fetch(OF_ROWS["return"], 7)

    before = await server.count()
    async with opened("plain") as db:
        # What was not sent is not, and says so.
        async with server.stuck():
            call = asyncio.ensure_future(db.fetch(*USES["return"][0:1], 2))
            await kill()
            with pytest.raises(onetrip.ConnectionLostError) as raised:
                await asyncio.wait_for(call, PATIENCE)
        assert raised.value.outcome == "NotSent"
        assert await server.count() == before
        # About a reply that has come it is asked elsewhere.
        await db.fetch(OF_ROWS["read"], 1)
        await made_of_pairs(server)
        async with server.stuck():
            call = asyncio.ensure_future(db.fetchval(OF_ROWS["read"], 1))
            await kill()
            await server.until_quiet()
            await server.until_asked()
        assert tuple(await asyncio.wait_for(call, PATIENCE)) == (5, "z")
    for place, outcome in (("session", "Applied"), ("begin", "Rejected")):
        await server.looks.execute(SETUP)
        async with opened(place) as db:
            await PLACES[place](db, work)
            await made_of_pairs(server)
            async with server.stuck():
                call = asyncio.ensure_future(PLACES[place](db, work))
                await kill()
                with pytest.raises(onetrip.ConnectionLostError) as raised:
                    await asyncio.wait_for(call, PATIENCE)
            assert raised.value.outcome == outcome


async def test_a_reply_in_a_transaction_that_another_statement_has_failed(server: Server) -> None:
    text = "select e from asking.things where id = $1"
    wrong = "select 1 / $1::int4"
    async with opened("begin") as db:
        assert await db.fetchval(text, 1) == "glad"
        await db.fetch("select $1::int4", 1)
        await server.looks.execute("alter type asking.mood rename to old")
        await server.looks.execute(
            "create type asking.mood as enum ('glad', 'sad');"
            "alter table asking.things alter e type asking.mood using e::text::asking.mood"
        )
        with pytest.raises(onetrip.PostgresError) as raised:
            async with db.begin() as tx:
                replies = await asyncio.gather(
                    tx.fetchval(text, 1), tx.fetchval(wrong, 0), return_exceptions=True
                )
                # The text is right by whatever name its type has.
                assert replies[0] == "glad"
                raise replies[1]  # type: ignore[misc]
        assert raised.value.sqlstate == "22012"
        assert await db.fetchval(text, 1) == "glad"


# --- what a role may not ask ---


async def test_a_role_that_may_not_read_the_catalogue_has_texts(server: Server) -> None:
    await server.looks.execute("drop role if exists asker; create role asker")
    await server.looks.execute("grant usage on schema asking to asker")
    await server.looks.execute("grant all on all tables in schema asking to asker")
    await server.looks.execute("revoke select on pg_catalog.pg_range from public")
    try:
        async with opened("plain") as db, db.session() as session:
            await session.execute("set role asker")
            for columns in ("e, c", "c, e"):
                text = f"select {columns} from asking.things where id = $1"
                row = await session.fetchrow(text, 1)
                assert sorted(row) == ["(1,x)", "glad"]
            await session.execute("insert into asking.things (id, e) values ($1, $2)", 2, "sad")
            # In a transaction it is an error, since it ends that; and costs one each.
            text = "select e, c, 1 from asking.things where id = $1"
            for errors in (1, 1, 0, 0):
                try:
                    async with session.begin() as tx:
                        row = await tx.fetchrow(text, 1)
                    assert not errors and tuple(row) == ("glad", "(1,x)", 1)
                except onetrip.errors.InsufficientPrivilegeError as error:
                    assert errors and error.outcome == "Rejected"
    finally:
        await server.looks.execute("grant select on pg_catalog.pg_range to public")
        await server.looks.execute("drop owned by asker; drop role asker")


# --- the blocking client ---


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize("place", ["plain", "session", "begin", "run"])
async def test_the_blocking_client_asks_again(
    server: Server, place: str, how: str, use: str
) -> None:
    query, args, _, added = USES[use]

    def work(of: Any) -> Any:
        return of.fetch(query, *args)

    def call(db: onetrip.blocking.Database) -> Any:
        if place == "run":
            return db.run(work)
        if place == "plain":
            return work(db)
        with db.session() if place == "session" else db.begin() as inner:
            return work(inner)

    def limited(db: onetrip.blocking.Database, limit: onetrip.blocking.Timeout) -> Any:
        with limit:
            return call(db)

    before = await server.count()
    with onetrip.blocking.connect(URL, connections_max=1) as db:
        limit = onetrip.blocking.Timeout(None)
        async with server.stuck():
            asked = asyncio.ensure_future(asyncio.to_thread(limited, db, limit))
            if how == "cancel":
                await server.cancel()
            else:
                await server.until_asked()
                limit.cancel()
                await server.until_quiet()
        with pytest.raises(onetrip.Error) as raised:
            await asyncio.wait_for(asked, PATIENCE)
        if how == "cancel":
            assert is_cancelled(raised.value), repr(raised.value)
        assert await server.count() == before
        assert is_right(use, await asyncio.to_thread(call, db))
        assert await server.count() == before + added
