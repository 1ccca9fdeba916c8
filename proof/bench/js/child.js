// One client in a process of its own. It is told over standard input what to run, a line of JSON for each round, and
// says on standard output what that cost.
'use strict'

const { createInterface } = require('node:readline')

const { driver } = require('./drivers')
const works = require('./works')

/** A client is warm when it has run for so long: by then what runs often is compiled. */
const WARM_MS = 700

// So that a Date means the same in a column without a zone, whichever client writes it.
process.env.TZ = 'UTC'

async function main() {
  const task = JSON.parse(process.argv[2])
  const url = process.env.ONETRIP_BENCH_URL
  const { open, version } = driver(task.driver)
  const work = works[task.work]
  const client = await open(url, task)
  const reopen = (connections) => open(url, { ...task, connections })
  if (work.prepare) await work.prepare(client)
  if (task.warm !== false) await warm(work, client, task, reopen)
  say({ version })
  let first = 0
  for await (const line of createInterface({ input: process.stdin })) {
    const { operations } = JSON.parse(line)
    const sample = await measured(work, client, { ...task, operations, first }, reopen)
    first += operations
    const checksum = work.validate ? await work.validate(client) : sample.sum
    say({ wall: sample.wall, cpu: sample.cpu, operations, checksum, figures: work.figures?.() })
  }
  await client.close()
}

async function warm(work, client, task, reopen) {
  const end = Date.now() + WARM_MS
  let first = 0
  do {
    await work.run(client, { ...task, operations: task.warmth, first }, reopen)
    first += task.warmth
  } while (Date.now() < end)
}

/** Wall time in ns and the whole process's CPU time in µs. */
async function measured(work, client, round, reopen) {
  const cpuBefore = process.cpuUsage()
  const before = process.hrtime.bigint()
  const sum = await work.run(client, round, reopen)
  const wall = Number(process.hrtime.bigint() - before)
  const { user, system } = process.cpuUsage(cpuBefore)
  return { wall, cpu: user + system, sum }
}

function say(answer) {
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}

main().catch((error) => {
  console.error(`${process.argv[2]}: ${error.stack ?? error}`)
  process.exit(1)
})
