// Tasks that write numbered rows over the modern face, in every way that it has, for the row failover. What it is told
// and what it prints stands in proof/chaos/src/failover/guests.rs.
'use strict'

const path = require('node:path')
const { Readable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const { setTimeout: pause } = require('node:timers/promises')

const { postgres } = require(path.join(__dirname, '../../../../faces/node/lib/modern'))

const [url, name, tasks, pauseMs, seed] = process.argv.slice(2)
const sql = postgres({ url, connectionsMax: 8, types: { int8: Number } })
const table = sql.id(name)

let isOver = false
let next = 0

/** Rows that stand or fall together. */
class Unit {
  constructor(way, task, count = 1) {
    this.way = way
    this.task = task
    this.numbers = Array.from({ length: count }, () => next++)
    this.began = micros()
  }

  /** Ends with what the result says of it. */
  async settle(result) {
    try {
      await result
      this.end('Acknowledged')
    } catch (error) {
      this.failed(error)
    }
  }

  failed(error) {
    if (error instanceof Undone) return this.end('RolledBack')
    this.end(error.outcome, `${error.code} ${error.message}`)
  }

  end(claim, said = '') {
    const { way, task, numbers, began } = this
    const fields = [way, task, numbers[0], numbers.length, began, micros(), claim, said.replaceAll('\t', ' ')]
    console.log(fields.join('\t'))
  }

  /** A row whose reply must be its own. */
  async insert(tag, at = 0, fine = true) {
    const n = this.numbers[at]
    const query = tag`insert into ${table} (n, fine) values (${n}::bigint, ${fine}) returning n`
    this.expect(await query.send(), n)
  }

  expect(rows, n) {
    if (rows.length !== 1 || rows[0].n !== n) console.log(`${this.way} got ${JSON.stringify(rows)} for ${n}`)
  }
}

/** Why a transaction is rolled back. */
class Undone extends Error {}

/** Writes once, in some way. Now and then the last row is refused, and with it those of its unit. */
const WAYS = [
  async function singles(task) {
    const units = Array.from({ length: 1 + below(5) }, () => new Unit('single', task))
    await Promise.all(units.map((unit) => unit.settle(unit.insert(sql, 0, isFine()))))
  },
  async function session(task) {
    const units = Array.from({ length: 1 + below(4) }, () => new Unit('statement of a session', task))
    let session
    try {
      session = await sql.session()
    } catch (error) {
      return units.forEach((unit) => unit.failed(error))
    }
    const ended = units.map((unit) => unit.settle(unit.insert(session, 0, isFine())))
    // What was submitted still runs.
    if (below(4) === 0) session.release()
    await Promise.all(ended)
    session.release()
  },
  async function together(task) {
    const unit = new Unit('pipeline', task, 2 + below(7))
    const fine = isFine()
    const made = unit.numbers.map((n, at) => {
      const stands = fine || at + 1 < unit.numbers.length
      return sql`insert into ${table} (n, fine) values (${n}::bigint, ${stands}) returning n`
    })
    const read = (all) => unit.numbers.forEach((n, at) => unit.expect(all[at], n))
    await unit.settle(sql.pipeline(made).then(read))
  },
  async function transaction(task) {
    const unit = new Unit('transaction', task, 1 + below(4))
    const [fine, isUndone] = [isFine(), below(6) === 0]
    const rows = async (tx) => {
      for (let at = 0; at < unit.numbers.length; at++) {
        await unit.insert(tx, at, fine || at + 1 < unit.numbers.length)
      }
      if (isUndone) throw new Undone('on purpose')
    }
    await unit.settle(sql.begin(rows))
  },
  async function transactionAtOnce(task) {
    const unit = new Unit('transaction of one trip', task, 1 + below(4))
    const fine = isFine()
    const made = (tx) =>
      unit.numbers.map((n, at) => {
        const stands = fine || at + 1 < unit.numbers.length
        return tx`insert into ${table} (n, fine) values (${n}::bigint, ${stands})`
      })
    await unit.settle(sql.begin(made))
  },
  async function copy(task) {
    const unit = new Unit('COPY', task, 2 + below(30))
    const fine = isFine()
    const lines = unit.numbers.map((n, at) => `${n}\t${fine || at > 0 ? 't' : 'f'}\n`)
    await unit.settle(pipeline(Readable.from(lines), sql.copyFrom`copy ${table} (n, fine) from stdin`))
  },
]

async function write(task) {
  while (!isOver) {
    await WAYS[below(WAYS.length)](task)
    await pause(below(Number(pauseMs) + 1))
  }
}

async function main() {
  process.stdin.on('end', () => (isOver = true)).resume()
  await Promise.all(Array.from({ length: Number(tasks) }, (_, task) => write(task)))
  await sql.end()
  console.log('done')
}

function isFine() {
  return below(8) > 0
}

/** Numbers from the seed (mulberry32). */
let state = Number(BigInt(seed) & 0xffffffffn)
function below(limit) {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) % limit
}

function micros() {
  return Math.round((performance.timeOrigin + performance.now()) * 1000)
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
