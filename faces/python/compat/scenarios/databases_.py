"""encode/databases: queries, transactions across tasks, iteration, what it rolls back in tests."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import uuid
from typing import Any

import sqlalchemy as sa
from databases import Database
from sqlalchemy.dialects import postgresql as pg

metadata = sa.MetaData()
notes = sa.Table(
    "notes", metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("text", sa.String(100), unique=True),
    sa.Column("done", sa.Boolean, default=False),
    sa.Column("at", sa.DateTime),
    sa.Column("day", sa.Date),
    sa.Column("price", sa.Numeric(10, 2)),
    sa.Column("data", pg.JSONB),
    sa.Column("key", pg.UUID(as_uuid=True)),
    sa.Column("words", pg.ARRAY(sa.Text)),
)

CREATE = """create table notes (id serial primary key, text varchar(100) unique, done bool,
    at timestamp, day date, price numeric(10, 2), data jsonb, key uuid, words text[])"""


async def _with(stage: Any, run: Any, **options: Any) -> None:
    async with Database(stage.url, **options) as database:
        await database.execute("drop table if exists notes")
        await database.execute(CREATE)
        await run(database)


async def queries(stage: Any) -> None:
    async def run(database: Database) -> None:
        values = {
            "text": "one", "done": True, "at": datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
            "day": datetime.date(2024, 2, 29), "price": decimal.Decimal("12.50"),
            "data": {"a": [1, None]}, "key": uuid.UUID(int=1), "words": ["a", "b,c"],
        }
        await stage.settles("insert", database.execute(notes.insert(), values))
        many = [{"text": f"n{n}", "done": n % 2 == 0} for n in range(20)]
        await stage.settles("many", database.execute_many(notes.insert(), many))
        for n, asked in enumerate((
            database.fetch_all(notes.select().order_by(notes.c.id).limit(2)),
            database.fetch_one(notes.select().where(notes.c.text == "one")),
            database.fetch_val(sa.select(sa.func.count()).select_from(notes)),
            database.fetch_val("select text from notes where id = :id", {"id": 2}),
            database.fetch_one("select * from notes where id = :id", {"id": 99}),
            database.execute(notes.update().where(notes.c.id == 2).values(text="changed")),
            database.execute(notes.delete().where(notes.c.id == 3)),
            database.fetch_all("select id, text from notes where text = any(:t)", {"t": ["n5"]}),
            database.fetch_val("select :a || :b", {"a": "x", "b": "y"}),
        )):
            await stage.settles(f"asked {n}", _plainly(asked))
        rows = []
        async for row in database.iterate("select id from notes order by id"):
            rows.append(row["id"])
        stage.see("iterated", rows)
        for label, asked in (
            ("unique", database.execute(notes.insert(), {"text": "one"})),
            ("too long", database.execute(notes.insert(), {"text": "x" * 101})),
            ("syntax", database.execute("selec 1")),
            ("bad value", database.fetch_val("select cast(:a as int)", {"a": "x"})),
            ("many fail", database.execute_many(notes.insert(), [{"text": "m"}, {"text": "m"}])),
        ):
            await stage.settles(label, asked)
        found = await database.fetch_all("select text from notes where text = 'm'")
        stage.see("of many", len(found))

    await _with(stage, run)


async def _plainly(call: Any) -> Any:
    found = await call
    if isinstance(found, list):
        return [dict(row._mapping) for row in found]
    return dict(found._mapping) if hasattr(found, "_mapping") else found


async def transactions(stage: Any) -> None:
    async def run(database: Database) -> None:
        async def texts() -> Any:
            return [row["text"] for row in await database.fetch_all("select text from notes")]

        async with database.transaction():
            await database.execute(notes.insert(), {"text": "kept"})

        async def fails() -> None:
            async with database.transaction(isolation="serializable"):
                level = await database.fetch_val("show transaction_isolation")
                stage.see("level", level)
                await database.execute(notes.insert(), {"text": "lost"})
                await database.execute(notes.insert(), {"text": "kept"})

        await stage.settles("fails", fails())

        async def nested() -> None:
            async with database.transaction():
                await database.execute(notes.insert(), {"text": "outer"})
                try:
                    async with database.transaction():
                        await database.execute(notes.insert(), {"text": "inner"})
                        raise LookupError("no")
                except LookupError:
                    pass
                async with database.transaction():
                    await database.execute(notes.insert(), {"text": "nested"})

        await stage.settles("nested", nested())

        @database.transaction()
        async def decorated(text: str) -> None:
            await database.execute(notes.insert(), {"text": text})

        await stage.settles("decorated", decorated("decorated"))
        await stage.settles("and fails", decorated("decorated"))
        transaction = await database.transaction()
        await database.execute(notes.insert(), {"text": "undone"})
        await transaction.rollback()
        stage.see("texts", await texts())

        async def other(n: int) -> Any:
            async with database.transaction():
                await database.execute(notes.insert(), {"text": f"task {n}"})
                return await database.fetch_val("select :n", {"n": str(n)})

        stage.see("tasks", await asyncio.gather(*(other(n) for n in range(20))))
        async with database.connection() as con:
            raw = con.raw_connection
            stage.see("raw", await raw.fetch("select $1::int as a", 1))
        stage.see("count", len(await texts()))

    await _with(stage, run, min_size=1, max_size=3)


async def rolled_back_tests(stage: Any) -> None:
    async def nothing(database: Database) -> None:
        pass

    await _with(stage, nothing)
    async with Database(stage.url, force_rollback=True) as database:
        await database.execute(notes.insert(), {"text": "gone"})
        stage.see("in it", await database.fetch_val("select count(*) from notes"))
    async with Database(stage.url, min_size=1, max_size=1, command_timeout=0.2) as database:
        stage.see("after it", await database.fetch_val("select count(*) from notes"))
        await stage.settles("too slow", database.fetch_val("select pg_sleep(5)"))
        stage.see("goes on", await database.fetch_val("select 1"))
    await stage.settles("no database", Database(stage.url + "_not").connect())
