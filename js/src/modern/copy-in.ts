import { Writable } from 'node:stream'
import type { Socket } from 'node:net'

import { again, PostgresError } from './error'
import { serverErrorOf } from './failure'
import { guarded } from './guarded'
import type { LendingScope, Loan } from './lending'
import { countIn } from './copy'

type Callback = (error?: Error | null) => void

/**
 * Sends the data of a COPY … FROM STDIN. The connection is taken over for that time: the engine has
 * nothing on its way.
 *
 * It is done when the server has answered; what is destroyed before its end is undone.
 */
export class CopyingIn extends Writable {
  count: number | undefined
  readonly #scope: LendingScope
  readonly #text: string
  #loan: Loan | undefined
  #socket: Socket | undefined
  #rest: Buffer = NOTHING
  #error: PostgresError | undefined
  #state: 'new' | 'asked' | 'copying' | 'ended' | 'over' = 'new'
  /** Who waits for the server: for its leave to send, or for its last word. */
  #whenReady: Callback | undefined
  #whenOver: Callback | undefined

  constructor(scope: LendingScope, text: string) {
    super({ highWaterMark: WAITING_BYTES_MAX })
    this.#scope = scope
    this.#text = text
  }

  override _construct(callback: Callback): void {
    this.#begin(callback).catch((error: Error) => {
      this.#state = 'over'
      this.#loan?.release()
      callback(error)
    })
  }

  async #begin(callback: Callback): Promise<void> {
    const loan = await this.#scope._lend()
    this.#loan = loan
    const { connection } = loan
    loan.alone()
    await connection.ownAndIdle()
    const socket = connection.takeOver(
      (chunk) => this.#received(chunk),
      () => this.#lost(),
    )
    if (socket === undefined) throw again(connection.why, 'NotSent')
    this.#socket = socket
    this.#state = 'asked'
    this.#whenReady = callback
    const text = Buffer.from(`${this.#text}\0`)
    socket.write(Buffer.concat([header(QUERY, text.length), text]))
  }

  override _write(chunk: Buffer | string, encoding: BufferEncoding, callback: Callback): void {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk
    const { length } = bytes
    if (this.#state !== 'copying') return callback(this.#error)
    // Of any length: the server does not look at where one ends.
    const parts: Buffer[] = []
    for (let at = 0; at < length; at += MESSAGE_MAX) {
      const part = bytes.subarray(at, at + MESSAGE_MAX)
      parts.push(header(COPY_DATA, part.length), part)
    }
    this.#send(Buffer.concat(parts), callback)
  }

  #send(bytes: Buffer, callback: Callback): void {
    const socket = this.#socket as Socket
    if (socket.write(bytes)) return callback()
    this.#whenReady = callback
    socket.once('drain', () => this.#goOn())
  }

  #goOn(error?: Error): void {
    const tell = this.#whenReady
    this.#whenReady = undefined
    // The code of the caller is called by it.
    if (tell !== undefined) guarded(() => tell(error))
  }

  override _final(callback: Callback): void {
    if (this.#state !== 'copying') return callback(this.#error)
    this.#state = 'ended'
    this.#whenOver = callback
    this.#socket?.write(header(COPY_DONE, 0))
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    if (this.#state === 'asked' || this.#state === 'copying') {
      this.#state = 'ended'
      const reason = Buffer.from('the client gave it up\0')
      this.#socket?.write(Buffer.concat([header(COPY_FAIL, reason.length), reason]))
    }
    callback(error)
  }

  // --- what the server says ---

  #received(chunk: Buffer): void {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    while (bytes.length >= HEADER) {
      const end = 1 + bytes.readInt32BE(1)
      if (end < HEADER || end > ANSWER_MAX) return this.#loan?.connection.destroy(violation())
      if (bytes.length < end) break
      const message = bytes.subarray(0, end)
      bytes = bytes.subarray(end)
      if (message[0] === READY_FOR_QUERY) return this.#over(message[HEADER] as number, bytes)
      this.#message(message[0] as number, message)
    }
    // What came is valid for the time of the call.
    this.#rest = Buffer.from(bytes)
  }

  #message(type: number, message: Buffer): void {
    if (type === COPY_IN_RESPONSE) {
      if (this.#state !== 'asked') return
      this.#state = 'copying'
      this.#goOn()
    } else if (type === ERROR_RESPONSE) {
      this.#error = serverErrorOf(message, 'Rejected').about(this.#text)
      if (this.#state !== 'ended') this.#state = 'ended'
    } else if (type === COMMAND_COMPLETE) {
      this.count = countIn(message.toString('utf8', HEADER, message.length - 1))
    } else if (BESIDE.includes(type)) this.#loan?.connection.receivedBeside(message)
  }

  /** What came behind it, be it whole or not, is the engine's. */
  #over(status: number, rest: Buffer): void {
    const loan = this.#loan as Loan
    this.#state = 'over'
    loan.connection.giveBack()
    loan.connection.status(status)
    if (rest.length > 0) loan.connection.received(rest)
    if (this.#error !== undefined) loan.failed(this.#error)
    loan.release()
    this.#tell()
  }

  #tell(): void {
    const error = this.#error
    this.#goOn(error)
    const tell = this.#whenOver
    this.#whenOver = undefined
    if (tell !== undefined) return guarded(() => tell(error))
    if (error !== undefined && !this.destroyed) this.destroy(error)
  }

  /** Without its last message it can't have taken effect. */
  #lost(): void {
    const loan = this.#loan as Loan
    const outcome = this.#state === 'ended' && this.#whenOver !== undefined ? 'Unknown' : 'Rejected'
    this.#error ??= again(loan.connection.why, outcome)
    this.#state = 'over'
    loan.connection.giveBack()
    loan.failed(this.#error)
    loan.release()
    this.#tell()
  }
}

function header(type: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(HEADER)
  bytes[0] = type
  bytes.writeInt32BE(length + 4, 1)
  return bytes
}

function violation(): PostgresError {
  return new PostgresError(
    'violation',
    'Unknown',
    'a message of the server in a COPY is no answer to one',
  )
}

const NOTHING = Buffer.alloc(0)
const HEADER = 5

/** Bytes that wait to be sent, beside what the socket's buffers hold. */
const WAITING_BYTES_MAX = 64 << 10
const MESSAGE_MAX = 1 << 20
/** Longer than anything that the server answers to a COPY. */
const ANSWER_MAX = 1 << 20

const QUERY = 0x51
const COPY_DATA = 0x64
const COPY_DONE = 0x63
const COPY_FAIL = 0x66
const COPY_IN_RESPONSE = 0x47
const ERROR_RESPONSE = 0x45
const COMMAND_COMPLETE = 0x43
const READY_FOR_QUERY = 0x5a
/** Notices, notifications and settings belong to no request. */
const BESIDE = [0x4e, 0x41, 0x53]
