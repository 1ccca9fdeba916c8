"""Reads on replicas: one primary and two standbys, which apply at once or with a delay."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from urllib.parse import urlsplit

import pytest

import onetrip
import onetrip.blocking
from onetrip import Position

from conftest import Line

PATIENCE = 60


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """One loop for all, since each test starts from what standbys have replayed."""
    return asyncio.DefaultEventLoopPolicy()


class Cluster:
    """Servers of its own, which end with its standard input."""

    def __init__(self) -> None:
        private = os.environ["ONETRIP_PRIVATE"]
        say = 'echo "$ONETRIP_TEST_POSTGRES $ONETRIP_TEST_STANDBY"; read -r line'
        self._process = subprocess.Popen(
            [private, "--standby", "--standby", "sh", "-c", say],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.primary, *self.standbys = self._process.stdout.readline().split()

    def url(self, settings: str) -> str:
        ports = [urlsplit(url).port for url in (self.primary, *self.standbys)]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return self.primary.replace(f"127.0.0.1:{ports[0]}", hosts) + "?" + settings

    def port(self) -> int:
        port = urlsplit(self.primary).port
        assert port is not None
        return port

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    if not cluster.standbys:
        cluster.close()
        pytest.skip("standbys say what they are from PostgreSQL 14 on")
    yield cluster
    cluster.close()


@pytest.fixture
async def db(cluster: Cluster) -> AsyncIterator[onetrip.Database]:
    """A client whose standbys serve reads, and a table ``t``."""
    async with onetrip.connect(cluster.url("reads=prefer_replica")) as db:
        await db.execute("create table if not exists t (n int)")
        await db.execute("truncate t")
        await in_use(db, cluster)
        yield db


async def until(is_so: Callable[[], Awaitable[object]]) -> None:
    """Waits for it, within bounds."""

    async def wait() -> None:
        while not await is_so():
            await asyncio.sleep(0)

    await asyncio.wait_for(wait(), PATIENCE)


async def in_use(db: onetrip.Database, cluster: Cluster) -> None:
    """Both standbys serve what was written so far."""
    ports: set[int] = set()

    async def is_so() -> bool:
        ports.add(await db.reads().fetchval("select inet_server_port() from t limit 0") or 0)
        ports.add(await db.reads().fetchval("select inet_server_port()"))
        return {urlsplit(url).port for url in cluster.standbys} <= ports

    await until(is_so)


async def delay(cluster: Cluster, late: str) -> None:
    """Both standbys apply a commit so late."""
    for url in cluster.standbys:
        async with onetrip.connect(url) as standby:
            await standby.execute(f"alter system set recovery_min_apply_delay = '{late}'")
            await standby.execute("select pg_reload_conf()")
            show = "select current_setting('recovery_min_apply_delay') = $1"
            await until(lambda: standby.fetchval(show, late))


async def of_execute(db: onetrip.Database, n: int) -> None:
    await db.execute("insert into t values ($1)", n)


async def of_function(db: onetrip.Database, n: int) -> None:
    # A text that looks like a read, and writes.
    await db.fetchval("with it as (insert into t values ($1) returning n) select n from it", n)


async def of_begin(db: onetrip.Database, n: int) -> None:
    async with db.begin() as tx:
        await tx.execute("insert into t values ($1)", n)


async def of_savepoint(db: onetrip.Database, n: int) -> None:
    async with db.begin() as tx:
        async with tx.begin() as inner:
            await inner.execute("insert into t values ($1)", n)


async def of_session(db: onetrip.Database, n: int) -> None:
    async with db.session() as session:
        await session.execute("insert into t values ($1)", n)
        assert await shown(db, n)


async def of_script(db: onetrip.Database, n: int) -> None:
    async with db.session() as session:
        await session.script(f"begin; insert into t values ({n}); commit")
        assert await shown(db, n)


async def of_pipeline(db: onetrip.Database, n: int) -> None:
    async with db.pipeline() as pipeline:
        written = pipeline.execute("insert into t values ($1)", n)
    await written


async def of_many(db: onetrip.Database, n: int) -> None:
    await db.executemany("insert into t values ($1)", [(n,)])


async def of_atomic(db: onetrip.Database, n: int) -> None:
    await db.batch("insert into t values ($1)", [(n,)]).atomic()


async def of_isolated(db: onetrip.Database, n: int) -> None:
    await db.batch("insert into t values ($1)", [(n,)]).isolated()


async def of_copy(db: onetrip.Database, n: int) -> None:
    await db.copy_in("copy t from stdin", f"{n}\n".encode())


async def of_copy_rows(db: onetrip.Database, n: int) -> None:
    await db.copy_rows("t", [(n,)])


async def of_run(db: onetrip.Database, n: int) -> None:
    async def work(tx: onetrip.Transaction) -> None:
        await tx.execute("insert into t values ($1)", n)

    await db.run(work)


WAYS = (
    of_execute,
    of_function,
    of_begin,
    of_savepoint,
    of_session,
    of_script,
    of_pipeline,
    of_many,
    of_atomic,
    of_isolated,
    of_copy,
    of_copy_rows,
    of_run,
)


async def shown(db: onetrip.Database, n: int) -> bool:
    return bool(await db.reads().fetchval("select count(*) > 0 from t where n = $1", n))


async def test_a_migration_is_read_as_it_is_on_replicas_too(
    db: onetrip.Database, cluster: Cluster
) -> None:
    text = "select * from migrated order by n"
    await db.execute("create table migrated (n int)")
    await db.execute("insert into migrated values (1)")

    async def has(width: int) -> bool:
        return {len(await db.reads().fetchrow(text)) for _ in range(8)} == {width}

    async with onetrip.connect(cluster.url("")) as other:
        for type_, value, told in [("inet", "10.0.0.1", "10.0.0.1"), ("int[]", "{1}", [1])]:
            await other.execute("alter table migrated drop if exists c")
            await until(lambda: has(1))
            await other.execute(f"alter table migrated add c {type_} default '{value}'")
            await until(lambda: has(2))
            for _ in range(20):
                assert tuple(await db.reads().fetchrow(text)) == (1, told)


@pytest.mark.parametrize("late", ["0", "10ms", "1s"])
async def test_every_way_of_writing_is_shown_by_the_next_read(
    db: onetrip.Database, cluster: Cluster, late: str
) -> None:
    await delay(cluster, late)
    rounds = 2 if late == "1s" else 8
    try:

        async def writer(way: Callable[[onetrip.Database, int], Awaitable[None]], of: int) -> int:
            stale = 0
            for n in range(of * 1000, of * 1000 + rounds):
                await way(db, n)
                stale += not await shown(db, n)
            return stale

        # Alone, and beside each other, which share connections and questions.
        stale = [await writer(way, of) for of, way in enumerate(WAYS)]
        stale += await asyncio.gather(*(writer(way, 100 + of) for of, way in enumerate(WAYS)))
        assert sum(stale) == 0
    finally:
        await delay(cluster, "0")


async def test_reads_go_to_replicas_once_they_have_replayed(
    db: onetrip.Database, cluster: Cluster
) -> None:
    await db.execute("insert into t values (1)")
    await in_use(db, cluster)
    # From here on nothing is written, so no read needs the primary.
    counts = [await db.reads().fetchval("select inet_server_port()") for _ in range(40)]
    assert cluster.port() not in counts
    rows = await db.reads().fetch("select n, $1::text as word from t", "a word")
    assert [tuple(row) for row in rows] == [(1, "a word")]
    row = await db.reads().fetchrow("select n from t", into=dict)
    assert row == {"n": 1}
    assert await db.reads().fetchval("select n, n + 1 from t", column=1) == 2


async def test_metrics_say_where_reads_went_and_how_each_replica_stands(
    db: onetrip.Database, cluster: Cluster
) -> None:
    await in_use(db, cluster)
    before = db.metrics()
    query = "select inet_server_port()"
    ports = [await db.reads().stale().fetchval(query) for _ in range(40)]
    after = db.metrics()
    on_primary = ports.count(cluster.port())
    assert after.reads.on_primary - before.reads.on_primary == on_primary
    assert after.reads.on_replicas - before.reads.on_replicas == 40 - on_primary
    assert len(after.replicas) == 3
    for was, replica in zip(before.replicas, after.replicas, strict=True):
        port = int(replica.server.split(":")[1])
        is_primary = port == cluster.port()
        assert replica.serves is not is_primary
        assert replica.pool.connections > 0 or is_primary
        assert replica.reads - was.reads == (0 if is_primary else ports.count(port))
        assert replica.lag is None or replica.lag >= 0
    await delay(cluster, "1s")
    try:
        # Where the position of a write is not known yet, its read goes to the primary unguarded.
        for _ in range(1000):
            await db.execute("insert into t values (1)")
            assert await db.reads().fetchval(query) == cluster.port()
            if db.metrics().reads.behind > after.reads.behind:
                break
    finally:
        await delay(cluster, "0")
    last = db.metrics()
    assert last.reads.behind > after.reads.behind
    assert last.reads.behind == sum(replica.behind for replica in last.replicas)
    assert last.reads.on_primary > after.reads.on_primary


async def test_a_position_is_a_token_for_another_client_and_waits_for_its_replica(
    db: onetrip.Database, cluster: Cluster
) -> None:
    await delay(cluster, "200ms")
    try:
        async with onetrip.connect(cluster.url("reads=replica")) as other:
            await until(lambda: served(other))
            for n in range(3):
                await db.execute("insert into t values ($1)", n)
                token = str(await db.position())
                position = Position(token)
                assert str(position) == token and position == Position(token)
                assert hash(position) == hash(Position(token))
                assert pickle.loads(pickle.dumps(position)) == position
                query = "select count(*) from t where n = $1"
                reads = other.reads().after(position).or_wait(PATIENCE)
                assert await reads.fetchval(query, n) == 1
    finally:
        await delay(cluster, "0")


async def served(db: onetrip.Database) -> bool:
    try:
        await db.reads().stale().or_wait(0).fetchval("select 1")
    except onetrip.Error as error:
        assert error.code == "no_replica"
        return False
    return True


async def test_a_column_that_was_added_is_no_error_behind_a_guard(cluster: Cluster) -> None:
    settings = "reads=prefer_replica&prepare_threshold=1&connections_max=1"
    async with onetrip.connect(cluster.url(settings)) as db:
        await db.execute("create table widened (n int)")
        await in_use(db, cluster)
        reads = db.reads()
        for columns in (1, 2):
            for n in range(10):
                # So that each read has a guard, on the connection that prepared it.
                await db.execute("insert into widened (n) values ($1)", n)
                rows = await reads.fetch("select * from widened")
                assert len(rows) == 10 * (columns - 1) + n + 1
                assert {len(row) for row in rows} == {columns}
            await db.execute("alter table widened add column if not exists m int")
        await db.execute("drop table widened")


async def test_a_read_right_behind_a_write_waits_for_its_position_and_no_longer(
    db: onetrip.Database, cluster: Cluster
) -> None:
    # The answer to the question for the position may come behind the write's.
    async with onetrip.connect(cluster.url("reads=replica")) as own:
        await until(lambda: served(own))
        reads = own.reads().or_wait(PATIENCE)
        for n in range(100, 150):
            await own.execute("insert into t values ($1)", n)
            assert await reads.fetchval("select count(*) from t where n = $1", n) == 1


def test_of_two_positions_the_one_of_the_later_timeline_covers_both() -> None:
    texts = ("1-1-20-be26c965", "1-1-30-943cbb75", "1-2-10-74c421d6")
    earlier, larger, later = (Position(text) for text in texts)
    assert earlier.max(larger) == larger.max(earlier) == larger
    assert larger.max(later) == later.max(larger) == later


def test_what_is_no_position_is_a_value_error() -> None:
    cut_short = "1-1-20-be26c96"
    for text in ("", "1-2", "x-1-1", "1-1-20", cut_short, "1-1-20-be26c965 "):
        with pytest.raises(ValueError, match="this is no position"):
            Position(text)


async def test_stale_reads_go_to_replicas_whatever_was_written(
    db: onetrip.Database, cluster: Cluster
) -> None:
    await delay(cluster, "1s")
    try:
        ports = set()
        for n in range(20):
            await db.execute("insert into t values ($1)", n)
            ports.add(await db.reads().stale().fetchval("select inet_server_port()"))
        assert cluster.port() not in ports
        assert await db.reads().fetchval("select count(*) from t") == 20
    finally:
        await delay(cluster, "0")


async def test_what_is_no_read_is_refused(db: onetrip.Database) -> None:
    for text in (
        "insert into t values (1)",
        "select n into other from t",
        "select n from t for update",
        "with it as (delete from t returning n) select n from it",
        "select 1; select 2",
        "begin",
    ):
        with pytest.raises(onetrip.Error) as refused:
            await db.reads().fetch(text)
        assert (refused.value.code, refused.value.outcome) == ("not_a_read", "NotSent"), text
    assert await db.fetchval("select count(*) from t") == 0


async def test_a_function_that_writes_fails_on_a_replica(db: onetrip.Database) -> None:
    write = "create or replace function writes() returns int language sql as "
    await db.execute(write + "'insert into t values (1) returning n'")

    async def has_failed() -> bool:
        try:
            await db.reads().fetchval("select writes()")
        except onetrip.PostgresError as error:
            assert error.sqlstate == "25006"
            return True
        # It was the primary's, since what was written before was not replayed.
        return False

    await until(has_failed)


async def test_reads_without_replicas_go_to_the_primary(cluster: Cluster) -> None:
    async with onetrip.connect(cluster.primary) as db:
        assert await db.reads().fetchval("select inet_server_port()") == cluster.port()
        position = await db.position()
        assert await db.reads().after(position).fetchval("select 1") == 1
    async with onetrip.connect(cluster.standbys[0]) as standby:
        with pytest.raises(onetrip.Error) as none:
            await standby.position()
        assert none.value.code == "no_position"


async def test_reads_for_replicas_alone_fail_where_there_is_none(cluster: Cluster) -> None:
    async with onetrip.connect(f"{cluster.primary}?reads=replica") as db:
        with pytest.raises(onetrip.Error) as failed:
            reads = db.reads().or_wait(0.05)
            await asyncio.wait_for(reads.fetchval("select 1"), PATIENCE)
        assert (failed.value.code, failed.value.outcome) == ("no_replica", "NotSent")
        assert await db.fetchval("select 1") == 1


async def test_a_read_that_is_cancelled_while_it_waits_is_over(cluster: Cluster) -> None:
    async with onetrip.connect(f"{cluster.primary}?reads=replica") as db:
        waiting = asyncio.ensure_future(db.reads().fetchval("select 1"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        left = asyncio.ensure_future(db.reads().fetchval("select 2"))
        await asyncio.sleep(0)
    with pytest.raises(onetrip.Error) as closed:
        await left
    assert closed.value.code == "closed"


def test_the_blocking_client_reads_from_replicas(cluster: Cluster) -> None:
    with onetrip.blocking.connect(cluster.url("reads=prefer_replica")) as db:
        db.execute("create table if not exists b (n int)")
        for n in range(50):
            db.execute("insert into b values ($1)", n)
            assert db.reads().fetchval("select max(n) from b") == n
        position = db.position()
        reads = db.reads().after(position).or_wait(PATIENCE)
        assert reads.fetchval("select count(*) from b") == 50
        ports = {db.reads().stale().fetchval("select inet_server_port()") for _ in range(20)}
        assert ports & {urlsplit(url).port for url in cluster.standbys}
        assert [row["n"] for row in db.reads().fetch("select n from b where n < 2")] == [0, 1]
        assert db.reads().fetchrow("select n from b where n = 3", into=tuple) == (3,)
        db.execute("drop table b")


async def test_the_primary_serves_while_replicas_are_down_and_they_come_back(
    cluster: Cluster,
) -> None:
    lines = [Line(url) for url in cluster.standbys]
    try:
        ports = {urlsplit(url).port: urlsplit(it.url).port for url, it in zip(cluster.standbys, lines)}
        url = cluster.url("reads=prefer_replica&connect_timeout=2")
        for port, of_line in ports.items():
            url = url.replace(f":{port}", f":{of_line}")
        async with onetrip.connect(url) as db:
            await db.execute("create table if not exists t (n int)")
            await in_use(db, cluster)
            for line in lines:
                line.say("down")

            async def is_primary() -> bool:
                try:
                    query = "select inet_server_port()"
                    return bool(await db.reads().fetchval(query) == cluster.port())
                except onetrip.ConnectionLostError as error:
                    # It was on its way there.
                    assert error.outcome == "Unknown"
                    return False

            await until(is_primary)
            for _ in range(20):
                assert await is_primary()
            for line in lines:
                line.say("up")
            await in_use(db, cluster)
    finally:
        for line in lines:
            line.close()


async def test_a_promoted_standby_serves_no_reads_and_moves_the_writes(
    db: onetrip.Database, cluster: Cluster
) -> None:
    """The last of this file: the cluster is not as it was behind it."""
    promoted = cluster.standbys[0]
    port = urlsplit(promoted).port
    async with onetrip.connect(promoted) as new:
        assert await new.fetchval("select pg_promote()")

    async def moved() -> bool:
        # Reads are what makes the client look at its servers.
        await db.reads().stale().fetchval("select 1")
        try:
            return bool(await db.fetchval("select inet_server_port()") == port)
        except onetrip.ConnectionLostError:
            # It was on its way to the former primary.
            return False

    await until(moved)
    for n in range(1000, 1050):
        await db.execute("insert into t values ($1)", n)
        assert await shown(db, n)
    ports = {await db.reads().stale().fetchval("select inet_server_port()") for _ in range(20)}
    assert cluster.port() not in ports
