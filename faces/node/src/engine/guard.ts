import { type Exports, Refused } from './exports'

type Call = (...args: unknown[]) => unknown

/**
 * The functions of an instance of the module. What one throws is told to `lost`, and it answers that nothing has
 * happened; but for those that each turn of a connection calls, whose callers see to that themselves.
 */
export function guarded(instance: object, lost: (error: unknown) => void): Exports {
  return functions(instance, (call, name) => {
    if (OFTEN.test(name)) return call
    return (...args) => {
      try {
        return call(...args)
      } catch (error) {
        lost(error)
        return nothing(name)
      }
    }
  })
}

/** The functions of an instance that is lost: they do nothing. */
export function lifeless(instance: object): Exports {
  return functions(instance, (_, name) => () => nothing(name))
}

/** Whether it can be thrown by the module: it has failed, or was stopped since the stack is full. */
export function isFailure(error: unknown): boolean {
  if (error instanceof WebAssembly.RuntimeError) return true
  return error instanceof RangeError && error.message.includes('call stack')
}

/** Tells somebody. What is thrown is the host's, and the others are to hear what is theirs. */
export function safely(tell: () => void): void {
  try {
    tell()
  } catch (error) {
    process.nextTick(rethrow, error)
  }
}

export function rethrow(error: unknown): never {
  throw error
}

function functions(instance: object, made: (call: Call, name: string) => Call): Exports {
  const functions: { [name: string]: unknown } = {}
  for (const [name, it] of Object.entries(instance)) {
    functions[name] = typeof it === 'function' ? made(it as Call, name) : it
  }
  return functions as unknown as Exports
}

/** What says that nothing has happened: a request is not taken, and all else is 0. */
function nothing(name: string): number {
  return /_(?:submit|sync)$/.test(name) ? Refused.CLOSED : 0
}

const OFTEN =
  /(?<!pool|cluster)_(?:input|received|transmit|len|written|deadline|request|submit|take|completions|flight|queued)$|_place$/
