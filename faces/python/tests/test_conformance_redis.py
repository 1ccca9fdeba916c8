"""The cases of proof/conformance about Redis, natively and by the drop-in."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

import onetrip
import onetrip.redis

from conformance import Case, Json, cases_of
from conftest import REDIS

drop_in: Any = pytest.importorskip("onetrip.redis.asyncio")

_numbers = itertools.count()


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """The cases say nothing of loops: one is enough."""
    return asyncio.DefaultEventLoopPolicy()


class Native:
    """Bytes come as they are; a simple string can't be told from others."""

    def __init__(self, scope: Any) -> None:
        self._scope = scope
        self.subscription: Any = None

    def send(self, asked: Case) -> Awaitable[Any]:
        call: Any
        if "script" in asked:
            call = self._scope.call(asked["script"], asked.get("keys", ()), asked.get("args", ()))
        else:
            name, *args = map(argument, asked["command"])
            call = self._scope.command(str(name), *args)
        return call  # type: ignore[no-any-return]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Native]:
        async with self._scope.session() as session:
            yield Native(session)

    async def watch(self, keys: list[str]) -> None:
        await self._scope.watch(*keys)

    async def run(self, commands: list[Case], how: str) -> list[Any]:
        if how == "pipeline":
            calls = [self.send(asked) for asked in commands]
        else:
            async with self._scope.atomic() as tx:
                of = Native(tx)
                calls = [of.send(asked) for asked in commands]
        return await asyncio.gather(*calls, return_exceptions=True)

    def subscribe(self, channels: list[str]) -> AbstractAsyncContextManager[Any]:
        self.subscription = self._scope.subscribe(*channels)
        return self.subscription  # type: ignore[no-any-return]

    async def hear(self) -> list[Any]:
        message = await self.subscription.__anext__()
        return [message.channel, message.data.decode()]

    def reconnects(self) -> int:
        return int(self.subscription.reconnects)


class DropIn:
    def __init__(self, client: Any) -> None:
        self._client = client

    def send(self, asked: Case) -> Awaitable[Any]:
        if "script" in asked:
            keys = asked.get("keys", [])
            given = [*keys, *asked.get("args", [])]
            call: Awaitable[Any] = self._client.eval(asked["script"], len(keys), *given)
        else:
            call = self._client.execute_command(*map(argument, asked["command"]))
        return call

    async def run(self, commands: list[Case], how: str) -> list[Any]:
        async with self._client.pipeline(transaction=how == "atomic") as pipeline:
            for asked in commands:
                pipeline.execute_command(*map(argument, asked["command"]))
            return await pipeline.execute(raise_on_error=False)  # type: ignore[no-any-return]


def argument(given: Json) -> str | bytes:
    return base64.b64decode(given["base64"]) if isinstance(given, dict) else str(given)


def on_key(case: Case) -> Case:
    key = f"{{conformance:py:{os.getpid()}:{next(_numbers)}}}"
    placed: Case = json.loads(json.dumps(case).replace("{k}", key))
    return placed


def as_json(value: Any, like: Json) -> Json:
    """A reply in the form of the cases. ``like`` tells simple strings from others, which have one
    type here."""
    # The drop-in, as redis-py, makes a boolean of an OK.
    if like == {"ok": True} and (value == "OK" or value is True):
        return like
    if like == {"pong": True} and (value == "PONG" or value is True):
        return like
    if isinstance(value, bytes):
        if like in ({"ok": True}, {"pong": True}) and value in (b"OK", b"PONG"):
            return like
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [as_json(one, None) for one in value]
    if isinstance(value, (set, frozenset)):
        wanted = like.get("set", []) if isinstance(like, dict) else []
        items = [as_json(one, None) for one in value]
        return {"set": sorted(items, key=lambda one: wanted.index(one) if one in wanted else -1)}
    if isinstance(value, dict):
        return {"map": {as_json(key, None): as_json(one, None) for key, one in value.items()}}
    return value


def check(asked: Case, came: Any) -> None:
    told = f"{asked.get('command', 'a script')}: {came!r}"
    if asked.get("error") is None and "outcome" not in asked:
        if isinstance(came, BaseException):
            raise came
        wanted = asked.get("reply")
        assert wanted == "any" or as_json(came, wanted) == wanted, told
        return
    # The drop-in's error is redis-py's, and ours is its cause.
    ours = came if isinstance(came, onetrip.Error) else getattr(came, "__cause__", None)
    assert isinstance(ours, onetrip.Error), told
    if isinstance(code := asked.get("code", asked.get("error")), str):
        assert ours.code == code, told
    assert ours.outcome == asked.get("outcome", ours.outcome), told


async def answer(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except Exception as error:
        return error


async def refused(work: Awaitable[list[Any]], expected: Case) -> None:
    with pytest.raises(Exception) as caught:
        await work
    check({"command": "the list", "error": None, **expected}, caught.value)


async def checked(work: Awaitable[list[Any]], commands: list[Case], expected: Any) -> None:
    if expected:
        return await refused(work, expected if isinstance(expected, dict) else {})
    for asked, came in zip(commands, await work):
        check(asked, came)


@asynccontextmanager
async def opened(face: str) -> AsyncIterator[Any]:
    if not REDIS:
        pytest.skip("no Redis was found")
    if face == "native":
        async with onetrip.redis.connect(REDIS) as client:
            yield Native(client.bytes)
    else:
        async with drop_in.Redis.from_url(REDIS) as client:
            yield DropIn(client)


COMMANDS = [
    pytest.param(face, case, how, id=f"{case['name']}, {how}, {face}")
    for case in cases_of("redis_commands.json")
    for how in case["how"]
    for face in ("native", "drop-in")
]


@pytest.mark.parametrize(("face", "case", "how"), COMMANDS)
async def test_commands(face: str, case: Case, how: str) -> None:
    case = on_key(case)
    async with opened(face) as at:
        if "needs" in case:
            known = await at.send({"command": ["COMMAND INFO", case["needs"]]})
            if not known or known == [None]:
                # What a server that lacks it answers is held instead.
                told = await answer(at.send({"command": [case["needs"], "k", "v"]}))
                assert "unknown command" in str(told)
                return
        if how == "one by one":
            for asked in case["commands"]:
                check(asked, await answer(at.send(asked)))
        else:
            is_refused = {"outcome": "Rejected"} if case.get("refused") else None
            await checked(at.run(case["commands"], how), case["commands"], is_refused)
        for asked in case.get("then", ()):
            check(asked, await answer(at.send(asked)))


#: Cases that differ, and why. They have to fail.
LACKS = {
    "a pipeline refuses what changes its connection": (
        "commands share trips by themselves: the refused one fails in its place, the others run"
    ),
}


class Run:
    """One run of a policy."""

    def __init__(self, client: Native, other: Native) -> None:
        self.client, self.other = client, other

    async def steps(self, at: Native, steps: list[Case]) -> None:
        for step in steps:
            await self.step(self.other if step.get("on") == "other" else at, step)

    async def step(self, at: Native, step: Case) -> None:
        if "command" in step or "script" in step:
            check(step, await answer(at.send(step)))
        elif "session" in step:
            async with self.client.session() as session:
                await self.steps(session, step["session"])
        elif "watch" in step:
            await at.watch(step["watch"])
        elif "pipeline" in step or "atomic" in step:
            how = "pipeline" if "pipeline" in step else "atomic"
            await checked(at.run(step[how], how), step[how], step.get("refused"))
        elif "together" in step:
            calls = [asyncio.ensure_future(answer(at.send(asked))) for asked in step["together"]]
            await asyncio.sleep(0)
            await self.steps(at, step.get("meanwhile", []))
            for asked, call in zip(step["together"], calls):
                check(asked, await call)
        elif "subscribe" in step:
            async with self.client.subscribe(step["subscribe"]):
                await self.steps(at, step["steps"])
        elif "hear" in step:
            assert await self.client.hear() == step["hear"]
        elif "reconnects" in step:
            assert self.client.reconnects() == step["reconnects"]
        else:
            asked = step["until"]
            to = self.other if asked.get("on") == "other" else at
            while as_json(await answer(to.send(asked)), asked["reply"]) != asked["reply"]:
                await asyncio.sleep(0)


POLICIES = [
    pytest.param(
        case,
        id=case["name"],
        marks=[pytest.mark.xfail(reason=LACKS[case["name"]], strict=True)]
        if case["name"] in LACKS
        else [],
    )
    for case in cases_of("redis_policies.json")
]


@pytest.mark.parametrize("case", POLICIES)
async def test_policy(case: Case) -> None:
    case = on_key(case)
    async with opened("native") as client, opened("native") as other:
        work = Run(client, other).steps(client, case["steps"])
        await asyncio.wait_for(work, 600)
