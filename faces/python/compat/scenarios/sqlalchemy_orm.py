"""SQLAlchemy: a shop. Models, relations, values of every type, transactions that fail, savepoints,
concurrency, streams, bulk inserts, lost connections and pools.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship
from sqlalchemy.orm import selectinload
from sqlalchemy.pool import NullPool

UTC = datetime.timezone.utc


class Kind(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Base(DeclarativeBase):
    pass


tagging = sa.Table(
    "tagging",
    Base.metadata,
    sa.Column("product_id", sa.ForeignKey("product.id"), primary_key=True),
    sa.Column("tag_id", sa.ForeignKey("tag.id"), primary_key=True),
)


class Tag(Base):
    __tablename__ = "tag"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(20), unique=True)


class Product(Base):
    __tablename__ = "product"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[uuid.UUID] = mapped_column(unique=True)
    name: Mapped[str]
    kind: Mapped[Kind] = mapped_column(sa.Enum(Kind, name="kind"))
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(12, 3))
    weight: Mapped[float | None]
    since: Mapped[datetime.date]
    seen: Mapped[datetime.datetime] = mapped_column(sa.DateTime(timezone=True))
    local: Mapped[datetime.datetime | None] = mapped_column(sa.DateTime())
    opens: Mapped[datetime.time | None]
    lasts: Mapped[datetime.timedelta | None]
    more: Mapped[Any] = mapped_column(pg.JSONB)
    words: Mapped[Any] = mapped_column(pg.ARRAY(sa.Text))
    grid: Mapped[Any] = mapped_column(pg.ARRAY(sa.Integer, dimensions=2), nullable=True)
    kinds: Mapped[Any] = mapped_column(pg.ARRAY(pg.ENUM(Kind, name="kind")), nullable=True)
    photo: Mapped[bytes | None]
    span: Mapped[Any] = mapped_column(pg.INT4RANGE, nullable=True)
    days: Mapped[Any] = mapped_column(pg.DATEMULTIRANGE, nullable=True)
    flags: Mapped[Any] = mapped_column(pg.BIT(5), nullable=True)
    home: Mapped[Any] = mapped_column(pg.INET, nullable=True)
    version: Mapped[int] = mapped_column()
    items: Mapped[list[Item]] = relationship(back_populates="product", cascade="all, delete-orphan")
    tags: Mapped[list[Tag]] = relationship(secondary=tagging)
    __mapper_args__ = {"version_id_col": version}


class Item(Base):
    __tablename__ = "item"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    product_id: Mapped[int] = mapped_column(sa.ForeignKey("product.id"))
    count: Mapped[int] = mapped_column(sa.CheckConstraint("count > 0", name="positive"))
    product: Mapped[Product] = relationship(back_populates="items")


def _product(n: int, **given: Any) -> Product:
    values: dict[str, Any] = {
        "key": uuid.UUID(int=n), "name": f"p{n}", "kind": Kind.SMALL, "price": n,
        "since": datetime.date(2024, 2, 29), "more": {"n": n}, "words": [],
        "seen": datetime.datetime(2024, 1, 1, 12, n % 60, tzinfo=UTC),
    }
    return Product(**values | given)


@asynccontextmanager
async def _shop(stage: Any, **settings: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(stage.database_url, **settings)
    async with engine.begin() as con:
        await con.run_sync(Base.metadata.drop_all)
        await con.run_sync(Base.metadata.create_all)
    try:
        yield engine
    finally:
        await engine.dispose()


async def values_of_every_type(stage: Any) -> None:
    async with _shop(stage) as engine, AsyncSession(engine) as session:
        session.add(_product(
            1, weight=float("inf"), price=decimal.Decimal("-123456789.125"), photo=b"\0\1\xff",
            local=datetime.datetime(1900, 1, 1, 0, 0, 0, 1), opens=datetime.time(23, 59, 59, 9),
            lasts=datetime.timedelta(days=-3, microseconds=7), kinds=[Kind.LARGE, None],
            more={"deep": [1, None, {"x": "ü\\\""}], "n": 12345678901234567890, "f": 1.5},
            words=["a", 'b "q" \\', "c,d", "NULL", "", None], grid=[[1, 2], [3, 4]],
            span=pg.Range(1, 5, bounds="[]"), home="10.0.0.1/8", flags=pg.BitString("10101"),
            days=[pg.Range(datetime.date(2024, 1, 1), datetime.date(2024, 2, 1))],
        ))
        session.add(_product(2, kind=Kind.LARGE, more=None, span=pg.Range(empty=True)))
        await session.commit()
        session.expunge_all()
        for it in await session.scalars(sa.select(Product).order_by(Product.id)):
            for column in Product.__table__.columns:
                stage.see(f"{it.id} {column.name}", getattr(it, column.name))
        asked = (
            sa.select(Product.name).where(Product.more["deep"][0].as_integer() == 1),
            sa.select(Product.name).where(Product.words.contains(["a", "c,d"])),
            sa.select(Product.name).where(Product.span.contains(3)),
            sa.select(Product.name).where(Product.kind.in_([Kind.LARGE])),
            sa.select(Product.name).where(Product.key == uuid.UUID(int=2)),
            sa.select(Product.name).where(Product.price < decimal.Decimal("-1.5")),
            sa.select(sa.func.sum(Product.price), sa.func.max(Product.seen)),
            sa.select(sa.func.array_agg(Product.since), sa.func.json_agg(Product.name)),
            sa.select(sa.cast(sa.literal("1 day"), pg.INTERVAL) + datetime.timedelta(hours=1)),
            sa.select(sa.literal(1), sa.literal("x"), sa.literal(1.5), sa.literal(True)),
            sa.select(sa.literal(datetime.date(2024, 1, 1)), sa.null()),
            sa.select(sa.extract("epoch", sa.literal(datetime.timedelta(days=1)))),
            sa.text("select cast(:a as int) as a, :b as b").bindparams(a=1, b="x"),
        )
        for n, it in enumerate(asked):
            result = await session.execute(it)
            stage.see(f"asked {n}", [tuple(row) for row in result])
        for n, it in enumerate((
            sa.select(sa.literal("x", sa.Integer)),
            sa.select(Product.id).where(Product.id == sa.literal(2**70, sa.BigInteger)),
            sa.select(sa.literal(datetime.datetime(2024, 1, 1, tzinfo=UTC), sa.DateTime())),
        )):
            await stage.settles(f"refused {n}", session.execute(it))
            await session.rollback()


async def relations(stage: Any) -> None:
    async with _shop(stage) as engine, AsyncSession(engine, expire_on_commit=False) as session:
        tags = [Tag(name=name) for name in ("new", "old", "odd")]
        for n in range(4):
            items = [Item(count=k + 1) for k in range(n)]
            session.add(_product(n, items=items, tags=tags[:n]))
        await session.commit()
        session.expunge_all()
        for n, how in enumerate((
            [selectinload(Product.items), selectinload(Product.tags)],
            [joinedload(Product.items), joinedload(Product.tags)],
        )):
            asked = sa.select(Product).options(*how).order_by(Product.id)
            for it in (await session.scalars(asked)).unique():
                told = [it.name, sorted(i.count for i in it.items), sorted(t.name for t in it.tags)]
                stage.see(f"loaded {n}", told)
            session.expunge_all()
        joined = (
            sa.select(Product.name, sa.func.count(Item.id).label("n"), sa.func.sum(Item.count))
            .join(Item, isouter=True).group_by(Product.name).order_by(sa.desc("n"))
        )
        stage.see("grouped", [tuple(row) for row in await session.execute(joined)])
        one = await session.get(Product, 4, options=[selectinload(Product.items)])
        one.items.pop()
        one.name = "changed"
        await session.commit()
        stage.see("version", one.version)
        await session.execute(sa.update(Product).values(version=9).where(Product.id == 4))
        await session.commit()
        one.name = "again"
        await stage.settles("stale", session.commit())
        await session.rollback()
        await session.delete(await session.get(Product, 3, options=[selectinload(Product.items)]))
        await stage.settles("deleted", session.commit())
        left = await session.execute(sa.select(Item.product_id, Item.count).order_by(Item.id))
        stage.see("left", [tuple(row) for row in left])


async def transactions_that_fail(stage: Any) -> None:
    async with _shop(stage) as engine:
        async with AsyncSession(engine) as session:
            session.add_all([Tag(name="one"), Tag(name="two")])
            await session.commit()
            for label, what in (
                ("unique", Tag(name="one")), ("too long", Tag(name="x" * 30)),
                ("foreign key", Item(product_id=99, count=1)), ("null", Item(count=1)),
            ):
                session.add(what)
                await stage.settles(label, session.commit())
                await session.rollback()
            for label, text in (
                ("syntax", "selec 1"), ("table", "select * from nowhere"),
                ("column", "select nothing from tag"), ("division", "select 1 / 0"),
                ("check", "insert into item (product_id, count) values (1, 0)"),
                ("enum", "select 'medium'::kind"), ("null", "insert into tag (name) values (null)"),
                ("raised", "do $$ begin raise exception 'no' using hint = 'do not', detail = 'd',"
                           " errcode = 'U0001'; end $$"),
                ("statements", "select 1; select 2"),
            ):
                await stage.settles(label, session.execute(sa.text(text)))
                await stage.settles(f"after {label}", session.scalar(sa.text("select 1")))
                await session.rollback()
        async with AsyncSession(engine) as session:
            async with session.begin():
                session.add(Tag(name="outer"))
                try:
                    async with session.begin_nested():
                        session.add(Tag(name="inner"))
                        await session.flush()
                        async with session.begin_nested():
                            session.add(Tag(name="innermost"))
                        session.add(Tag(name="one"))
                        await session.flush()
                except sa.exc.IntegrityError as error:
                    stage.see("inner fails", error.orig)
                async with session.begin_nested() as nested:
                    session.add(Tag(name="undone"))
                    await nested.rollback()
                async with session.begin_nested():
                    session.add(Tag(name="kept"))
            rows = await session.scalars(sa.select(Tag.name).order_by(Tag.name))
            stage.see("names", list(rows))
        try:
            async with engine.begin() as con:
                await con.execute(sa.insert(Tag).values(name="lost"))
                raise LookupError("by the program")
        except LookupError:
            pass
        async with engine.connect() as con:
            stage.see("count", await con.scalar(sa.select(sa.func.count()).select_from(Tag)))
            await con.rollback()
            for level in ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "AUTOCOMMIT"):
                other = await con.execution_options(isolation_level=level)
                stage.see(level, await other.scalar(sa.text("show transaction_isolation")))
                await other.rollback()
            stage.see("default", await con.get_isolation_level())
        async with engine.connect() as con:
            con = await con.execution_options(
                isolation_level="SERIALIZABLE", postgresql_readonly=True, postgresql_deferrable=True
            )
            await stage.settles("read only", con.execute(sa.insert(Tag).values(name="no")))
            await con.rollback()
        async with engine.connect() as con:
            stage.see("after all", await con.scalar(sa.text("show transaction_read_only")))


async def concurrency_and_conflicts(stage: Any) -> None:
    async with _shop(stage, pool_size=4, max_overflow=2) as engine:
        async with engine.begin() as con:
            for n in range(4):
                await con.execute(sa.insert(Tag).values(id=n + 1, name=str(n)))

        async def one(n: int) -> list[int]:
            async with AsyncSession(engine) as session:
                found = await session.scalars(sa.select(sa.func.generate_series(n, n + 2)))
                return list(found)

        told = await asyncio.gather(*(one(n) for n in range(60)))
        stage.see("answers", told == [[n, n + 1, n + 2] for n in range(60)])
        stage.see("connections", engine.pool.checkedin() <= 6)

        async def raised(level: str, barrier: asyncio.Barrier, *places: int) -> str:
            async with engine.connect() as con:
                con = await con.execution_options(isolation_level=level)
                try:
                    await con.scalar(sa.select(sa.func.sum(Tag.id)))
                    for n, place in enumerate(places):
                        if n == len(places) - 1:
                            await asyncio.wait_for(barrier.wait(), 5)
                        text = sa.update(Tag).where(Tag.id == place)
                        await con.execute(text.values(name=Tag.name + level[0]))
                    await con.commit()
                    return "committed"
                except sa.exc.DBAPIError as error:
                    of = error.orig
                    return f"{type(error).__name__} {type(of).__name__} {of.sqlstate}"

        barrier = asyncio.Barrier(2)
        ends = await asyncio.gather(
            raised("READ COMMITTED", barrier, 1, 2), raised("READ COMMITTED", barrier, 2, 1)
        )
        stage.see("deadlock", sorted(ends))
        barrier = asyncio.Barrier(2)
        ends = await asyncio.gather(
            raised("SERIALIZABLE", barrier, 3), raised("SERIALIZABLE", barrier, 3)
        )
        stage.see("serializable", sorted(ends))
        async with engine.begin() as con, engine.connect() as other:
            await con.execute(sa.select(Tag).where(Tag.id == 1).with_for_update())
            locked = sa.select(Tag.id).where(Tag.id == 1)
            await stage.settles("nowait", other.execute(locked.with_for_update(nowait=True)))
            await other.rollback()
            left = await other.execute(sa.select(Tag.id).order_by(Tag.id)
                                       .with_for_update(skip_locked=True))
            stage.see("skip locked", [row.id for row in left])
            await other.rollback()


async def bulk_and_streams(stage: Any) -> None:
    async with _shop(stage, pool_size=2) as engine:
        async with engine.begin() as con:
            rows = [{"name": f"n{n:04}"} for n in range(2500)]
            returned = await con.execute(
                sa.insert(Tag).returning(Tag.id, Tag.name, sort_by_parameter_order=True), rows
            )
            found = [tuple(row) for row in returned]
            stage.see("returned", [len(found), found[0], found[-1]])
            many = await con.execute(
                sa.update(Tag).where(Tag.id == sa.bindparam("of")).values(name=sa.bindparam("to")),
                [{"of": n, "to": f"m{n}"} for n in range(1, 300)],
            )
            stage.see("updated", many.rowcount)
            upsert = pg.insert(Tag).values([{"id": n, "name": f"u{n}"} for n in (1, 2, 5001)])
            upsert = upsert.on_conflict_do_update(
                index_elements=["id"], set_={"name": upsert.excluded.name}
            ).returning(Tag.name)
            stage.see("upserted", list(await con.scalars(upsert)))
        async with AsyncSession(engine) as session:
            session.add_all([_product(n, items=[Item(count=1)]) for n in range(300)])
            await session.flush()
            await session.commit()
            stage.see("items", await session.scalar(sa.select(sa.func.count(Item.id))))
        async with engine.connect() as con:
            async with con.stream(sa.select(Tag.id).order_by(Tag.id)) as result:
                stage.see("streamed", sum([row.id async for row in result]))
            result = await con.stream(
                sa.select(Tag.id).order_by(Tag.id).execution_options(yield_per=100)
            )
            sizes = [len(part) async for part in result.partitions()]
            stage.see("partitions", [len(sizes), sizes[-1]])
            result = await con.stream(sa.select(Tag.id).order_by(Tag.id))
            stage.see("left early", [(await result.fetchone()).id, len(await result.fetchmany(7))])
            await result.close()
            stage.see("and then", await con.scalar(sa.select(sa.func.count(Tag.id))))
            failing = sa.text("select 10 / (500 - n) from generate_series(1, 1000) n")
            result = await con.stream(failing)

            async def read() -> int:
                return len([row async for row in result])

            await stage.settles("fails midway", read())
            await con.rollback()
            stage.see("at last", await con.scalar(sa.text("select 1")))
        await stage.settles("bad in the middle of many", _bad_many(engine))
        async with engine.connect() as con:
            left = sa.select(sa.func.count(Tag.id)).where(Tag.name.like("bad%"))
            stage.see("none of them", await con.scalar(left))


async def _bad_many(engine: AsyncEngine) -> None:
    names = [f"bad{n}" for n in range(50)] + ["bad7"]
    async with engine.begin() as con:
        await con.execute(sa.insert(Tag), [{"name": name} for name in names])


async def lost_connections_and_pools(stage: Any) -> None:
    async with _shop(stage, pool_size=1, max_overflow=0, pool_timeout=0.2) as engine:
        other = create_async_engine(stage.database_url, poolclass=NullPool)

        async def kill(pid: int) -> None:
            async with other.connect() as con:
                asked = sa.text("select pg_terminate_backend(:pid)")
                await con.execute(asked, {"pid": pid})
                while await con.scalar(
                    sa.text("select count(*) from pg_stat_activity where pid = :pid"), {"pid": pid}
                ):
                    await con.rollback()

        pid = sa.text("select pg_backend_pid()")
        async with engine.connect() as con:
            await kill(await con.scalar(pid))
            # A driver that has not read the end yet raises something else than one that has.
            raw = await con.get_raw_connection()
            async with asyncio.timeout(20):
                while not raw.driver_connection.is_closed():
                    await asyncio.sleep(0.01)
            try:
                await con.execute(sa.text("select 1"))
            except sa.exc.DBAPIError as error:
                stage.see("lost", [type(error), error.connection_invalidated])
            await stage.settles("still", con.execute(sa.text("select 1")))
            await con.rollback()
            await stage.settles("back", con.scalar(sa.text("select 1")))
        async with engine.connect():
            await stage.settles("exhausted", engine.connect().start())
        stage.see("status", engine.pool.status())
        async with engine.connect() as con:
            await con.execute(sa.text("set application_name = 'mine'"))
            await con.commit()
        async with engine.connect() as con:
            stage.see("not reset by a pool", await con.scalar(sa.text("show application_name")))
        checked = create_async_engine(stage.database_url, pool_size=1, pool_pre_ping=True)
        async with checked.connect() as con:
            first = await con.scalar(pid)
        await kill(first)
        async with checked.connect() as con:
            stage.see("pinged", await con.scalar(pid) != first)
        cancelled = asyncio.create_task(_sleep(checked))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        try:
            await cancelled
        except asyncio.CancelledError:
            stage.see("cancelled", True)
        async with checked.connect() as con:
            stage.see("after the cancel", await con.scalar(sa.text("select 1")))
        await checked.dispose()
        await other.dispose()
        for label, url in (
            ("nobody there", "postgresql+D://x@127.0.0.1:1/x"),
            ("no database", stage.database_url + "_not"),
        ):
            refused = create_async_engine(url.replace("+D", f"+{stage.dialect}"))
            await stage.settles(label, refused.connect().start())
            await refused.dispose()


async def _sleep(engine: AsyncEngine) -> None:
    async with engine.connect() as con:
        await con.execute(sa.text("select pg_sleep(30)"))


async def the_driver_below(stage: Any) -> None:
    async with _shop(stage) as engine:
        async with engine.connect() as con:
            raw = await con.get_raw_connection()
            driver = raw.driver_connection
            stage.see("rows", await driver.fetch("select $1::int as a, 'x' as b", 5))
            heard: asyncio.Queue[Any] = asyncio.Queue()
            hears = lambda *it: heard.put_nowait(it[2:])  # noqa: E731
            await driver.add_listener("news", hears)
            await con.execute(sa.text("notify news, 'hello'"))
            await con.commit()
            stage.see("heard", await asyncio.wait_for(heard.get(), 5))
            await driver.remove_listener("news", hears)
            tables = await con.run_sync(lambda it: sorted(sa.inspect(it).get_table_names()))
            stage.see("tables", tables)
            for table in tables:
                seen = await con.run_sync(lambda it: (
                    sa.inspect(it).get_columns(table), sa.inspect(it).get_foreign_keys(table),
                    sa.inspect(it).get_unique_constraints(table), sa.inspect(it).get_indexes(table),
                    sa.inspect(it).get_check_constraints(table),
                ))
                stage.see(table, repr(seen))
            stage.see("enums", await con.run_sync(lambda it: sa.inspect(it).get_enums()))
            version = await con.run_sync(lambda it: it.dialect.server_version_info)
            stage.see("version", version)
