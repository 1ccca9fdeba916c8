"""pgvector: its types by asyncpg and by SQLAlchemy, on a server that has the extension."""

from __future__ import annotations

from typing import Any

import asyncpg
import numpy as np
import sqlalchemy as sa
from pgvector import HalfVector, SparseVector, Vector
from pgvector.asyncpg import register_vector
from pgvector.sqlalchemy import BIT, HALFVEC, SPARSEVEC, VECTOR, avg
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

CREATE = """drop table if exists items; create extension if not exists vector;
create table items (id serial primary key, v vector(3), h halfvec(3), s sparsevec(3), b bit(3))"""


async def by_asyncpg(stage: Any) -> None:
    con = await asyncpg.connect(stage.url)
    await con.execute("drop extension if exists vector cascade")
    await stage.settles("no extension", register_vector(con))
    await con.execute(CREATE)
    await register_vector(con)
    sparse = SparseVector({0: 1.5, 2: -2}, 3)
    insert = "insert into items (v, h, s, b) values ($1, $2, $3, $4)"
    bits = asyncpg.BitString("101")
    await con.execute(insert, np.array([1.5, 2, 3]), HalfVector([1.5, 2, 3]), sparse, bits)
    await con.execute(insert, [4, 5, 6], [4, 5, 6], sparse, None)
    await con.executemany(insert, [(Vector([n, 0, 0]), None, None, None) for n in range(50)])
    rows = await con.fetch("select * from items order by id limit 3")
    for row in rows:
        stage.see("row", [str(it) for it in row])
        stage.see("types", [type(it).__name__ for it in row])
    found = await con.fetch(
        "select id, v <-> $1 as d from items order by d, id limit 3", np.array([1, 2, 3])
    )
    stage.see("nearest", [tuple(row) for row in found])
    stage.see("average", str(await con.fetchval("select avg(v) from items")))
    stage.see("array", [str(it) for it in await con.fetchval("select array_agg(v) from items")][:3])
    two = [Vector([1, 2]), Vector([3, 4])]
    stage.see("in an array", str(await con.fetchval("select ($1::vector[])[2]", two)))
    await stage.settles("dimensions", con.execute("insert into items (v) values ($1)", [1, 2]))
    await stage.settles("no vector", con.execute("insert into items (v) values ($1)", ["x", 1, 2]))
    statement = await con.prepare("select v, $1::vector <=> v from items where id = 1")
    stage.see("prepared", str(await statement.fetchrow([3, 2, 1])))
    stage.see("attributes", [(it.name, it.type.name) for it in statement.get_attributes()])
    await con.close()


async def by_a_pool(stage: Any) -> None:
    con = await asyncpg.connect(stage.url)
    await con.execute(CREATE)
    await con.close()
    async with asyncpg.create_pool(stage.url, min_size=1, max_size=3, init=register_vector) as pool:
        for n in range(5):
            await pool.execute("insert into items (v) values ($1)", np.array([n, n, n]))
        rows = await pool.fetch("select v from items order by v <-> $1 limit 2", [4, 4, 4])
        stage.see("rows", [row["v"].to_list() for row in rows])
        async with pool.acquire() as con, con.transaction():
            async for row in con.cursor("select v from items order by id", prefetch=2):
                stage.see("cursor", row["v"].to_list())


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "sa_items"
    id: Mapped[int] = mapped_column(primary_key=True)
    v: Mapped[Any] = mapped_column(VECTOR(3))
    h: Mapped[Any] = mapped_column(HALFVEC(3), nullable=True)
    s: Mapped[Any] = mapped_column(SPARSEVEC(3), nullable=True)
    b: Mapped[Any] = mapped_column(BIT(3), nullable=True)
    __table_args__ = (
        sa.Index("near", "v", postgresql_using="hnsw", postgresql_ops={"v": "vector_l2_ops"}),
    )


async def by_sqlalchemy(stage: Any) -> None:
    engine = create_async_engine(stage.database_url)

    @sa.event.listens_for(engine.sync_engine, "connect")
    def connect(con: Any, _: Any) -> None:
        con.run_async(register_vector)

    plain = create_async_engine(stage.database_url)
    async with plain.begin() as con:
        await con.execute(sa.text("create extension if not exists vector"))
    for label, engine in (("as texts", plain), ("by codecs", engine)):
        async with engine.begin() as con:
            await con.run_sync(Base.metadata.drop_all)
            await con.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as session:
            session.add(Item(v=[1, 2, 3], h=[1, 2, 3], s=SparseVector([1, 0, 2])))
            session.add_all([Item(v=np.array([n, 0, 0])) for n in range(10)])
            await stage.settles(label, session.commit())
            nearest = sa.select(Item.id, Item.v).order_by(Item.v.l2_distance([1, 2, 3]), Item.id)
            try:
                rows = (await session.execute(nearest.limit(3))).all()
                stage.see(f"{label}: nearest", [[row.id, str(row.v)] for row in rows])
                stage.see(f"{label}: avg", str(await session.scalar(sa.select(avg(Item.v)))))
            except Exception as error:
                stage.see(f"{label}: nearest", error)
        await engine.dispose()
