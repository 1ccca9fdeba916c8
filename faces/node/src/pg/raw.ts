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

/** The session, as lending sees it. */
export interface LentSession {
  /** The engine's link, once the login is over. */
  readonly openLink: Link | undefined
  /** Requests that were submitted and have not ended. */
  readonly pending: number
  /** Requests that wait behind a turn, or for the login. */
  readonly waiting: Waiting[]
  status(code: number): void
  lost(): Error
  failed(error: Error): void
  /** A request was submitted. */
  starting(): void
  /** A request ended: called before its caller is told, and after. */
  ending(how: number): void
  ended(how: number): void
  /**
   * Sends a BEGIN that is held back. `done` gets its error, or is called at once if there is none.
   */
  flushBegin?(done: (error: Error | undefined) => void): void
  /** The connection is no longer lent: requests that wait are submitted. */
  reopened(): void
  /** Emits `drain` if nothing waits for an answer. */
  tellDrain(): void
  emit(name: 'notice' | 'notification', message: NoticeMessage | NotificationMessage): void
}

/**
 * Lends a connection to queries that run themselves, one at a time: once all earlier requests are
 * answered, and until the server is ready for the next. Later requests wait.
 *
 * Meanwhile the engine waits for the answer to a Sync of its own that was never sent, so it sends
 * nothing. It gets the answer to the query's last Sync in its place. So it knows the status of the
 * transaction, and can cancel the query.
 */
export class Lending implements Receiver, Host {
  readonly #session: LentSession
  readonly #connection: Connection
  readonly #messages = new Messages()
  #link: Link | undefined
  /** The query whose turn it is, or will be once the connection is quiet. */
  #turn: Turn | undefined
  /** No BEGIN is held back. */
  #isBegun = false
  /** The engine waits for the answer to its Sync. */
  #isAsked = false
  /** The conversation of the query, while the connection is lent to it. */
  #conversation: Conversation | undefined
  /** Messages of the conversation are being read. */
  #isReading = false
  #isFinished = false
  #status = ''

  constructor(session: LentSession, connection: Connection) {
    this.#session = session
    this.#connection = connection
  }

  /** Whether other requests have to wait. */
  get isClosed(): boolean {
    return this.#turn !== undefined || this.#isAsked
  }

  /** Whether received bytes belong to a conversation, and not to the engine. */
  get isLent(): boolean {
    return this.#conversation !== undefined
  }

  /** The query that the connection is lent to. */
  get active(): Submittable | undefined {
    return this.#conversation?.active
  }

  /** Gives a query its turn, once all earlier requests are answered. */
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
   * Makes sure that the engine can prepare a text under a name. If a query that runs itself has
   * prepared the name, which the engine does not know, the statement is closed on the server.
   * Returns false if the name is that of another text.
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

  /** Takes a query from the queue, or asks the server to cancel it if it runs. */
  withdraw(query: Submittable): void {
    if (this.active === query) return this.cancel()
    const isNext = this.#turn?.query === query && this.#conversation === undefined
    const turn = isNext ? this.#turn : this.#waiting((it) => it.query === query)
    if (turn !== undefined) this.#takeBack(turn, new Error('Query was cancelled'))
  }

  /** The deadline of a query has passed. */
  expire(turn: Turn): void {
    if (this.#turn === turn && this.#conversation !== undefined) return this.#conversation.expired()
    this.#takeBack(turn, timeoutError())
  }

  /** Fails a query before its turn. */
  #takeBack(turn: Turn, error: Error): void {
    turn.callBack(error)
    turn.fail(error, 'NotSent')
    if (this.#turn === turn) this.#drop()
    else this.#waiting((it) => it === turn)
  }

  /** Takes a query from the queue. */
  #waiting(is: (turn: Turn) => boolean): Turn | undefined {
    const { waiting } = this.#session
    const at = waiting.findIndex(({ call: { request } }) => request instanceof Turn && is(request))
    return at < 0 ? undefined : (waiting.splice(at, 1)[0]?.call.request as Turn)
  }

  /** Something was answered: begins the turn that waits, if the connection is quiet. */
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
    // If half a message has arrived, the engine must get the rest of it.
    if (!link.isQuiet) return
    this.#status = link.status
    this.#isAsked = true
    this.#session.starting()
    const place = link.lend(this)
    if (place < 0) return this.ended(End.CLOSED)
    // The Sync waits for a cancel, and will be sent. Its end calls `proceed` again.
    if (place > 0) return
    this.#conversation = new Conversation(turn, this.#connection, this)
    this.#connection.lend(this.#conversation)
    this.#conversation.start()
  }

  /** Sends a BEGIN that is held back, in front of the query. */
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

  /** Ends a turn that has not begun. */
  #drop(): void {
    this.#turn?.over()
    this.#turn = undefined
    if (this.#isAsked) return
    this.#session.reopened()
    this.#session.tellDrain()
  }

  /** Hands received bytes to the conversation. Returns false if they belong to the engine. */
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

  /** Ends the loan: the engine gets a ReadyForQuery for its Sync, and the bytes that follow. */
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

  // --- events of the conversation ---

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
    // The server sends nothing more, so its close is not awaited.
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
