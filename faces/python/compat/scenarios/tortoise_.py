"""Tortoise ORM: models, relations, transactions and savepoints, bulk work, its pool."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from tortoise import Tortoise, fields
from tortoise.backends.base.client import BaseDBAsyncClient
from tortoise.contrib.postgres.fields import ArrayField
from tortoise.exceptions import IntegrityError
from tortoise.expressions import F, Q, RawSQL, Subquery
from tortoise.functions import Avg, Count, Max, Sum
from tortoise.models import Model
from tortoise.transactions import atomic, in_transaction


class Mood(str, enum.Enum):
    SAD = "sad"
    GLAD = "glad"


class Team(Model):
    id = fields.IntField(primary_key=True)
    name = fields.CharField(max_length=20, unique=True)
    people: fields.ManyToManyRelation[Person]


class Person(Model):
    id = fields.BigIntField(primary_key=True)
    token = fields.UUIDField(default=uuid.uuid4, unique=True)
    name = fields.CharField(max_length=50, db_index=True)
    mood = fields.CharEnumField(Mood, default=Mood.GLAD)
    money = fields.DecimalField(max_digits=20, decimal_places=4, default=0)
    data = fields.JSONField(default=dict)
    born = fields.DateField(null=True)
    seen = fields.DatetimeField(null=True)
    span = fields.TimeDeltaField(null=True)
    alarm = fields.TimeField(null=True)
    photo = fields.BinaryField(null=True)
    ratio = fields.FloatField(null=True)
    active = fields.BooleanField(default=True)
    marks = ArrayField(element_type="int", null=True)
    words = ArrayField(element_type="text", null=True)
    boss = fields.ForeignKeyField("models.Person", related_name="staff", null=True)
    teams = fields.ManyToManyField("models.Team", related_name="people", through="membership")


class Log(Model):
    id = fields.IntField(primary_key=True)
    person = fields.ForeignKeyField("models.Person", related_name="logs", on_delete=fields.CASCADE)
    text = fields.TextField()

    class Meta:
        unique_together = (("person", "text"),)
        ordering = ("id",)


@asynccontextmanager
async def _app(stage: Any, drops: bool = True, **settings: Any) -> AsyncIterator[BaseDBAsyncClient]:
    parts = urlsplit(stage.url)
    credentials = {
        "host": parts.hostname, "port": parts.port, "user": parts.username,
        "password": parts.password, "database": parts.path[1:], **settings,
    }
    await Tortoise.init(config={
        "connections": {"default": {
            "engine": "tortoise.backends.asyncpg", "credentials": credentials,
        }},
        "apps": {"models": {"models": [__name__], "default_connection": "default"}},
        "use_tz": True, "timezone": "UTC",
    })
    try:
        await Tortoise.generate_schemas(safe=True)
        yield Tortoise.get_connection("default")
    finally:
        if drops:
            names = "membership, log, person, team"
            con = Tortoise.get_connection("default")
            await con.execute_script(f"drop table if exists {names} cascade")
        await Tortoise.close_connections()


def _told(model: Model) -> Any:
    return [[name, getattr(model, name)] for name in sorted(type(model)._meta.db_fields)]


async def values(stage: Any) -> None:
    async with _app(stage) as con:
        await Person.create(
            token=uuid.UUID(int=1), name="ann", mood=Mood.SAD, money=decimal.Decimal("1234.5678"),
            data={"deep": [1, None, {"x": "ü"}], "n": 1.5}, born=datetime.date(1999, 12, 31),
            seen=datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=datetime.timezone.utc),
            span=datetime.timedelta(days=3, microseconds=5), alarm=datetime.time(7, 30),
            photo=b"\0\1\xff", ratio=0.1, marks=[3, 1, 2], words=["a", 'b "q"', ""],
        )
        await Person.create(token=uuid.UUID(int=2), name="bob", data=[1, "x"])
        for one in await Person.all().order_by("id"):
            stage.see(one.name, _told(one))
        for n, asked in enumerate((
            Person.filter(name__icontains="AN").values("id", "name", "money"),
            Person.filter(Q(born__lt=datetime.date(2000, 1, 1)) | Q(name="x")).values_list("name"),
            Person.filter(seen__year=2024).count(),
            Person.filter(data__contains={"n": 1.5}).values_list("name", flat=True),
            Person.filter(token=uuid.UUID(int=2)).exists(),
            Person.filter(name__in=["ann", "bob", "eve"]).order_by("-name").values_list("id"),
            Person.annotate(n=RawSQL("length(name)")).filter(n=3).count(),
            Person.filter(money__gte=decimal.Decimal("1000.5")).values("money", "span"),
            Person.filter(marks__contains=[1, 2]).values_list("name", flat=True),
            Person.get_or_none(name="nobody"),
            Person.filter(id=Subquery(Person.all().annotate(m=Max("id")).values("m"))).count(),
            Person.filter(name="ann").update(money=F("money") * 2, ratio=None),
            Person.filter(name="ann").values("money"),
            con.execute_query("select $1::int as a, $2::text[] as b", [1, ["x", "y"]]),
            con.execute_query_dict("select name, mood from person where id = $1", [1]),
            con.execute_query("update person set active = false"),
            con.execute_insert("insert into team (name) values ($1) returning id", ["t"]),
            con.execute_script("select 1; select 2"),
        )):
            await stage.settles(f"asked {n}", asked)
        for label, asked in (
            ("unique", Person.create(token=uuid.UUID(int=2), name="x")),
            ("too long", Team.create(name="x" * 30)),
            ("missing", Person.get(name="nobody")), ("several", Person.get(active=False)),
            ("syntax", con.execute_query("selec 1")),
            ("table", con.execute_query("select * from nowhere")),
            ("bad value", con.execute_query("select $1::int", ["x"])),
            ("number of values", con.execute_query("select $1::int", [])),
            ("foreign key", con.execute_query("insert into log (person_id, text) values (99, '')")),
            ("null", con.execute_query("insert into team (name) values (null)")),
        ):
            await stage.settles(label, asked)


async def relations(stage: Any) -> None:
    async with _app(stage):
        teams = [await Team.create(name=f"t{n}") for n in range(3)]
        boss = await Person.create(name="boss")
        for n in range(4):
            one = await Person.create(name=f"p{n}", boss=boss)
            await one.teams.add(*teams[:n])
            await Log.bulk_create([Log(person=one, text=f"l{k}") for k in range(n)])
        fetched = await Person.filter(boss=boss).prefetch_related("teams", "logs", "boss")
        for one in sorted(fetched, key=lambda it: it.name):
            stage.see(one.name, [
                one.boss.name, sorted(t.name for t in one.teams), [log.text for log in one.logs],
            ])
        counted = Person.annotate(n=Count("logs"), m=Count("teams", distinct=True)).order_by("id")
        stage.see("counted", await counted.values("name", "n", "m"))
        grouped = Log.annotate(n=Count("id")).group_by("person__name").order_by("person__name")
        stage.see("grouped", await grouped.values("person__name", "n"))
        stage.see("sums", await Log.annotate(a=Avg("id"), s=Sum("id")).group_by().values("a", "s"))
        through = await Team.filter(people__logs__text="l2").distinct().values_list("name")
        stage.see("through", sorted(through))
        one = await Person.get(name="p3").select_related("boss")
        stage.see("boss", one.boss.name)
        await one.teams.remove(teams[0])
        await one.teams.clear()
        await one.delete()
        stage.see("left", [await Log.all().count(), await boss.staff.all().count()])
        await stage.settles("still referred to", boss.delete())


async def transactions(stage: Any) -> None:
    async with _app(stage):
        async with in_transaction():
            await Team.create(name="one")
            await Team.filter(name="one").update(name="first")

        async def fails() -> None:
            async with in_transaction():
                await Team.create(name="lost")
                await Team.create(name="first")

        await stage.settles("fails", fails())

        async def nested() -> None:
            async with in_transaction() as outer:
                await Team.create(name="outer", using_db=outer)
                try:
                    async with in_transaction():
                        await Team.create(name="inner")
                        await Team.create(name="first")
                except IntegrityError as error:
                    stage.see("inner", error)
                async with in_transaction():
                    await Team.create(name="kept")

        await stage.settles("nested", nested())

        @atomic()
        async def decorated() -> None:
            await Team.create(name="decorated")
            raise LookupError("by the program")

        await stage.settles("decorated", decorated())

        async def by_hand() -> None:
            async with in_transaction() as con:
                await Team.create(name="undone", using_db=con)
                await con.rollback()

        await stage.settles("by hand", by_hand())

        async def aborted() -> None:
            async with in_transaction() as con:
                await stage.settles("bad", con.execute_query("select 1 / 0"))
                await stage.settles("aborted", con.execute_query("select 1"))

        await stage.settles("commit of a failed one", aborted())

        async def level() -> Any:
            async with in_transaction() as con:
                await Team.all().select_for_update().order_by("id").first()
                return (await con.execute_query("select txid_current_if_assigned() is null"))[1]

        await stage.settles("locks", level())
        stage.see("names", await Team.all().order_by("name").values_list("name", flat=True))


async def bulk_and_concurrency(stage: Any) -> None:
    async with _app(stage, minsize=1, maxsize=4) as con:
        await Team.bulk_create([Team(name=f"t{n:04}") for n in range(1500)], batch_size=400)
        stage.see("count", await Team.all().count())
        some = await Team.all().order_by("id").limit(200)
        for team in some:
            team.name = team.name + "x"
        stage.see("updated", await Team.bulk_update(some, fields=["name"], batch_size=50))
        stage.see("found", len(await Team.in_bulk([f"t{n:04}x" for n in range(5)], "name")))
        await stage.settles("ignored", Team.bulk_create(
            [Team(name="t0001x"), Team(name="new")], ignore_conflicts=True))
        await stage.settles("upserted", Team.bulk_create(
            [Team(id=1, name="up")], update_fields=["name"], on_conflict=["id"]))
        await stage.settles("fails", Team.bulk_create([Team(name="a"), Team(name="a")]))
        both = await asyncio.gather(*(Team.get_or_create(name=f"g{n % 5}") for n in range(40)))
        stage.see("created", [sum(made for _, made in both), len({it.id for it, _ in both})])

        async def one(n: int) -> Any:
            async with in_transaction():
                team = await Team.get(name=f"g{n % 5}").select_for_update()
                await Team.filter(id=team.id).update(name=F("name"))
                return team.name

        told = await asyncio.gather(*(one(n) for n in range(40)))
        stage.see("told", told == [f"g{n % 5}" for n in range(40)])
        pids = await asyncio.gather(*(
            con.execute_query("select pg_backend_pid() as pid, pg_sleep(0.01)") for _ in range(20)
        ))
        stage.see("on four", len({rows[0]["pid"] for _, rows in pids}) <= 4)
        stage.see("rest", await Team.filter(name__startswith="a").count())


async def pools_and_losses(stage: Any) -> None:
    async with _app(stage, minsize=1, maxsize=1) as con:
        pid = (await con.execute_query("select pg_backend_pid() as pid"))[1][0]["pid"]
        async with _others(stage) as other:
            asked = "select count(*) from pg_stat_activity where pid = $1"
            await other.execute("select pg_terminate_backend($1)", pid)
            while await other.fetchval(asked, pid):
                pass
        try:
            await con.execute_query("select 1 as one")
        except Exception:
            # Whether the loss is noticed before or by a statement is a matter of time.
            pass
        stage.see("goes on", (await con.execute_query("select 1 as one"))[1][0]["one"])
    await stage.settles("no database", _use(stage, database="nowhere"))
    await stage.settles("nobody there", _use(stage, host="127.0.0.1", port=1))
    async with _app(stage, schema="public", application_name="app") as con:
        stage.see("settings", (await con.execute_query("show application_name"))[1])


async def _use(stage: Any, **settings: Any) -> None:
    async with _app(stage, drops=False, **settings):
        await Team.all().count()


@asynccontextmanager
async def _others(stage: Any) -> AsyncIterator[Any]:
    import asyncpg

    con = await asyncpg.connect(stage.url)
    yield con
    await con.close()
