"""Notifications."""

from __future__ import annotations

import asyncio

import pytest

import onetrip
from onetrip import Gap, Notification
from onetrip._opening import Opening

from conftest import URL, Line


async def test_notifications(db: onetrip.Database) -> None:
    async with db.listen("first", 'odd "name') as events:
        await db.execute("select pg_notify('first', 'hello')")
        event = await asyncio.wait_for(events.__anext__(), 600)
        assert isinstance(event, Notification)
        assert (event.channel, event.payload) == ("first", "hello") and event.process_id > 0
        await db.execute("select pg_notify($1, $2)", 'odd "name', "żółć")
        event = await asyncio.wait_for(events.__anext__(), 600)
        assert isinstance(event, Notification) and event.payload == "żółć"
        waiting = asyncio.ensure_future(events.__anext__())
        await asyncio.sleep(0)
        events.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
    with pytest.raises(StopAsyncIteration):
        await events.__anext__()


async def test_a_listener_that_reconnects_says_so(db: onetrip.Database, line: Line) -> None:
    async with onetrip.connect(line.url) as far:
        async with far.listen("again") as events:
            await db.execute("select pg_notify('again', '1')")
            assert (await events.__anext__()).payload == "1"  # type: ignore[union-attr]
            line.say("cut")
            assert await asyncio.wait_for(events.__anext__(), 600) == Gap(0)
            await db.execute("select pg_notify('again', '2')")
            assert (await events.__anext__()).payload == "2"  # type: ignore[union-attr]


async def test_the_gap_of_a_lost_connection_is_behind_what_came_before(
    db: onetrip.Database, line: Line
) -> None:
    async with onetrip.connect(line.url) as far:
        async with far.listen("places") as events:
            await db.execute("select pg_notify('places', '1')")
            while not events._kept:
                await asyncio.sleep(0)
            line.say("cut")
            while len(events._kept) < 2:
                await asyncio.sleep(0)
            await db.execute("select pg_notify('places', '2')")
            heard = [await events.__anext__() for _ in range(3)]
            told = [it if isinstance(it, Gap) else it.payload for it in heard]
            assert told == ["1", Gap(0), "2"]


async def test_a_listener_that_is_refused_says_so() -> None:
    async with onetrip.connect(URL) as db:
        db._host.config.dbname = "missing"
        with pytest.raises(onetrip.PostgresError) as caught:
            await asyncio.wait_for(db.listen("x").__aenter__(), 600)
        assert caught.value.code == "3D000"


async def test_a_reader_that_stops(db: onetrip.Database) -> None:
    async with db.listen("many") as events:
        await db.execute("select pg_notify('many', i::text) from generate_series(1, 1500) i")
        await db.execute("select pg_notify('many', 'last')")
        heard: list[int | str] = []
        while not heard or heard[-1] != "last":
            event = await asyncio.wait_for(events.__anext__(), 600)
            heard.append(event.dropped if isinstance(event, Gap) else event.payload)
        dropped = sum(it for it in heard if isinstance(it, int))
        assert dropped + sum(isinstance(it, str) for it in heard) == 1501


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((), "a channel is missing"),
        (("",), "is empty"),
        (("x" * 64,), "64 bytes"),
        (("a\0",), "zero"),
    ],
)
async def test_bad_names(db: onetrip.Database, names: tuple[str, ...], why: str) -> None:
    with pytest.raises((onetrip.MisuseError, ValueError), match=why):
        db.listen(*names)


async def test_close_ends_listeners() -> None:
    db = await onetrip.connect(URL)
    events = await db.listen("x").__aenter__()
    await asyncio.wait_for(db.close(), 600)
    with pytest.raises(StopAsyncIteration):
        await events.__anext__()


async def test_one_that_is_left_as_its_login_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client closes, though the listener's cancel is lost there before Python 3.12."""
    log_in = Opening._log_in

    async def and_left(self: Opening) -> None:
        await log_in(self)
        entering.cancel()

    db = await onetrip.connect(URL)
    monkeypatch.setattr(Opening, "_log_in", and_left)
    entering = asyncio.ensure_future(db.listen("a").__aenter__())
    with pytest.raises(asyncio.CancelledError):
        await entering
    await asyncio.wait_for(db.close(), 600)
