// No client: a socket that sends what one of ours was recorded to send, keeps as many requests on
// their way, and looks at the answers no more than it takes to know where they end.
// proof/bench/src/rows/node/floor.rs makes the recording.
'use strict'

const { readFileSync } = require('node:fs')
const net = require('node:net')
const path = require('node:path')

const RECORDING = path.join(__dirname, '../../../../target/bench-floor.json')

/** What is read at once, as ours does. */
const READ = 64 << 10

/** Room for the beginning of a message, which goes in front of the next read. */
const FRONT = 4 << 10

/** A round whose last answer has not come by then has lost one. */
const PATIENCE_MS = 60_000

const open = async (url) => {
  const recording = JSON.parse(readFileSync(RECORDING, 'utf8'))
  const line = new Line(recording)
  await (recording.protocol === 'redis' ? line.toRedis(url) : line.toPostgres(url))
  return {
    replay: (depth, step) => line.replay(depth, step),
    checksum: recording.checksum,
    close: () => line.socket.destroy(),
  }
}

class Line {
  buffer = Buffer.allocUnsafeSlow(FRONT + READ)
  /** Bytes of the buffer in front of the next read. */
  kept = 0
  socket
  recording
  requests
  scan
  /** What runs now: how many answers it wants, and what is to be done at each read. */
  round = undefined

  constructor(recording) {
    this.recording = recording
    this.requests = Buffer.from(recording.requests, 'hex')
    this.scan = recording.protocol === 'redis' ? redis : postgres
    const inlet = this.buffer.subarray(FRONT)
    const callback = (length) => {
      if (this.round === undefined) return this.socket.push(Buffer.from(inlet.subarray(0, length)))
      this.read(length)
      return true
    }
    this.socket = new net.Socket({ onread: { buffer: inlet, callback } })
  }

  /** A login is not what is measured: pg does it, and is asked for nothing more. */
  async toPostgres(connectionString) {
    const pg = require('pg')
    await new pg.Client({ connectionString, stream: this.socket }).connect()
    this.socket.removeAllListeners()
    await this.hear(Buffer.from(this.recording.setup, 'hex'), 1)
  }

  async toRedis(url) {
    const { hostname, port, password } = new URL(url)
    this.socket.setNoDelay(true)
    this.socket.connect(Number(port), hostname)
    const login = `*2\r\n$4\r\nAUTH\r\n$${password.length}\r\n${password}\r\n`
    await this.hear(Buffer.from(login), 1)
  }

  hear(first, count, next) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(reject, PATIENCE_MS, new Error('the floor hears nothing'))
      const done = (bytes) => (clearTimeout(late), resolve(bytes))
      this.round = { count, next, answered: 0, bytes: 0, done, reject }
      this.socket.write(first)
    })
  }

  /** Sends all requests, and hears all answers. When `step` were answered, as many follow. */
  async replay(depth, step) {
    const { ends, answers } = this.recording
    const count = ends.length
    let sent = Math.min(depth, count)
    const bytes = await this.hear(this.requests.subarray(0, ends[sent - 1]), count, (answered) => {
      const due = Math.min(answered + depth, count)
      if (due - sent >= step || (due > sent && due === count)) {
        this.socket.write(this.requests.subarray(ends[sent - 1], ends[due - 1]))
        sent = due
      }
    })
    if (bytes !== answers) throw new Error('the floor was answered something else')
  }

  read(length) {
    const { round, buffer } = this
    const end = FRONT + length
    try {
      const { at, answers } = this.scan(buffer, FRONT - this.kept, end)
      this.kept = end - at
      if (this.kept > FRONT) throw new Error('a message is longer than the floor expects')
      buffer.copyWithin(FRONT - this.kept, at, end)
      round.answered += answers
      round.bytes += length
    } catch (error) {
      round.reject(error)
      return
    }
    round.next?.(round.answered)
    if (round.answered > round.count) round.reject(new Error('the floor was answered too often'))
    if (round.answered === round.count) round.done(round.bytes)
  }
}

/** Where the last whole message ends, and how many of them are a ReadyForQuery. */
function postgres(bytes, at, end) {
  let answers = 0
  while (at + 5 <= end) {
    const kind = bytes[at]
    const next = at + 1 + bytes.readInt32BE(at + 1)
    if (next > end) break
    if (kind === READY) answers++
    else if (kind === ERROR) throw refused(bytes, at, next)
    at = next
  }
  return { at, answers }
}

const READY = 'Z'.charCodeAt(0)
const ERROR = 'E'.charCodeAt(0)

/** Where the last whole answer ends, and how many there are: strings, and lines. */
function redis(bytes, at, end) {
  let answers = 0
  for (;;) {
    let next = at
    let length = 0
    while (next < end && bytes[next] !== LINE_FEED) {
      const digit = bytes[next++] - ZERO
      if (digit >= 0 && digit <= 9) length = length * 10 + digit
    }
    next += bytes[at] === STRING ? 1 + length + 2 : 1
    if (next > end) break
    if (bytes[at] === REFUSAL) throw refused(bytes, at, next)
    answers++
    at = next
  }
  return { at, answers }
}

const LINE_FEED = 10
const ZERO = '0'.charCodeAt(0)
const STRING = '$'.charCodeAt(0)
const REFUSAL = '-'.charCodeAt(0)

function refused(bytes, at, end) {
  return new Error(`the server refused what was recorded: ${bytes.toString('latin1', at, end)}`)
}

module.exports = { open, version: 'a bare net.Socket' }
