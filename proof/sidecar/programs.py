"""Programs as people write them. Each is run in a process of its own: `programs.py NAME UNITS`."""

import asyncio
import os
import sys

URL = os.environ["DATABASE_URL"]


def psycopg_nested(units):
    import psycopg

    db = psycopg.connect(URL, autocommit=True, prepare_threshold=None)
    for _ in range(units):
        with db.transaction():
            db.execute("update kv set v = v + 1 where k = %s", (1,))
            with db.transaction():
                db.execute("update kv set v = v + 1 where k = %s", (2,))


def psycopg_prepared(units):
    import psycopg

    db = psycopg.connect(URL, autocommit=True, prepare_threshold=0)
    for unit in range(units):
        db.execute(f"select v + {unit} from kv where k = %s", (1,))


def psycopg_cursor(units):
    import psycopg

    db = psycopg.connect(URL, autocommit=True)
    for _ in range(units):
        with db.cursor("rows", withhold=True) as rows:
            rows.execute("select k from kv")
            rows.fetchmany(100)
            rows.fetchmany(100)


def psycopg_pipeline(units):
    import psycopg

    db = psycopg.connect(URL, autocommit=True, prepare_threshold=None)
    for _ in range(units):
        with db.pipeline():
            db.execute("begin")
            for key in (1, 2, 3):
                db.execute("update kv set v = v + 1 where k = %s", (key,))
            db.execute("commit")


def psycopg2_transaction(units):
    import psycopg2

    db = psycopg2.connect(URL)
    for _ in range(units):
        with db, db.cursor() as cursor:
            for key in (1, 2):
                cursor.execute("select v from kv where k = %s", (key,))
                cursor.fetchall()
            for key in (1, 2, 3):
                cursor.execute("update kv set v = v + 1 where k = %s", (key,))


def sqlalchemy_reads(units, **settings):
    import sqlalchemy

    url = URL.replace("postgres://", "postgresql+psycopg2://")
    engine = sqlalchemy.create_engine(url, **settings)
    engine.connect().close()
    for _ in range(units):
        with engine.connect() as db:
            for key in (1, 2):
                db.execute(sqlalchemy.text(f"select v from kv where k = {key}")).all()


def sqlalchemy_pings(units):
    sqlalchemy_reads(units, pool_pre_ping=True)


def asyncpg_pool(units):
    import asyncpg

    async def unit(pool):
        async with pool.acquire() as db, db.transaction():
            for key in (1, 2):
                await db.fetch("select v from kv where k = $1", key)
            for key in (1, 2, 3):
                await db.execute("update kv set v = v + 1 where k = $1", key)

    async def main():
        async with asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
            await unit(pool)
            for _ in range(units):
                await unit(pool)

    asyncio.run(main())


def django_atomic(units):
    import django
    from django.conf import settings
    from django.db import connection, transaction
    from urllib.parse import unquote, urlsplit

    url = urlsplit(URL)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": url.username,
        "PASSWORD": unquote(url.password),
        "HOST": url.hostname,
        "PORT": url.port,
        "CONN_MAX_AGE": None,
    }
    settings.configure(DATABASES={"default": database})
    django.setup()
    connection.ensure_connection()
    for _ in range(units):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("update kv set v = v + 1 where k = 1")
            with transaction.atomic():
                cursor.execute("update kv set v = v + 1 where k = 2")


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
