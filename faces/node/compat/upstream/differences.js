'use strict'
// Tests of node-postgres that end otherwise here, by file or by file and name, and why. The page
// docs/reference/pg-differences.md has the same list.

/** Not run: they put messages of their own into pg's connection, or replace parts of it. */
exports.inside = [
  'pg/test/unit/client/cleartext-password-tests.js',
  'pg/test/unit/client/configuration-tests.js',
  'pg/test/unit/client/md5-password-tests.js',
  'pg/test/unit/client/notification-tests.js',
  'pg/test/unit/client/password-callback-tests.js',
  'pg/test/unit/client/prepared-statement-tests.js',
  'pg/test/unit/client/query-queue-tests.js',
  'pg/test/unit/client/query-timeout-tests.js',
  'pg/test/unit/client/result-metadata-tests.js',
  'pg/test/unit/client/sasl-scram-tests.js',
  'pg/test/unit/client/simple-query-tests.js',
  'pg/test/unit/client/stream-and-query-error-interaction-tests.js',
  'pg/test/unit/client/throw-in-bind-tests.js',
  'pg/test/unit/client/throw-in-type-parser-tests.js',
  'pg/test/unit/connection/error-tests.js',
  'pg/test/unit/connection/startup-tests.js',
]

exports.always = {
  'pg/test/integration/client/ssl-tests.js: can connect with ssl':
    'the server of the tests has no TLS, where pg fails it, too',
  'pg/test/integration/client/pipelining-tests.js: query_timeout on sent pipelined query destroys connection to unblock':
    'the query that is late fails, and the others go on',
  'pg-pool/test/connection-timeout.js: connection timeout should connect if timeout is passed, but native client in connected state':
    'there is no client over libpq',
  'pg-pool/test/index.js: pool with promises recovers from query errors':
    'a client whose query failed is kept',
  'pg-pool/test/idle-timeout.js: idle timeout keeps old behavior when allowExitOnIdle option is not set':
    'connecting takes more than its 50 ms on a slow machine, where pg fails it, too',
  'pg-pool/test/events.js: events emits acquire every time a client is acquired':
    'connecting takes more than its 100 ms on a slow machine, where pg fails it, too',
}

const GRACEFUL = 'end() waits for the queries that were sent, as that of pg does with pipeline'
const SHARED = 'queries that share a connection emit neither acquire nor release'

exports.pipelined = {
  'pg/test/integration/client/error-handling-tests.js: query receives error on client shutdown':
    GRACEFUL,
  'pg/test/integration/client/query-error-handling-prepared-statement-tests.js: client end during query execution of prepared statement':
    GRACEFUL,
  'pg/test/integration/gh-issues/1382-tests.js: calling end during active query should return a promise':
    GRACEFUL,
  'pg-pool/test/error-handling.js: pool error handling handles post-checkout client failures in pool.query':
    GRACEFUL,
  'pg-pool/test/events.js: events emits acquire every time a client is acquired': SHARED,
  'pg-pool/test/events.js: events emits release every time a client is released': SHARED,
  'pg-pool/test/index.js: pool with promises does not enable pipeline by default':
    'it is switched on here',
}
