"""channels_redis: both of its layers, with groups, expiry, capacity, processes and lost readers."""

from __future__ import annotations

import asyncio
from typing import Any

from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer


def _layer(stage: Any, **settings: Any) -> RedisChannelLayer:
    return RedisChannelLayer(hosts=[stage.redis], prefix=stage.name, **settings)


async def _within(call: Any, seconds: float = 0.3) -> Any:
    try:
        return await asyncio.wait_for(call, seconds)
    except asyncio.TimeoutError:
        return "nothing came"


async def messages(stage: Any) -> None:
    layer = _layer(stage)
    await layer.flush()
    for message in ({"type": "a", "n": 1, "data": [1.5, None, b"\0", "ü"]}, {"type": "b"}):
        await layer.send("one", message)
    stage.see("received", [await layer.receive("one") for _ in range(2)])
    stage.see("no more", await _within(layer.receive("one")))
    reader = asyncio.create_task(layer.receive("one"))
    await asyncio.sleep(0.05)
    await layer.send("one", {"type": "awaited"})
    stage.see("awaited", await _within(reader, 5))
    reader = asyncio.create_task(layer.receive("one"))
    await asyncio.sleep(0.05)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    await layer.send("one", {"type": "after a reader that left"})
    stage.see("not lost", await _within(layer.receive("one"), 5))
    mine = await layer.new_channel()
    other = await layer.new_channel()
    readers = [asyncio.create_task(layer.receive(name)) for name in (other, mine)]
    await layer.send(mine, {"type": "to mine"})
    await layer.send(other, {"type": "to other"})
    stage.see("of a process", [await _within(reader, 5) for reader in readers])
    await layer.send(mine, {"type": "before"})
    stage.see("kept", await _within(layer.receive(mine), 5))
    await stage.settles("bad name", layer.send("bad name!", {"type": "x"}))
    await stage.settles("no dict", layer.send("one", "x"))
    await layer.flush()
    await layer.close_pools()


async def groups(stage: Any) -> None:
    layer = _layer(stage)
    await layer.flush()
    names = ["chan-1", "chan-2", await layer.new_channel(), await layer.new_channel()]
    for name in names:
        await layer.group_add("room", name)
    await layer.group_add("room", names[0])
    await layer.group_discard("room", names[1])
    await layer.group_send("room", {"type": "hello", "n": 7})
    for place, name in enumerate(names):
        stage.see(f"member {place}", await _within(layer.receive(name)))
    await layer.group_discard("room", names[0])
    await layer.group_send("room", {"type": "again"})
    stage.see("no member", await _within(layer.receive(names[0])))
    stage.see("member", await _within(layer.receive(names[2])))
    await layer.group_send("empty", {"type": "to nobody"})

    async def talk(n: int) -> Any:
        name = await layer.new_channel()
        await layer.group_add(f"pair {n % 5}".replace(" ", "-"), name)
        await layer.group_send(f"pair {n % 5}".replace(" ", "-"), {"type": "t", "n": n})
        return (await _within(layer.receive(name), 5))["n"] % 5 == n % 5

    stage.see("all at once", await asyncio.gather(*(talk(n) for n in range(40))))
    await layer.flush()
    await layer.close_pools()


async def capacity_and_expiry(stage: Any) -> None:
    layer = _layer(stage, capacity=3, expiry=1, channel_capacity={"small*": 1})
    await layer.flush()
    sent = []
    for n in range(5):
        try:
            await layer.send("full", {"type": "x", "n": n})
            sent.append(n)
        except ChannelFull:
            sent.append("full")
    stage.see("sent", sent)
    await layer.send("small-1", {"type": "x"})
    await stage.settles("small", layer.send("small-1", {"type": "x"}))
    await layer.group_add("g", "full")
    await layer.group_send("g", {"type": "dropped, since it is full"})
    await asyncio.sleep(1.2)
    await layer.send("full", {"type": "fresh"})
    stage.see("the rest has expired", await _within(layer.receive("full")))
    stage.see("and no more", await _within(layer.receive("full")))
    await layer.flush()
    await layer.close_pools()


async def by_pubsub(stage: Any) -> None:
    layers = [RedisPubSubChannelLayer(hosts=[stage.redis], prefix=stage.name) for _ in range(2)]
    names = [await layer.new_channel() for layer in layers for _ in range(2)]
    of = [layers[0], layers[0], layers[1], layers[1]]
    await layers[0].send(names[2], {"type": "across", "data": b"\0\1"})
    stage.see("across", await _within(layers[1].receive(names[2]), 5))
    for name, layer in zip(names, of):
        await layer.group_add("room", name)
    await of[1].group_discard("room", names[1])
    await layers[1].group_send("room", {"type": "hello"})
    for place, (name, layer) in enumerate(zip(names, of)):
        stage.see(f"member {place}", await _within(layer.receive(name)))
    for n in range(50):
        await layers[1].group_send("room", {"type": "n", "n": n})
    got = [(await _within(layers[0].receive(names[0]), 5))["n"] for _ in range(50)]
    stage.see("in order", got == list(range(50)))
    for layer in layers:
        await layer.flush()
