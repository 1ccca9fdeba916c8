import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'

import type { Project } from './package-project'
import { failure, message } from './pg-served'
import { cert, key } from './pg-tls-files'

const LIMIT = { timeout: 600_000 }

/** Code for a program: lists the files of the packages and the modules of Node that were loaded. */
const LOADED = `
  const loaded = () => [
    Object.keys(require.cache).filter((file) => file.includes('node_modules'))
      .map((file) => file.replace(/.*node_modules./, '').replaceAll('\\\\', '/')).sort(),
    ['net', 'tls', 'dns', 'zlib'].filter((name) => process.moduleLoadList.includes('NativeModule ' + name)),
  ]`

/** Tests of what is loaded at once, what is loaded later, and that both share their state. */
export function loading(project: Project): void {
  test('loading the drop-in loads only its classes before there is a client', LIMIT, async () => {
    const seen = await project.run(
      'load.js',
      `const pg = require('pg')
      ${LOADED}
      const before = loaded()
      Object.keys(pg)
      const pool = new pg.Pool()
      const [files, modules] = loaded()
      new pg.Client()
      const [withClient] = loaded()
      console.log(JSON.stringify([before, files.length - before[0].length, modules,
        files.some((it) => it.startsWith('pg-types')), withClient.some((it) => it.startsWith('pg-types'))]))`,
    )
    const files = ['pg-pool/index.js', 'pg/lib/client.js', 'pg/lib/core.js', 'pg/lib/index.js']
    // Two more: the files of the engine.
    assert.deepEqual(seen, [[files, []], 2, ['zlib'], false, true])
  })

  test('loading onetrip loads its errors, and each face at its first call', LIMIT, async () => {
    const seen = await project.run(
      'faces.js',
      `const onetrip = require('onetrip')
      ${LOADED}
      const before = [loaded(), Object.keys(onetrip).sort()]
      const { postgres, redis } = onetrip
      const fails = [() => redis('nothing://'), () => postgres('postgres://127.0.0.1:1/x').id()]
      const caught = fails.map((fail) => {
        try { fail() } catch (error) {
          return [error instanceof onetrip.RedisError, error instanceof onetrip.PostgresError, error.constructor.name,
            loaded()[0].filter((it) => it.startsWith('onetrip')).map((it) => it.slice('onetrip/lib/'.length))]
        }
      })
      const isSame = onetrip.postgres === postgres && onetrip.redis === redis
      console.log(JSON.stringify([before, caught, isSame]))`,
    )
    const engine = ['core.js', 'engine.js', 'errors.js', 'index.js']
    assert.deepEqual(seen, [
      [
        [['onetrip/lib/errors.js', 'onetrip/lib/index.js'], []],
        ['Position', 'PostgresError', 'RedisError', 'postgres', 'redis'],
      ],
      [
        [true, false, 'RedisError', [...engine, 'redis.js']],
        [false, true, 'PostgresError', [...engine, 'modern.js', 'module.js', 'redis.js']],
      ],
      true,
    ])
  })

  test('a module and a script have the same errors and one engine', LIMIT, async () => {
    const seen = await project.run(
      'one.mjs',
      `import { createRequire } from 'node:module'
      import * as onetrip from 'onetrip'
      import pg from 'onetrip/pg'
      const require = createRequire(import.meta.url)
      const required = require('onetrip')
      let compiled = 0
      const { Module } = WebAssembly
      WebAssembly.Module = class extends Module { constructor(bytes) { super(bytes); compiled++ } }
      new pg.Pool()
      onetrip.postgres('postgres://127.0.0.1:1/x')
      onetrip.redis('redis://127.0.0.1:1').get('key').catch(() => {})
      const same = ['Position', 'PostgresError', 'RedisError', 'postgres', 'redis'].filter((it) => onetrip[it] === required[it])
      console.log(JSON.stringify([same, require('onetrip/pg') === pg, compiled]))
      process.exit()`,
    )
    assert.deepEqual(seen, [['Position', 'PostgresError', 'RedisError', 'postgres', 'redis'], true, 1])
  })

  test('parsers that a module registers by name apply to the process, and the reverse', LIMIT, async () => {
    const seen = await project.run(
      'types.mjs',
      `import { createRequire } from 'node:module'
      import pg, { types } from 'pg'
      const require = createRequire(import.meta.url)
      const files = Object.keys(require.cache).filter((file) => file.includes('pg-types')).length
      const theirs = require('pg-types')
      types.setTypeParser(types.builtins.INT8, BigInt)
      theirs.setTypeParser(23, Number)
      const seen = [theirs.getTypeParser(20) === BigInt, types.getTypeParser(23) === Number, pg.types === theirs]
      const parse = () => 1
      types.getTypeParser = () => parse
      seen.push(theirs.getTypeParser(1) === parse, 'arrayParser' in types, Object.keys(types).join())
      console.log(JSON.stringify([files, seen, Object.keys(theirs).join()]))`,
    )
    const [files, same, keys] = seen as [number, unknown[], string]
    assert.deepEqual([files, same], [0, [true, true, true, true, true, keys]])
  })

  test('the exports of pg can be assigned, also types', LIMIT, async () => {
    const seen = await project.run(
      'assigned.js',
      `const pg = require('pg')
      const keys = Object.keys(pg).join()
      const all = Object.fromEntries(Object.keys(pg).map((key) => [key, {}]))
      Object.assign(pg, all)
      console.log(JSON.stringify([Object.keys(pg).join() === keys, Object.keys(pg).every((key) => pg[key] === all[key])]))`,
    )
    assert.deepEqual(seen, [true, true])
  })

  test('a login over TLS is bound to it if channel binding is enabled', LIMIT, async (context) => {
    const chosen: string[] = []
    const server = createServer((socket) => void offerBinding(socket, chosen)).listen(0, '127.0.0.1')
    context.after(() => server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const said = await project.run(
      'binding.js',
      `const { Client } = require('pg')
      const ssl = { ca: ${JSON.stringify(cert)} }
      const client = new Client({ host: 'localhost', port: ${port}, user: 'me', password: 'p', ssl, enableChannelBinding: true })
      client.connect().catch(({ message }) => console.log(JSON.stringify(message)))`,
    )
    assert.deepEqual([said, chosen], ['no', ['SCRAM-SHA-256-PLUS']])
  })
}

/** Offers channel binding, notes the mechanism that was chosen, and refuses the login. */
async function offerBinding(socket: Socket, chosen: string[]): Promise<void> {
  socket.on('error', () => {})
  await once(socket, 'data')
  socket.write('S')
  const secure = new TLSSocket(socket, { isServer: true, cert, key })
  await once(secure, 'data')
  const offer = Buffer.from('\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0')
  secure.write(message('R', offer))
  const [answer] = (await once(secure, 'data')) as [Buffer]
  chosen.push(answer.subarray(5, answer.indexOf(0, 5)).toString())
  secure.end(failure('28P01', 'no', 'FATAL'))
}
