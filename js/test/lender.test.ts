import assert from 'node:assert/strict'
import { test } from 'node:test'

import { Condition, PoolCause } from '../src/engine/exports'
import { Lender, type Borrower, type Opener } from '../src/engine/lender'
import { memory } from '../src/engine/memory'

/** Opens echoes, which are always idle. */
class Echoes implements Opener {
  lender!: Lender
  readonly opened: number[] = []
  readonly over: Promise<void>
  closedOnes: number[] = []
  #end!: () => void

  constructor() {
    this.over = new Promise((resolve) => (this.#end = resolve))
  }

  open(connection: number): void {
    this.opened.push(connection)
    this.lender.opened(connection, memory.engine.onetrip_echo_new())
  }

  reset(): void {}

  close(connection: number): void {
    this.closedOnes.push(connection)
  }

  closed(): void {
    this.#end()
  }
}

function begin(settings: [string, string | number][]): { lender: Lender; echoes: Echoes } {
  const echoes = new Echoes()
  const lender = new Lender(settings, echoes)
  echoes.lender = lender
  return { lender, echoes }
}

/** Waits for a connection. */
function borrow(lender: Lender, timeout = Infinity): Promise<number> {
  return new Promise((resolve, reject) => {
    const borrower: Borrower = { served: resolve, failed: reject }
    lender.checkout(borrower, timeout)
  })
}

test('callers get connections that are opened for them, up to the limit, in their order', async () => {
  const { lender, echoes } = begin([['connections_max', 2]])
  const first = await borrow(lender)
  const second = await borrow(lender)
  const order: string[] = []
  const third = borrow(lender).then(() => order.push('third'))
  const fourth = borrow(lender).then(() => order.push('fourth'))
  assert.deepEqual([lender.connections, lender.waiting], [2, 2])
  lender.release(second, Condition.CLEAN)
  await third
  lender.release(first, Condition.CLEAN)
  await fourth
  assert.deepEqual(order, ['third', 'fourth'])
  assert.equal(echoes.opened.length, 2)
})

test('a caller whose time has passed is refused, and one that gave up hears nothing', async () => {
  const { lender } = begin([['connections_max', 1]])
  const mine = await borrow(lender)
  const token = lender.checkout(
    { served: () => assert.fail('served'), failed: () => assert.fail('failed') },
    Infinity,
  )
  assert.equal(lender.giveUp(token), true)
  assert.equal(lender.giveUp(token), false)
  await assert.rejects(borrow(lender, 5), (cause) => cause === PoolCause.DEADLINE)
  lender.release(mine, Condition.CLEAN)
  assert.equal(await borrow(lender), mine)
})

test('a closed pool refuses, and is over when all has come back', async () => {
  const { lender, echoes } = begin([])
  const mine = await borrow(lender)
  lender.close()
  await assert.rejects(borrow(lender), (cause) => cause === PoolCause.CLOSED)
  lender.release(mine, Condition.CLEAN)
  await echoes.over
  assert.deepEqual(echoes.closedOnes, [mine])
  lender.free()
})

test('a broken connection makes way for another', async () => {
  const { lender, echoes } = begin([['connections_max', 1], ['backoff_min_ms', 1]])
  const mine = await borrow(lender)
  lender.release(mine, Condition.BROKEN)
  const next = await borrow(lender)
  assert.notEqual(next, mine)
  assert.equal(echoes.opened.length, 2)
})

test('settings that are wrong are an error at once', () => {
  const before = memory.tenants.size
  assert.throws(() => begin([['nonsense', 1]]), /nonsense/)
  assert.equal(memory.tenants.size, before)
})

test('connections that are always to be there are opened before anybody asks', async () => {
  const { lender, echoes } = begin([['connections_min', 2]])
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual([echoes.opened.length, lender.connections], [2, 2])
})
