import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'

import { type Message, redis, type RedisOptions, type Subscription } from '../src/redis'
import { type Server, startRedis, until } from './redis-server'

let server: Server
before(async () => {
  server = await startRedis()
})
after(() => server.stop())

async function next<T>(subscription: Subscription<T>): Promise<Message<T>> {
  const { value, done } = await subscription.next()
  assert.ok(done !== true)
  return value as Message<T>
}

for (const protocol of [3, 2] as const) {
  test(`messages reach their readers on RESP${protocol}`, async () => {
    await using client = redis({ url: server.url, protocol })
    await using news = await client.subscribe('news', 'more')
    await using all = await client.psubscribe('n*')
    await using bytes = await client.buffers.subscribe('news')
    assert.equal(await client.publish('news', 'hello'), protocol === 3 ? 2 : 2)
    assert.deepEqual(await next(news), { channel: 'news', pattern: undefined, payload: 'hello' })
    assert.deepEqual(await next(all), { channel: 'news', pattern: 'n*', payload: 'hello' })
    assert.deepEqual((await next(bytes)).payload, Buffer.from('hello'))
    news.unsubscribe('news')
    await bytes.return()
    await client.publish('news', 'nobody')
    await client.publish('more', 'still')
    assert.equal((await next(news)).payload, 'still')
    assert.equal((await next(all)).payload, 'nobody')
  })

  test(`channels are subscribed again after a lost connection on RESP${protocol}`, async () => {
    await using client = redis({ url: server.url, protocol, clientName: `lost${protocol}` })
    await using other = redis(server.url)
    await using news = await client.subscribe('again')
    const list = await other.command<string>('CLIENT LIST')
    for (const line of list.split('\n').filter((it) => it.includes(`name=lost${protocol}`))) {
      const id = /id=(\d+)/.exec(line)?.[1] ?? ''
      await other.command('CLIENT KILL', 'ID', id)
    }
    await until(async () => (await other.publish('again', 'back')) > 0)
    assert.equal((await next(news)).payload, 'back')
    assert.equal(news.reconnects, 1)
  })
}

for (const after of ['RESP2', 'RESP3'] as const) {
  test(`channels stay subscribed, once, if the next server has ${after}`, async () => {
    const without = ['--rename-command', 'HELLO', '']
    const first = await startRedis(after === 'RESP2' ? [] : without)
    const second = await startRedis(after === 'RESP3' ? [] : without)
    try {
      const url = `redis://127.0.0.1:${first.port},127.0.0.1:${second.port}`
      await using client = redis(url)
      await using other = redis(second.url)
      await using news = await client.subscribe('news')
      assert.equal(await client.publish('news', 'first'), 1)
      assert.equal((await next(news)).payload, 'first')
      await first.stop()
      await until(async () => (await other.publish('news', 'second')) > 0)
      assert.equal((await next(news)).payload, 'second')
      await client.repeatable().set('k', 'v')
      assert.equal(await client.get('k'), 'v')
      await using more = await client.subscribe('more')
      assert.equal(await other.publish('more', 'third'), 1)
      assert.equal((await next(more)).payload, 'third')
      assert.equal(await other.publish('news', 'fourth'), 1)
      assert.equal((await next(news)).payload, 'fourth')
    } finally {
      await Promise.all([first.stop(), second.stop()])
    }
  })
}

test('a slow reader loses the oldest messages, and is told how many', async () => {
  await using client = redis(server.url)
  await using news = await client.subscribe('flood')
  await Promise.all(Array.from({ length: 3_000 }, (_, i) => client.publish('flood', i)))
  await client.ping()
  assert.equal(news.dropped, 3_000 - 1024)
  for (let i = 3_000 - 1024; i < 3_000; i++) assert.equal((await next(news)).payload, `${i}`)
})

test('a loop over messages ends with its client', async () => {
  const client = redis(server.url)
  const news = await client.subscribe('loop')
  await client.publish('loop', 'one')
  const seen: string[] = []
  for await (const { payload } of news) {
    seen.push(payload)
    void client.close()
  }
  assert.deepEqual(seen, ['one'])
})

test('a subscription that is refused leaves nothing behind', async () => {
  await using client = redis(server.url)
  await client.command(
    'ACL SETUSER',
    'limited',
    'on',
    'nopass',
    '+@all',
    '~*',
    'resetchannels',
    '&allowed',
  )
  await using limited = redis(server.url.replace('//', '//limited:x@'))
  await assert.rejects(limited.subscribe('forbidden'), { code: 'NOPERM', outcome: 'Rejected' })
  await using allowed = await limited.subscribe('allowed')
  assert.equal(await client.publish('allowed', 'x'), 1)
  assert.equal((await next(allowed)).payload, 'x')
})

test('sharded channels are received', async () => {
  await using client = redis(server.url)
  await using shard = await client.ssubscribe('shard')
  assert.equal(await client.spublish('shard', 'x'), 1)
  assert.equal((await next(shard)).payload, 'x')
})

test('TLS verifies the certificate unless it is told otherwise', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'onetrip-redis-tls-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const [key, cert] = [join(folder, 'key'), join(folder, 'cert')]
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-subj',
      '/CN=localhost',
      '-addext',
      'subjectAltName=DNS:localhost',
      '-days',
      '1',
      '-keyout',
      key,
      '-out',
      cert,
    ],
    { stdio: 'ignore' },
  )
  const probe = await startRedis()
  await probe.stop()
  let secure: Server
  try {
    secure = await startRedis([
      '--tls-port',
      `${probe.port}`,
      '--tls-cert-file',
      cert,
      '--tls-key-file',
      key,
      '--tls-ca-cert-file',
      cert,
      '--tls-auth-clients',
      'no',
    ])
  } catch {
    return t.skip('this redis-server has no TLS')
  }
  t.after(() => secure.stop())
  const url = `rediss://localhost:${probe.port}`
  await using right = redis(`${url}?sslrootcert=${encodeURIComponent(cert)}`)
  assert.equal(await right.ping(), 'PONG')
  await using also = redis({ url, tls: { ca: readFileSync(cert) } })
  assert.equal(await also.ping(), 'PONG')
  await using unverified = redis(`${url}?sslmode=require`)
  assert.equal(await unverified.ping(), 'PONG')
  const there = encodeURIComponent(cert)
  const byAddress = url.replace('localhost', '127.0.0.1')
  await using another = redis(`${byAddress}?sslmode=verify-ca&sslrootcert=${there}`)
  assert.equal(await another.ping(), 'PONG')
  for (const [where, why] of [
    [url, /self-signed|self signed/],
    [`${byAddress}?sslrootcert=${there}`, /does not match certificate's altnames/],
  ] as const) {
    const wrong = redis({ url: where, waitTimeout: 3000 })
    const expected = { code: 'connect_failed', outcome: 'NotSent', message: why }
    await assert.rejects(wrong.ping(), expected)
    await wrong.close()
  }
  await right.command('ACL SETUSER', 'ann', 'on', '>secret', '+@all', '~*')
  await using ann = redis(`${url.replace('//', '//ann:secret@')}?sslrootcert=${there}`)
  assert.equal(await ann.command('ACL WHOAMI'), 'ann')
  const plain = redis({ port: probe.port, waitTimeout: 3000 })
  await assert.rejects(plain.ping(), { outcome: 'NotSent' })
  await plain.close()
})

for (const protocol of [3, 2] as const) {
  test(`a user of the server's own logs in by name and password on RESP${protocol}`, async () => {
    await using client = redis(server.url)
    const rules = ['on', '>p@ss:/word', '+get', '+hello', '+ping', '+acl', '~*']
    await client.command('ACL SETUSER', 'bob', ...rules)
    const login = { url: server.url, user: 'bob', protocol }
    await using bob = redis({ ...login, password: 'p@ss:/word' })
    assert.equal(await bob.command('ACL WHOAMI'), 'bob')
    await assert.rejects(bob.set('a', 1), { code: 'NOPERM', outcome: 'Rejected', command: 'SET' })
    await using byUrl = redis({ url: server.url.replace('//', '//bob:p%40ss%3A%2Fword@'), protocol })
    assert.equal(await byUrl.command('ACL WHOAMI'), 'bob')
    // A wrong password is a final answer, so nothing is retried.
    const wrong = redis({ ...login, password: 'wrong', waitTimeout: 60_000 })
    await assert.rejects(wrong.ping(), { code: 'WRONGPASS', outcome: 'NotSent' })
    await wrong.close()
  })
}

test('a user without a password is that user or nobody', async () => {
  await using admin = redis(server.url)
  await admin.command('ACL SETUSER', 'limited', 'on', 'nopass', '+@all', '~*', '&*')
  await admin.command('ACL SETUSER', 'guarded', 'on', '>secret', '+@all', '~*', '&*')
  const whoami = async (options: RedisOptions): Promise<unknown> => {
    await using client = redis({ url: server.url, waitTimeout: 60_000, ...options })
    await using own = await client.session()
    const names = await Promise.all([client.command('ACL WHOAMI'), own.command('ACL WHOAMI')])
    assert.equal(names[0], names[1])
    return names[0]
  }
  const by = (login: string): string => server.url.replace('//', `//${login}@`)
  for (const protocol of [3, 2] as const) {
    for (const url of [by('limited'), by('limited:')])
      assert.equal(await whoami({ url, protocol }), 'limited')
    assert.equal(await whoami({ user: 'limited', protocol }), 'limited')
    assert.equal(await whoami({ user: 'limited', password: '', protocol }), 'limited')
    assert.equal(await whoami({ url: by('guarded:secret'), protocol }), 'guarded')
    assert.equal(await whoami({ user: '', password: '', protocol }), 'default')
    for (const user of ['guarded', 'nobody']) {
      const why = { code: 'WRONGPASS', outcome: 'NotSent', message: /given without a password/ }
      await assert.rejects(whoami({ user, protocol }), why)
    }
  }
})

test('URLs are read, and errors say what is wrong', () => {
  assert.throws(() => redis('http://x'), /a URL begins with redis:/)
  assert.throws(() => redis('redis://h:99999'), /a port is a number from 1 to 65535/)
  assert.throws(() => redis('redis://h/first'), /database takes a whole number/)
  assert.throws(() => redis('redis://h?colour=blue'), /colour is not a setting/)
  assert.throws(() => redis('unix:relative'), /the absolute path of a socket/)
  for (const url of [
    'redis://',
    'redis://u:p%40@[::1]:7000/3?client_name=a',
    'valkeys://h',
    'redis://a:1,b:2',
  ])
    redis(url)
})
