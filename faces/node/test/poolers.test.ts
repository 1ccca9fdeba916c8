// Behind PgBouncers of several versions, in transaction and in session mode, that ignore prepared
// statements. In transaction mode different clients use the same server connection in turn, so the
// names of their prepared statements must differ.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'

import { postgres } from '../src/modern'
import { Client, Pool, type Result, type Results } from '../src/pg'

const urls = (process.env['ONETRIP_TEST_POOLERS'] ?? '').split(' ').filter((url) => url !== '')
if (urls.length === 0) console.log('skipped: no PgBouncer was found')
const limits = { timeout: 600_000 }
const closing: (() => Promise<void>)[] = []
after(() => Promise.all(closing.map((close) => close())))

/** Each client has its own text, which looks the same to a cache that ignores numbers. */
const text = (client: number): string => `select ${client} as client, $1::int as number`

interface Row {
  client: number
  number: number
}

const rowOf = (results: Results): Row => (results as Result).rows[0] as unknown as Row

type Ask = (client: number, number: number) => Promise<Row | undefined>

/** Checks that each client gets its own rows, and no statement fails. */
async function holdAgainst(asks: readonly Ask[], rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const rows = await Promise.all(asks.map((ask, client) => ask(client, round)))
    rows.forEach((row, client) => assert.deepEqual({ ...row }, { client, number: round }))
  }
}

function pool(url: string, pipeline: boolean): Pool {
  const made = new Pool({ connectionString: url, max: 1, pipeline })
  closing.push(() => made.end())
  return made
}

for (const pipeline of [false, true]) {
  const how = pipeline ? ' that pipeline' : ''

  test(`pools${how} get their own rows behind a pooler that changes servers`, limits, async () => {
    for (const url of urls) {
      const pools = [0, 1, 2, 3].map(() => pool(url, pipeline))
      const ask = (it: Pool): Ask => async (client, number) =>
        rowOf(await it.query(text(client), [number]))
      await holdAgainst(pools.map(ask), 40)
    }
  })

  test(`transactions of pools${how} get their own rows there`, limits, async () => {
    for (const url of urls) {
      const pools = [0, 1, 2, 3].map(() => pool(url, pipeline))
      const ask = (it: Pool): Ask => async (client, number) => {
        const lent = await it.connect()
        await lent.query('begin')
        const answers = [1, 2, 3].map(() => lent.query(text(client), [number]))
        const [first, ...rest] = (await Promise.all(answers)).map(rowOf)
        await lent.query('commit')
        lent.release()
        for (const row of rest) assert.deepEqual(row, first)
        return first
      }
      await holdAgainst(pools.map(ask), 25)
    }
  })
}

test('clients get their own rows there', limits, async () => {
  for (const url of urls) {
    const clients = [0, 1, 2].map(() => new Client({ connectionString: url }))
    closing.push(...clients.map((it) => () => it.end()))
    await Promise.all(clients.map((it) => it.connect()))
    const ask = (it: Client): Ask => async (client, number) =>
      rowOf(await it.query(text(client), [number]))
    await holdAgainst(clients.map(ask), 40)
  }
})

test('clients of the modern face get their own rows there, in transactions too', limits, async () => {
  for (const url of urls) {
    const clients = [0, 1, 2].map(() => postgres({ url, connectionsMax: 1 }))
    closing.push(...clients.map((it) => () => it.end({ timeoutMs: 5000 })))
    const shared = clients.map((sql): Ask => async (client, number) => {
      const [row] = await sql<Row>`select ${client}::int as client, ${number}::int as number`
      return row
    })
    await holdAgainst(shared, 25)
    const own = clients.map(
      (sql): Ask => (client, number) =>
        sql.begin(async (tx) => {
          const [row] = await tx<Row>`select ${client}::int as client, ${number}::int as number`
          const [same] = await tx<Row>`select ${client}::int as client, ${number}::int as number`
          assert.deepEqual({ ...same }, { ...row })
          return row
        }),
    )
    await holdAgainst(own, 15)
  }
})
