"""arq: jobs, their results, retries, timeouts, aborts, cron, several workers, a burst of many."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

from arq import create_pool, cron, func
from arq.connections import ArqRedis, RedisSettings
from arq.constants import default_queue_name
from arq.jobs import Job
from arq.worker import Retry, Worker


async def add(ctx: dict[str, Any], a: int, b: int) -> int:
    return a + b


async def again(ctx: dict[str, Any], times: int) -> str:
    ctx["redis"].tries.append(ctx["job_try"])
    if ctx["job_try"] < times:
        raise Retry(defer=0.01)
    return f"try {ctx['job_try']}"


async def fails(ctx: dict[str, Any]) -> None:
    raise ValueError("it fails")


async def slow(ctx: dict[str, Any]) -> None:
    await asyncio.sleep(30)


async def more(ctx: dict[str, Any], n: int) -> int:
    if n:
        await ctx["redis"].enqueue_job("more", n - 1, _job_id=f"more {n - 1}")
    return n


async def tick(ctx: dict[str, Any]) -> str:
    return "tick"


FUNCTIONS = [
    add, func(again, max_tries=3), fails, func(slow, timeout=0.2), more,
    func(slow, name="abortable", timeout=30),
]


async def _begin(stage: Any) -> ArqRedis:
    redis = await create_pool(RedisSettings.from_dsn(stage.redis))
    await redis.flushdb()
    redis.tries = []
    return redis


def _worker(redis: ArqRedis, **settings: Any) -> Worker:
    given = {"functions": FUNCTIONS, "redis_pool": redis, "burst": True, "poll_delay": 0.01,
             "handle_signals": False, "keep_result": 60}
    return Worker(**given | settings)


def _ended(worker: Worker) -> list[int]:
    return [worker.jobs_complete, worker.jobs_retried, worker.jobs_failed]


async def _close(redis: ArqRedis) -> None:
    await redis.flushdb()
    await redis.aclose(close_connection_pool=True)


async def jobs_and_results(stage: Any) -> None:
    redis = await _begin(stage)
    jobs = {
        "add": await redis.enqueue_job("add", 1, b=2, _job_id="add"),
        "again": await redis.enqueue_job("again", 3, _job_id="again"),
        "too often": await redis.enqueue_job("again", 9, _job_id="too often"),
        "fails": await redis.enqueue_job("fails", _job_id="fails"),
        "slow": await redis.enqueue_job("slow", _job_id="slow"),
        "unknown": await redis.enqueue_job("unknown", _job_id="unknown"),
        "more": await redis.enqueue_job("more", 3, _job_id="more 3"),
    }
    stage.see("the same again", await redis.enqueue_job("add", 5, 5, _job_id="add"))
    queued = await redis.queued_jobs()
    stage.see("queued", sorted([it.job_id, it.function, it.args, it.kwargs] for it in queued))
    stage.see("status", [(await job.status()).value for job in jobs.values()])
    info = await jobs["add"].info()
    stage.see("info", [info.function, list(info.args), info.kwargs, info.job_try])
    jobs["later"] = await redis.enqueue_job("add", 2, 2, _job_id="later", _defer_by=0.1)
    jobs["expired"] = await redis.enqueue_job("add", 1, 1, _job_id="expired", _expires=0.001)
    while await redis.exists("arq:job:expired"):
        pass
    worker = _worker(redis)
    await worker.main()
    stage.see("ended", _ended(worker))
    stage.see("tries", sorted(redis.tries))
    for name, job in jobs.items():
        await stage.settles(name, job.result(timeout=1, poll_delay=0.01))
        told = await job.result_info()
        stage.see(f"{name}: info", told and [told.success, told.job_try, told.function])
    stage.see("status at last", [(await job.status()).value for job in jobs.values()])
    results = await redis.all_job_results()
    stage.see("results", sorted([it.job_id, it.success] for it in results))
    stage.see("left", [await redis.zcard(default_queue_name), await redis.keys("arq:in-progress*")])
    await stage.settles("no such job", Job("nothing", redis).result(timeout=0.1))
    await worker.close()


async def aborts(stage: Any) -> None:
    redis = await _begin(stage)
    worker = _worker(redis, burst=False, allow_abort_jobs=True)
    running = asyncio.create_task(worker.async_run())
    job = await redis.enqueue_job("abortable", _job_id="abortable")
    while (await job.status()).value != "in_progress":
        await asyncio.sleep(0.005)
    stage.see("aborted", await job.abort(timeout=5, poll_delay=0.01))
    await stage.settles("its result", job.result(timeout=1, poll_delay=0.01))
    waiting = await redis.enqueue_job("abortable", _job_id="waits", _defer_by=60)
    stage.see("aborted before it ran", await waiting.abort(timeout=5, poll_delay=0.01))
    done = await redis.enqueue_job("add", 1, 1, _job_id="done")
    stage.see("done", await done.result(timeout=5, poll_delay=0.01))
    stage.see("too late", await done.abort(timeout=5, poll_delay=0.01))
    stage.see("ended", _ended(worker))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await worker.close()


async def crons(stage: Any) -> None:
    redis = await _begin(stage)
    jobs = [cron(tick, microsecond=None, second=None, minute=None, run_at_startup=True)]
    worker = _worker(redis, functions=[], cron_jobs=jobs, burst=False)
    running = asyncio.create_task(worker.async_run())
    while worker.jobs_complete < 1:
        await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    results = await redis.all_job_results()
    stage.see("results", [[it.function, it.result] for it in results[:1]])
    stage.see("health", (await redis.get(worker.health_check_key) or b"").split()[-4:-3])
    await worker.close()


async def a_burst_on_several_workers(stage: Any) -> None:
    redis = await _begin(stage)
    made = await asyncio.gather(*(redis.enqueue_job("add", n, 1) for n in range(200)))
    workers = [_worker(redis, max_jobs=5) for _ in range(3)]
    await asyncio.gather(*(worker.main() for worker in workers))
    stage.see("complete", sum(worker.jobs_complete for worker in workers))
    results = await asyncio.gather(*(job.result(timeout=5, poll_delay=0.01) for job in made))
    stage.see("results", sorted(results) == list(range(1, 201)))
    both = await asyncio.gather(*(redis.enqueue_job("add", 1, 1, _job_id="one") for _ in range(20)))
    stage.see("one of them", sum(it is not None for it in both))
    at = datetime.datetime.now() + datetime.timedelta(hours=1)
    await redis.enqueue_job("add", 1, 1, _job_id="in an hour", _defer_until=at)
    (later,) = [it for it in await redis.queued_jobs() if it.job_id == "in an hour"]
    stage.see("score", abs(later.score / 1000 - at.timestamp()) < 2)
    await _close(redis)
