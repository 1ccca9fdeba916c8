'use strict'
// Times the same small programs with pg and with onetrip, on a server some milliseconds away. Run by
// `make demo`, which starts the servers and passes their addresses.

const { spawn } = require('node:child_process')
const { performance } = require('node:perf_hooks')
const { createInterface } = require('node:readline')
const pg = require('pg')
const onetrip = require('../lib/index.js')
const dropIn = require('../lib/pg')

const RTT_MS = 10

/** The proxy: it delays by a round trip, and counts trips. */
class Line {
  static async to(url) {
    const { port } = new URL(url)
    const line = new Line()
    line.process = spawn(process.env.ONETRIP_DEMO_LINE, [port], { stdio: ['pipe', 'pipe', 'inherit'] })
    line.answers = createInterface({ input: line.process.stdout })[Symbol.asyncIterator]()
    line.url = url.replace(`:${port}`, `:${(await line.answers.next()).value}`)
    await line.say(`rtt ${RTT_MS}`)
    return line
  }

  async say(command) {
    this.process.stdin.write(`${command}\n`)
    return (await this.answers.next()).value
  }

  /**
   * The milliseconds of the shortest of three runs, since other programs use the machine as well,
   * and the trips of the last.
   */
  async measure(run) {
    let ms = Infinity
    let trips = 0
    for (let i = 0; i < 3; i++) {
      await this.say('trips')
      const start = performance.now()
      await run()
      ms = Math.min(ms, performance.now() - start)
      trips = Number(await this.say('trips'))
    }
    return { ms, trips }
  }

  close() {
    this.process.stdin.end()
  }
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
  const line = await Line.to(process.env.ONETRIP_TEST_POSTGRES)
  const { url } = line
  const peers = { pg: new pg.Client(url), 'onetrip/pg': new dropIn.Client(url) }
  const rows = []
  for (const client of Object.values(peers)) await client.connect()
  const [first] = Object.values(peers)
  await first.query(`drop table if exists demo_account;
    create table demo_account (id int primary key, balance int8 not null);
    insert into demo_account values (1, 1000), (2, 1000)`)

  const compare = async (what, before, after) => {
    rows.push([what, await line.measure(before), await line.measure(after)])
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

  line.close()
  const redisUrl = process.env.ONETRIP_TEST_REDIS
  print(rows, redisUrl === undefined ? undefined : await gets(redisUrl))
}

/** Of 100 GETs, one by one and at once. */
async function gets(url) {
  const line = await Line.to(url)
  const client = onetrip.redis(line.url)
  await client.set('demo', 'x')
  const oneByOne = await line.measure(async () => {
    for (let i = 0; i < 100; i++) await client.get('demo')
  })
  const atOnce = await line.measure(() => many(100, () => client.get('demo')))
  await client.del('demo')
  await client.close()
  line.close()
  return [oneByOne, atOnce]
}

function print(rows, redis) {
  const number = (it, width) => it.toFixed(0).padStart(width)
  const both = ({ ms, trips }) => `${number(ms, 10)}${number(trips, 7)}`
  console.log(`\nNode ${process.version}, a server ${RTT_MS} ms away. Milliseconds, the best of three, and trips:\n`)
  console.log(`${'what'.padEnd(52)}${'pg'.padStart(10)}${'trips'.padStart(7)}${'onetrip'.padStart(10)}${'trips'.padStart(7)}`)
  for (const [what, before, after] of rows) console.log(`${what.padEnd(52)}${both(before)}${both(after)}`)
  if (redis === undefined) {
    console.log('\nNo Redis or Valkey was found. Install redis-server to see its part of the demo.')
    return
  }
  const [oneByOne, atOnce] = redis.map(({ ms, trips }) => `${ms.toFixed(0)} ms in ${trips} trips`)
  console.log(`\n100 GETs of Redis: ${oneByOne} one by one, ${atOnce} at once.`)
}

if (process.env.ONETRIP_TEST_POSTGRES === undefined || process.env.ONETRIP_DEMO_LINE === undefined) {
  console.error('demo: ONETRIP_TEST_POSTGRES is not set: run `make demo`')
  process.exitCode = 2
} else {
  main().catch((error) => {
    console.error(`demo: ${error.message}`)
    process.exitCode = 1
  })
}
