"""Piccolo: tables, relations, transactions and savepoints, batches, migrations made and run."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import decimal
import enum
import io
import sys
import tempfile
import types
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from piccolo import columns
from piccolo.apps.migrations.commands.backwards import run_backwards
from piccolo.apps.migrations.commands.forwards import run_forwards
from piccolo.columns.indexes import IndexMethod
from piccolo.conf.apps import AppConfig, AppRegistry
from piccolo.engine.postgres import PostgresEngine
from piccolo.query.functions import Count, Max, Upper
from piccolo.table import Table, create_db_tables, drop_db_tables


class Mood(enum.Enum):
    SAD = "sad"
    GLAD = "glad"


class Team(Table):
    name = columns.Varchar(length=20, unique=True)


class Person(Table):
    token = columns.UUID(unique=True)
    name = columns.Varchar(length=50, index=True, index_method=IndexMethod.hash)
    mood = columns.Varchar(choices=Mood, default=Mood.GLAD)
    money = columns.Numeric(digits=(20, 4), default=decimal.Decimal(0))
    data = columns.JSONB(default={})
    born = columns.Date(null=True, default=None)
    seen = columns.Timestamptz(null=True, default=None)
    local = columns.Timestamp(null=True, default=None)
    span = columns.Interval(null=True, default=None)
    alarm = columns.Time(null=True, default=None)
    photo = columns.Bytea(null=True, default=None)
    ratio = columns.DoublePrecision(null=True, default=None)
    active = columns.Boolean(default=True)
    marks = columns.Array(base_column=columns.BigInt(), default=list)
    team = columns.ForeignKey(references=Team)
    boss = columns.ForeignKey(references="self")


TABLES = (Team, Person)


@contextlib.asynccontextmanager
async def _app(stage: Any, pool: int = 0, **settings: Any) -> AsyncIterator[PostgresEngine]:
    parts = urlsplit(stage.url)
    config = {"host": parts.hostname, "port": parts.port, "user": parts.username,
              "password": parts.password, "database": parts.path[1:], **settings}
    engine = PostgresEngine(config=config, extensions=())
    for table in TABLES:
        table._meta._db = engine
    # Where the tables of migrations look for it.
    sys.modules["piccolo_conf"] = types.ModuleType("piccolo_conf")
    sys.modules["piccolo_conf"].DB = engine
    if pool:
        await engine.start_connection_pool(min_size=1, max_size=pool)
    try:
        yield engine
    finally:
        if pool:
            await engine.close_connection_pool()


@contextlib.asynccontextmanager
async def _tables(stage: Any, pool: int = 0) -> AsyncIterator[PostgresEngine]:
    async with _app(stage, pool) as engine:
        await create_db_tables(*TABLES)
        try:
            yield engine
        finally:
            await drop_db_tables(*TABLES)


async def values(stage: Any) -> None:
    async with _tables(stage):
        team = Team(name="one")
        await team.save()
        await Person.insert(
            Person(
                token=uuid.UUID(int=1), name="ann", mood=Mood.SAD, team=team,
                money=decimal.Decimal("1234.5678"), data={"deep": [1, None, {"x": "ü"}]},
                born=datetime.date(1999, 12, 31), local=datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
                seen=datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.timezone.utc),
                span=datetime.timedelta(days=3, microseconds=5), alarm=datetime.time(7, 30),
                photo=b"\0\1\xff", ratio=0.1, marks=[3, 1, 2],
            ),
            Person(token=uuid.UUID(int=2), name="bob", boss=1),
        ).returning(Person.id)
        stage.see("rows", await Person.select().order_by(Person.id))
        for n, asked in enumerate((
            Person.select(Person.name, Person.team.name).where(Person.team.name == "one"),
            Person.select(Person.boss.name.as_alias("boss")).where(Person.boss.is_not_null()),
            Person.objects(Person.team).get(Person.name == "ann"),
            Person.select(Upper(Person.name), Person.data.arrow("deep")).order_by(Person.id),
            Person.select(Person.team, Count(), Max(Person.money)).group_by(Person.team)
            .order_by(Person.team),
            Person.exists().where(Person.token == uuid.UUID(int=2)),
            Person.count().where(Person.marks.any(1)),
            Person.update({Person.marks: Person.marks.cat([9])}).where(Person.name == "ann")
            .returning(Person.marks),
            Person.update({Person.seen: Person.seen + datetime.timedelta(days=1)})
            .where(Person.id == 1).returning(Person.seen),
            Person.select(Person.name).output(as_list=True).order_by(Person.name, ascending=False),
            Person.select().where(Person.name.ilike("%N%")).first().output(load_json=True),
            Person.raw("select {}::int as a, {} as b", 1, "x"),
            Person.delete().where(Person.name == "nobody").returning(Person.id),
            Team.insert(Team(id=1, name="up")).on_conflict(
                target=Team.id, action="DO UPDATE", values=[Team.name]).returning(Team.name),
            Team.objects().get_or_create(Team.name == "new"),
        )):
            await stage.settles(f"asked {n}", _plainly(asked))
        for label, asked in (
            ("unique", Team.insert(Team(name="up"))),
            ("too long", Team.insert(Team(name="x" * 30))),
            ("foreign key", Person.insert(Person(token=uuid.UUID(int=9), name="x", team=99))),
            ("syntax", Person.raw("selec 1")), ("table", Person.raw("select * from nowhere")),
            ("bad value", Person.raw("select {}::int", "x")),
            ("null", Team.raw("insert into team (name) values (null)")),
        ):
            await stage.settles(label, _plainly(asked))


async def _plainly(query: Any) -> Any:
    found = await query
    return found.to_dict() if isinstance(found, Table) else found


async def transactions(stage: Any) -> None:
    for pool in (0, 3):
        async with _tables(stage, pool) as engine:
            async with engine.transaction():
                await Team.insert(Team(name="one"))

            async def fails() -> None:
                async with engine.transaction():
                    await Team.insert(Team(name="lost"))
                    await Team.insert(Team(name="one"))

            await stage.settles("fails", fails())

            async def savepoints() -> None:
                async with engine.transaction() as transaction:
                    await Team.insert(Team(name="outer"))
                    savepoint = await transaction.savepoint()
                    await stage.settles("in it", _plainly(Team.insert(Team(name="one"))))
                    await savepoint.rollback_to()
                    await Team.insert(Team(name="kept"))
                    again = await transaction.savepoint("again")
                    await Team.insert(Team(name="released"))
                    await again.release()
                    async with engine.transaction():
                        await Team.insert(Team(name="nested"))

            await stage.settles("savepoints", savepoints())

            async def by_hand() -> None:
                async with engine.transaction() as transaction:
                    await Team.insert(Team(name="undone"))
                    await transaction.rollback()

            await stage.settles("by hand", by_hand())
            atomic = engine.atomic()
            atomic.add(Team.insert(Team(name="atomic")), Team.insert(Team(name="one")))
            await stage.settles("atomic", atomic.run())
            stage.see("names", await Team.select(Team.name).order_by(Team.name))


async def batches_and_concurrency(stage: Any) -> None:
    async with _tables(stage, 3) as engine:
        await Team.insert(*(Team(name=f"t{n:04}") for n in range(1000)))
        sizes = []
        async with await Team.select().order_by(Team.id).batch(batch_size=300) as batch:
            async for rows in batch:
                sizes.append(len(rows))
        stage.see("batches", sizes)
        first = None
        async with await Team.objects().batch(batch_size=10) as batch:
            async for rows in batch:
                first = len(rows)
                break
        stage.see("left early", first)

        async def one(n: int) -> Any:
            async with engine.transaction():
                found = await Team.select(Team.name).where(Team.id == n).lock_rows("UPDATE").first()
                await Team.update({Team.name: f"u{n}"}).where(Team.id == n)
                return found

        told = await asyncio.gather(*(one(n) for n in range(1, 41)))
        stage.see("told", [it["name"] for it in told])
        told = await asyncio.gather(*(Team.raw("select {}::int as n", n).run() for n in range(50)))
        stage.see("raw", [rows[0]["n"] for rows in told])
        stage.see("version", await engine.get_version() > 9)


async def migrations(stage: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = types.ModuleType("shop_app")
        place = Path(folder) / "migrations"
        place.mkdir()
        (place / "__init__.py").write_text("")
        app.APP_CONFIG = AppConfig("shop", str(place), table_classes=[])
        for name, text in MIGRATIONS.items():
            (place / f"{name}.py").write_text(HEAD.format(name) + text)
        sys.modules["shop_app"] = app
        sys.path.insert(0, folder)
        async with _app(stage) as engine:
            sys.modules["piccolo_conf"].APP_REGISTRY = AppRegistry(apps=["shop_app"])

            async def run(label: str, call: Any) -> None:
                with contextlib.redirect_stdout(io.StringIO()):
                    try:
                        told: Any = (await call).success
                    except Exception as error:
                        told = error
                stage.see(label, told)
                columns_of = await engine._run_in_new_connection(
                    "select table_name, column_name, data_type, column_default "
                    "from information_schema.columns "
                    "where table_schema = 'public' and table_name <> 'migration' order by 1, 2"
                )
                stage.see(f"{label}: columns", columns_of)

            await run("first", run_forwards("shop", "2024-01-01T00:00:00:000001"))
            await run("the second, and the third fails", run_forwards("shop"))
            await run("back", run_backwards("shop", "2024-01-01T00:00:00:000002", True))
            await run("all back", run_backwards("shop", "all", True))
        sys.path.remove(folder)


HEAD = """
from piccolo.apps.migrations.auto.migration_manager import MigrationManager
from piccolo.columns import Varchar, Integer
from piccolo.table import Table
ID, VERSION, DESCRIPTION = "{}".replace("_", ":"), "1.0", ""
async def forwards():
    manager = MigrationManager(migration_id=ID, app_name="shop", description="")
"""

MIGRATIONS = {
    "2024-01-01T00_00_00_000001": """
    manager.add_table("Band", tablename="band", schema=None)
    manager.add_column("Band", "band", "name", "name", "Varchar", Varchar, {"length": 20})
    return manager
""",
    "2024-01-01T00_00_00_000002": """
    manager.add_column("Band", "band", "fans", "fans", "Integer", Integer, {"default": 5})
    manager.rename_column("Band", "band", "name", "title", "name", "title")
    async def run():
        await Table.raw("insert into band (title) values ('x')")
    manager.add_raw(run)
    return manager
""",
    "2024-01-01T00_00_00_000003": """
    manager.add_table("Gig", tablename="gig", schema=None)
    async def run():
        await Table.raw("select 1 / 0")
    manager.add_raw(run)
    return manager
""",
}
