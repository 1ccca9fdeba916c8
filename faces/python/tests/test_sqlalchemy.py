"""`postgresql+onetrip` against `postgresql+asyncpg`: the same scenario on both."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload

from conftest import URL, Line


def url_of(driver: str, url: str = URL) -> str:
    return f"postgresql+{driver}://" + url.split("://", 1)[1]


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    tags: Mapped[Any] = mapped_column(pg.ARRAY(sa.Text))
    more: Mapped[Any] = mapped_column(pg.JSONB)
    born: Mapped[datetime.datetime] = mapped_column(sa.DateTime(timezone=True))
    books: Mapped[list[Book]] = relationship(back_populates="author")


class Book(Base):
    __tablename__ = "sa_book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    price: Mapped[Any] = mapped_column(sa.Numeric(10, 2))
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("sa_author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


async def scenario(driver: str) -> Any:
    engine = create_async_engine(url_of(driver))
    told: list[Any] = []
    async with engine.begin() as con:
        await con.run_sync(Base.metadata.drop_all)
        await con.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine, expire_on_commit=False) as session:
        born = datetime.datetime(1950, 1, 1, tzinfo=datetime.timezone.utc)
        for name in ("a", "b"):
            books = [Book(title=f"{name}{n}", price=n) for n in range(3)]
            session.add(Author(name=name, tags=[name], more={"n": [1]}, born=born, books=books))
        await session.commit()
        session.expunge_all()
        rows = await session.scalars(
            sa.select(Author).options(selectinload(Author.books)).order_by(Author.id)
        )
        for it in rows:
            told.append((it.name, it.tags, it.more, it.born, [str(b.price) for b in it.books]))
        session.add(Author(name="a", tags=[], more=None, born=born))
        try:
            await session.commit()
        except sa.exc.IntegrityError as error:
            told.append((type(error.orig).__name__, error.orig.sqlstate))
            await session.rollback()
        async with session.begin_nested():
            await session.execute(sa.insert(Book), [
                {"title": "many", "price": n, "author_id": 1} for n in range(5)
            ])
        result = await session.stream(sa.select(Book.id).order_by(Book.id))
        told.append([row.id async for row in result])
        try:
            await session.execute(sa.text("select 1 / 0"))
        except sa.exc.DBAPIError as error:
            told.append(type(error).__name__)
        await session.rollback()
        for text in ("select nothing", "select 1"):
            # The first fails as it is prepared, which fails the transaction.
            try:
                await session.execute(sa.text(text))
            except sa.exc.DBAPIError as error:
                told.append(error.orig.sqlstate)
        await session.rollback()
    async with engine.connect() as con:
        serial = await con.execution_options(isolation_level="SERIALIZABLE")
        told.append(await serial.scalar(sa.text("show transaction_isolation")))
        await serial.rollback()
        told.append(await con.run_sync(
            lambda it: (sorted(c["name"] for c in sa.inspect(it).get_columns("sa_book")),
                        sa.inspect(it).get_indexes("sa_author"))
        ))
        told.append(await con.scalar(sa.select(sa.cast("10.0.0.1", pg.INET))))
    async with engine.begin() as con:
        await con.run_sync(Base.metadata.drop_all)
    await engine.dispose()
    return told


async def test_both_do_the_same() -> None:
    theirs = await scenario("asyncpg")
    ours = await scenario("onetrip")
    assert ours == theirs


@pytest.mark.parametrize("driver, trips", [("asyncpg", 3), ("onetrip", 2)])
async def test_begin_rides_along(line: Line, driver: str, trips: int) -> None:
    engine = create_async_engine(url_of(driver, line.url), pool_size=1)
    for _ in range(3):
        line.trips
        async with engine.begin() as con:
            await con.execute(sa.text("select 1"))
    assert line.trips == trips
    await engine.dispose()
