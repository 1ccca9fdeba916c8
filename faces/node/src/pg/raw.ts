import { End } from '../engine/exports'
import type { Link, Receiver } from '../engine/link'
import type { Connection } from './connect'
import { Conversation, type Host } from './conversation'
import type { NoticeMessage } from './error'
import type { NotificationMessage } from './messages'
import type { Names } from './names'
import { guarded } from './request'
import { timeoutError, Turn, type Submittable } from './submittable'
import { Waiting } from './waiting'
import { Messages } from './wire-frames'

/** What lending needs of the session. */
export interface LentSession {
  /** The engine's link, once the login is over. */
  readonly openLink: Link | undefined
  /** Requests that the engine has and that are not answered. */
  readonly pending: number
  /** Requests that wait behind a turn, or for the login. */
  readonly waiting: Waiting[]
  status(code: number): void
  lost(): Error
  failed(error: Error): void
  /** The engine has one request more; it is over: before it is told, and after. */
  starting(): void
  ending(how: number): void
  ended(how: number): void
  /** Sees that a BEGIN that was held is on the server; `done` is told of an error, at once where there was none. */
  flushBegin?(done: (error: Error | undefined) => void): void
  /** Others have their turn again. */
  reopened(): void
  /** Tells that nothing waits for an answer, where that is so. */
  tellDrain(): void
  emit(name: 'notice' | 'notification', message: NoticeMessage | NotificationMessage): void
}

/**
 * Lends a connection to queries that run themselves, one at a time: when all that was asked before is answered, and
 * until the server is ready for others. What is asked meanwhile waits.
 *
 * For the engine a Sync is on its way as long: it sends nothing, and is handed the server's answer to the last Sync in
 * place of one to its own. So it knows the status of the transaction, and can cancel what runs.
 */
export class Lending implements Receiver, Host {
  readonly #session: LentSession
  readonly #connection: Connection
  readonly #messages = new Messages()
  #link: Link | undefined
  /** Whose turn it is, or will be when it is quiet. */
  #turn: Turn | undefined
  /** No BEGIN is held. */
  #isBegun = false
  /** The engine has its Sync. */
  #isAsked = false
  /** What is said, while the connection is lent. */
  #conversation: Conversation | undefined
  /** Its messages are being read. */
  #isReading = false
  #isFinished = false
  #status = ''

  constructor(session: LentSession, connection: Connection) {
    this.#session = session
    this.#connection = connection
  }

  /** Whether what is asked for has to wait. */
  get isClosed(): boolean {
    return this.#turn !== undefined || this.#isAsked
  }

  /** Whether what comes is not the engine's. */
  get isLent(): boolean {
    return this.#conversation !== undefined
  }

  /** The query that has the connection. */
  get active(): Submittable | undefined {
    return this.#conversation?.active
  }

  /** Gives one its turn, once all that was asked before is answered. */
  lend(turn: Turn): void {
    const link = this.#session.openLink
    if (link === undefined || this.isClosed) {
      this.#session.waiting.push(Waiting.turn(this.#session, turn))
      return
    }
    this.#turn = turn
    this.#link = link
    this.#isBegun = false
    this.proceed()
  }

  /**
   * Sees that the engine can prepare a text under a name. Where a query that runs itself has prepared that, the engine
   * does not know of it: the server is made to forget it. False if the name stands for another text.
   */
  frees(name: string, text: string, names: Names): boolean {
    const strange = names.strangeTextOf(name)
    if (strange === undefined || strange !== text) return strange === undefined
    if (this.#session.openLink === undefined || this.isClosed) return true
    names.own(name)
    const submit = (connection: Connection): void => {
      connection.close({ type: 'S', name })
      connection.sync()
    }
    this.lend(new Turn({ submit }, this.#connection))
    return true
  }

  /** Takes a query from the queue, or asks the server to cancel it: of that it hears. */
  withdraw(query: Submittable): void {
    if (this.active === query) return this.cancel()
    const isNext = this.#turn?.query === query && this.#conversation === undefined
    const turn = isNext ? this.#turn : this.#waiting((it) => it.query === query)
    if (turn !== undefined) this.#takeBack(turn, new Error('Query was cancelled'))
  }

  /** The time of one is over. */
  expire(turn: Turn): void {
    if (this.#turn === turn && this.#conversation !== undefined) return this.#conversation.expired()
    this.#takeBack(turn, timeoutError())
  }

  /** Ends one before it has its turn. */
  #takeBack(turn: Turn, error: Error): void {
    turn.callBack(error)
    turn.fail(error, 'NotSent')
    if (this.#turn === turn) this.#drop()
    else this.#waiting((it) => it === turn)
  }

  /** Takes one from the queue. */
  #waiting(is: (turn: Turn) => boolean): Turn | undefined {
    const { waiting } = this.#session
    const at = waiting.findIndex(({ call: { request } }) => request instanceof Turn && is(request))
    return at < 0 ? undefined : (waiting.splice(at, 1)[0]?.call.request as Turn)
  }

  /** Something was answered. */
  proceed(): void {
    const turn = this.#turn
    const link = this.#link
    if (turn === undefined || link === undefined || this.#isAsked) return
    if (this.#session.pending > 0) return
    if (turn.isGone) {
      turn.callBack(new Error('The query was destroyed before its turn'))
      return this.#drop()
    }
    if (!this.#isBegun) return this.#openTransaction(turn)
    // A message that has begun is the engine's.
    if (!link.isQuiet) return
    this.#status = link.status
    this.#isAsked = true
    this.#session.starting()
    const place = link.lend(this)
    if (place < 0) return this.ended(End.CLOSED)
    // It waits for a cancel, and will be sent: then it is asked anew.
    if (place > 0) return
    this.#conversation = new Conversation(turn, this.#connection, this)
    this.#connection.lend(this.#conversation)
    this.#conversation.start()
  }

  /** What of a transaction was not sent is sent in front of it. */
  #openTransaction(turn: Turn): void {
    this.#isBegun = true
    const begun = (error: Error | undefined): void => {
      if (this.#turn !== turn) return
      if (error === undefined) return this.proceed()
      if (this.#link) this.#session.status(this.#link.status.charCodeAt(0))
      turn.fail(error, 'NotSent')
      this.#drop()
    }
    if (this.#session.flushBegin) this.#session.flushBegin(begun)
    else begun(undefined)
  }

  /** Takes its turn from one that waits for it. */
  #drop(): void {
    this.#turn?.over()
    this.#turn = undefined
    if (this.#isAsked) return
    this.#session.reopened()
    this.#session.tellDrain()
  }

  /** Whether these bytes are not the engine's. */
  takes(chunk: Buffer): boolean {
    const conversation = this.#conversation
    if (conversation === undefined) return false
    const messages = this.#messages
    messages.add(chunk)
    this.#isReading = true
    try {
      while (!this.#isFinished) {
        const message = messages.next()
        if (message === undefined) break
        conversation.received(message)
      }
    } catch (error) {
      this.violation(error as Error)
    }
    this.#isReading = false
    if (this.#isFinished) this.#giveBack()
    return true
  }

  /** The engine's Sync is answered as the server's last one was, and all that came behind is the engine's again. */
  #giveBack(): void {
    this.#isFinished = false
    this.#conversation?.over()
    this.#conversation = undefined
    this.#turn = undefined
    this.#connection.lend(undefined)
    const rest = this.#messages.take()
    this.#link?.receive(Buffer.concat([READY, Buffer.from(this.#status), rest]))
  }

  // --- the engine's Sync ---

  received(): void {}
  restarted(): void {}

  ended(how: number): void {
    const session = this.#session
    this.#isAsked = false
    session.ending(how)
    if (how > End.PROVISIONAL) {
      this.lost()
      session.ended(how)
    } else if (this.#turn !== undefined) {
      this.proceed()
    } else {
      session.reopened()
      session.ended(how)
    }
  }

  /** The connection is lost. */
  lost(): void {
    const turn = this.#turn
    const conversation = this.#conversation
    this.#turn = this.#conversation = undefined
    if (conversation === undefined) return turn?.fail(this.#session.lost(), 'NotSent')
    conversation.lost(this.#session.lost())
    conversation.over()
    this.#connection.lend(undefined)
    setImmediate(() => this.#connection.waitNoMore())
  }

  // --- what befalls the conversation ---

  status(letter: string): void {
    this.#status = letter
    this.#session.status(letter.charCodeAt(0))
  }

  notice(message: NoticeMessage): void {
    guarded(() => this.#session.emit('notice', message))
  }

  notification(message: NotificationMessage): void {
    guarded(() => this.#session.emit('notification', message))
  }

  fatal(error: Error | undefined): void {
    if (error !== undefined) this.#session.failed(error)
    // The server says no more, and is not waited for.
    this.#connection.stream.destroy()
  }

  violation(error: Error): void {
    this.#session.failed(error)
    this.#connection.stream.destroy()
  }

  cancel(): void {
    this.#link?.wantCancel(this)
  }

  finished(): void {
    this.#isFinished = true
    if (!this.#isReading) this.#giveBack()
  }
}

/** A ReadyForQuery without its status. */
const READY = Buffer.from([0x5a, 0, 0, 0, 5])
