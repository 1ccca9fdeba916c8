import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Condition, PoolCause } from '../src/engine/exports'
import { PoolAdapter, type Borrower, type Opener } from '../src/engine/pool-adapter'
import { memory } from '../src/engine/memory'

/** Opens echo connections, which are always idle. */
class Echoes implements Opener {
  adapter!: PoolAdapter
  readonly opened: number[] = []
  readonly over: Promise<void>
  closedOnes: number[] = []
  #end!: () => void

  constructor() {
    this.over = new Promise((resolve) => (this.#end = resolve))
  }

  open(connection: number): void {
    this.opened.push(connection)
    this.adapter.opened(connection, memory.engine.onetrip_echo_new())
  }

  reset(): void {}

  close(connection: number): void {
    this.closedOnes.push(connection)
  }

  closed(): void {
    this.#end()
  }
}

function begin(settings: [string, string | number][]): { adapter: PoolAdapter; echoes: Echoes } {
  const echoes = new Echoes()
  const adapter = new PoolAdapter(settings, echoes)
  echoes.adapter = adapter
  return { adapter, echoes }
}

/** Waits for a connection. */
function borrow(adapter: PoolAdapter, timeout = Infinity): Promise<number> {
  return new Promise((resolve, reject) => {
    const borrower: Borrower = { served: resolve, failed: reject }
    adapter.checkout(borrower, timeout)
  })
}

test('callers get connections that are opened for them, up to the limit, in their order', async () => {
  const { adapter, echoes } = begin([['connections_max', 2]])
  const first = await borrow(adapter)
  const second = await borrow(adapter)
  const order: string[] = []
  const third = borrow(adapter).then(() => order.push('third'))
  const fourth = borrow(adapter).then(() => order.push('fourth'))
  assert.deepEqual([adapter.connections, adapter.waiting], [2, 2])
  adapter.release(second, Condition.CLEAN)
  await third
  adapter.release(first, Condition.CLEAN)
  await fourth
  assert.deepEqual(order, ['third', 'fourth'])
  assert.equal(echoes.opened.length, 2)
})

test('a caller whose deadline has passed is refused, and one that gave up is told nothing', async () => {
  const { adapter } = begin([['connections_max', 1]])
  const mine = await borrow(adapter)
  const token = adapter.checkout(
    { served: () => assert.fail('served'), failed: () => assert.fail('failed') },
    Infinity,
  )
  assert.equal(adapter.giveUp(token), true)
  assert.equal(adapter.giveUp(token), false)
  await assert.rejects(borrow(adapter, 5), (cause) => cause === PoolCause.DEADLINE)
  adapter.release(mine, Condition.CLEAN)
  assert.equal(await borrow(adapter), mine)
})

test('a closed pool refuses callers, and has ended when all connections are back', async () => {
  const { adapter, echoes } = begin([])
  const mine = await borrow(adapter)
  adapter.close()
  await assert.rejects(borrow(adapter), (cause) => cause === PoolCause.CLOSED)
  adapter.release(mine, Condition.CLEAN)
  await echoes.over
  assert.deepEqual(echoes.closedOnes, [mine])
  adapter.free()
})

test('a broken connection is replaced', async () => {
  const { adapter, echoes } = begin([['connections_max', 1], ['backoff_min_ms', 1]])
  const mine = await borrow(adapter)
  adapter.release(mine, Condition.BROKEN)
  const next = await borrow(adapter)
  assert.notEqual(next, mine)
  assert.equal(echoes.opened.length, 2)
})

test('settings that are wrong are an error at once', () => {
  const before = memory.handles.size
  assert.throws(() => begin([['nonsense', 1]]), /nonsense/)
  assert.equal(memory.handles.size, before)
})

test('connections_min connections are opened without a caller', async () => {
  const { adapter, echoes } = begin([['connections_min', 2]])
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual([echoes.opened.length, adapter.connections], [2, 2])
})
