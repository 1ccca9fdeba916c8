// pg-boss keeps queues of jobs in tables. It uses pool.query with values, texts that end with COMMIT,
// advisory locks and JSON.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'

import { Pool, type Result } from 'pg'
import PgBoss from 'pg-boss'

import type { Scenarios, Stage } from '../support/stage'

async function withBoss(
  { url, see }: Stage,
  run: (boss: PgBoss) => Promise<void>,
  options: PgBoss.ConstructorOptions = {},
): Promise<void> {
  const boss = new PgBoss({ connectionString: url, max: 5, supervise: false, schedule: false, ...options })
  boss.on('error', (error) => see('error of the boss', error))
  await boss.start()
  try {
    await run(boss)
  } finally {
    const stopped = once(boss, 'stopped')
    await boss.stop({ graceful: true, timeout: 5000, wait: true })
    await stopped
  }
}

/** A job without the fields that differ from run to run. */
function known(job: PgBoss.JobWithMetadata | null): unknown {
  if (job === null) return null
  const dates = Object.entries(job).filter(([, value]) => value instanceof Date).map(([key]) => key)
  return { ...job, ...Object.fromEntries(dates.map((key) => [key, 'a date'])), id: job.id.length }
}

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

async function lifeOfJobs(stage: Stage): Promise<void> {
  await withBoss(stage, async (boss) => {
    const { see, settles } = stage
    see('installed', [await boss.isInstalled(), await boss.schemaVersion()])
    await boss.createQueue('dead')
    await boss.createQueue('mail', { name: 'mail', retryLimit: 2, retryDelay: 0, deadLetter: 'dead' })
    await settles('again', boss.createQueue('mail'))
    await settles('queue', boss.getQueue('mail').then((queue) => ({ ...queue, createdOn: 0, updatedOn: 0 })))
    await settles('send', boss.send('mail', { to: 'ann', nested: { list: [1, null, 'ü'] } }, { priority: 3, id: idOf(1) }))
    await boss.send('mail', { to: 'bob' }, { id: idOf(2) })
    see('size', await boss.getQueueSize('mail'))
    const [first] = await boss.fetch<object>('mail', { includeMetadata: true })
    see('first', known(first as PgBoss.JobWithMetadata | undefined ?? null))
    await settles('complete', boss.complete('mail', idOf(1), { done: [true] }))
    see('completed', known(await boss.getJobById('mail', idOf(1))))
    const [second] = await boss.fetch<object>('mail')
    await settles('fail', boss.fail('mail', second!.id, { message: 'not now' }))
    const [retried] = await boss.fetch<object>('mail', { includeMetadata: true })
    see('retried', known(retried!))
    await boss.fail('mail', retried!.id, new Error('never') as never)
    const [last] = await boss.fetch('mail')
    await boss.fail('mail', last!.id, { why: 'still' })
    see('failed', known(await boss.getJobById('mail', idOf(2))))
    see('dead', (await boss.fetch('dead')).map(({ data }) => data))
    await settles('cancel', boss.send('mail', {}, { startAfter: 60, id: idOf(3) }).then(() => boss.cancel('mail', idOf(3))))
    await settles('nothing to fetch', boss.fetch('mail'))
    await settles('purge', boss.purgeQueue('mail'))
    await settles('no queue', boss.send('nowhere', {}))
    await settles('bad id', boss.complete('mail', 'x'))
    await settles('delete', boss.deleteQueue('mail'))
    see('queues', (await boss.getQueues()).map(({ name }) => name).sort())
  })
}

async function manyJobs(stage: Stage): Promise<void> {
  await withBoss(stage, async (boss) => {
    const { see } = stage
    await boss.createQueue('many')
    await boss.insert(Array.from({ length: 300 }, (_, n) => ({ name: 'many', data: { n } })))
    const ids = await Promise.all(Array.from({ length: 100 }, (_, n) => boss.send('many', { n: 300 + n })))
    see('sent', new Set(ids).size)
    const fetched = (await Promise.all(Array.from({ length: 40 }, () => boss.fetch<{ n: number }>('many', { batchSize: 10 })))).flat()
    see('each once', fetched.map(({ data }) => data.n).sort((a, b) => a - b))
    await boss.complete('many', fetched.map(({ id }) => id))
    see('left', await boss.getQueueSize('many'))
    see('singleton', (await Promise.all(Array.from({ length: 10 }, () => boss.send('many', {}, { singletonKey: 'one', singletonSeconds: 3000 })))).filter((id) => id !== null).length)
  })
}

async function workers(stage: Stage): Promise<void> {
  await withBoss(stage, async (boss) => {
    const { see } = stage
    await boss.createQueue('work', { name: 'work', retryLimit: 1, retryDelay: 0 })
    const seen: string[] = []
    const enough = new Promise<void>((resolve) => {
      void boss.work<{ n: number }>('work', { pollingIntervalSeconds: 0.5, batchSize: 1 }, async ([job]) => {
        seen.push(`${job?.data.n}`)
        if (seen.length === 4) resolve()
        if (job?.data.n === 2 && seen.filter((n) => n === '2').length === 1) throw new Error('once more')
        return { answer: job?.data.n }
      })
    })
    for (const n of [1, 2, 3]) await boss.send('work', { n })
    await enough
    see('worked', seen.sort())
    await boss.offWork('work')
  })
}

async function schedules(stage: Stage): Promise<void> {
  await withBoss(stage, async (boss) => {
    const { see, settles } = stage
    await boss.createQueue('clock')
    await boss.schedule('clock', '* * * * *', { tick: 1 }, { tz: 'UTC', retryLimit: 5 })
    see('schedules', (await boss.getSchedules()).map(({ name, cron, data, options }) => ({ name, cron, data, options })))
    await settles('bad cron', boss.schedule('clock', 'x'))
    const ticked = new Promise((resolve) => {
      void boss.work('clock', { pollingIntervalSeconds: 0.5 }, async ([job]) => resolve(job?.data))
    })
    see('ticked', await ticked)
    await boss.unschedule('clock')
    see('none', await boss.getSchedules())
  }, { schedule: true, cronMonitorIntervalSeconds: 1, cronWorkerIntervalSeconds: 1 })
}

/** A graceful stop waits for the jobs that are running. */
async function graceful(stage: Stage): Promise<void> {
  let isDone = false
  await withBoss(stage, async (boss) => {
    await boss.createQueue('slow')
    const started = new Promise<void>((resolve) => {
      void boss.work('slow', { pollingIntervalSeconds: 0.5 }, async () => {
        resolve()
        await (boss.getDb() as PgBoss.Db).executeSql('select pg_sleep(0.2)', [])
        isDone = true
      })
    })
    await boss.send('slow', {})
    await started
  })
  stage.see('done', isDone)
}

/** Jobs are sent in the transaction of an application, by its own client. */
async function ownTransaction(stage: Stage): Promise<void> {
  const pool = new Pool({ connectionString: stage.url, max: 2 })
  await withBoss(stage, async (boss) => {
    const { see } = stage
    await boss.createQueue('tx')
    const client = await pool.connect()
    const db: PgBoss.Db = { executeSql: async (text, values) => (await client.query(text, values)) as Result }
    await client.query('BEGIN')
    await boss.send('tx', { n: 1 }, { db, id: randomUUID() })
    see('not yet', await boss.fetch('tx'))
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    await boss.send('tx', { n: 2 }, { db })
    await client.query('COMMIT')
    client.release()
    see('then', (await boss.fetch('tx')).map(({ data }) => data))
    await boss.maintain()
    await boss.archive()
  })
  await pool.end()
}

const scenarios: Scenarios = {
  'jobs are sent, fetched, completed, failed and tried again': lifeOfJobs,
  'many jobs at once': manyJobs,
  'workers': workers,
  'schedules': schedules,
  'a graceful stop': graceful,
  'jobs in a transaction': ownTransaction,
}
export = scenarios
