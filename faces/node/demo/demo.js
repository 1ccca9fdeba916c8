'use strict'
// Times the same small programs with pg and with onetrip, on a server some milliseconds away. Run by
// `make demo`, which starts the servers and passes their addresses.

const { performance } = require('node:perf_hooks')
const pg = require('pg')
const onetrip = require('../lib/index.js')
const dropIn = require('../lib/pg')

const url = process.env.ONETRIP_TEST_POSTGRES
const redisUrl = process.env.ONETRIP_TEST_REDIS

/** The milliseconds of the shortest of three runs, since other programs use the machine as well. */
async function timed(run) {
  let best = Infinity
  for (let i = 0; i < 3; i++) {
    const start = performance.now()
    await run()
    best = Math.min(best, performance.now() - start)
  }
  return best
}

/** A transaction as an ORM runs it: each statement waits for the answer to the one before. */
async function transfer(client) {
  await client.query('begin')
  await client.query('update demo_account set balance = balance - $1 where id = $2', [1, 1])
  await client.query('update demo_account set balance = balance + $1 where id = $2', [1, 2])
  await client.query('commit')
}

const many = (count, run) => Promise.all(Array.from({ length: count }, (_, i) => run(i)))

async function main() {
  const peers = { pg: new pg.Client(url), 'onetrip/pg': new dropIn.Client(url) }
  const rows = []
  for (const client of Object.values(peers)) await client.connect()
  const [first] = Object.values(peers)
  await first.query(`drop table if exists demo_account;
    create table demo_account (id int primary key, balance int8 not null);
    insert into demo_account values (1, 1000), (2, 1000)`)
  const rtt = await timed(() => first.query('select 1'))

  const compare = async (what, before, after) => {
    rows.push([what, await timed(before), await timed(after)])
    console.error(`demo: ${what}`)
  }

  await compare('a transaction of an ORM: BEGIN, 2 updates, COMMIT', () => transfer(peers.pg), () => transfer(peers['onetrip/pg']))

  const pools = {
    pg: new pg.Pool({ connectionString: url, max: 10 }),
    shared: new dropIn.Pool({ connectionString: url, max: 10, pipeline: true }),
  }
  const read = (pool) => many(1000, (i) => pool.query('select balance from demo_account where id = $1', [1 + (i % 2)]))
  for (const pool of Object.values(pools)) await read(pool)
  await compare('1,000 queries at once over a pool of 10', () => read(pools.pg), () => read(pools.shared))

  const sql = onetrip.postgres(url)
  await sql`select 1`
  const amounts = Array.from({ length: 100 }, (_, i) => i % 3)
  await compare(
    '100 updates, all or nothing',
    async () => {
      await first.query('begin')
      for (const amount of amounts) await first.query('update demo_account set balance = balance + $1 where id = 1', [amount])
      await first.query('commit')
    },
    () => sql.pipeline(amounts.map((amount) => sql`update demo_account set balance = balance + ${amount} where id = 1`)),
  )
  await sql.end()
  for (const pool of Object.values(pools)) await pool.end()
  await first.query('drop table demo_account')
  for (const client of Object.values(peers)) await client.end()

  let redis
  if (redisUrl !== undefined) {
    const client = onetrip.redis(redisUrl)
    await client.set('demo', 'x')
    const onebyone = await timed(async () => {
      for (let i = 0; i < 100; i++) await client.get('demo')
    })
    const atOnce = await timed(() => many(100, () => client.get('demo')))
    await client.del('demo')
    await client.close()
    redis = [onebyone, atOnce]
  }
  print(rtt, rows, redis)
}

function print(rtt, rows, redis) {
  const number = (ms) => ms.toFixed(0).padStart(9)
  console.log(`\nNode ${process.version}, a server ${rtt.toFixed(1)} ms away. Milliseconds, the best of three:\n`)
  console.log(`${'what'.padEnd(52)}${'pg'.padStart(9)}${'onetrip'.padStart(9)}${'trips'.padStart(14)}`)
  for (const [what, before, after] of rows) {
    const trips = `${Math.round(before / rtt)} → ${Math.max(1, Math.round(after / rtt))}`
    console.log(`${what.padEnd(52)}${number(before)}${number(after)}${trips.padStart(14)}`)
  }
  if (redis === undefined) {
    console.log('\nNo Redis or Valkey was found. Install redis-server to see its part of the demo.')
    return
  }
  const [onebyone, atOnce] = redis
  console.log(`\n100 GETs of Redis: ${onebyone.toFixed(0)} ms one by one, ${atOnce.toFixed(0)} ms at once.`)
}

if (url === undefined) {
  console.error('demo: ONETRIP_TEST_POSTGRES is not set: run `make demo`')
  process.exitCode = 2
} else {
  main().catch((error) => {
    console.error(`demo: ${error.message}`)
    process.exitCode = 1
  })
}
