import { type Exports, Refused } from './exports'

type Call = (...args: unknown[]) => unknown

/**
 * The functions of an instance of the module. If one throws, `lost` is called, and the function
 * returns that nothing happened; else `called` is. The functions of `OFTEN` are not wrapped, since
 * each turn of a connection calls them; their callers do the same themselves.
 */
export function guarded(
  instance: object,
  lost: (error: unknown) => void,
  called: () => void,
): Exports {
  return functions(instance, (call, name) => {
    if (OFTEN.test(name)) return call
    return (...args) => {
      try {
        const result = call(...args)
        called()
        return result
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

/** Whether an error may be of the module: a trap, or an overflow of the stack. */
export function isFailure(error: unknown): boolean {
  if (error instanceof WebAssembly.RuntimeError) return true
  return error instanceof RangeError && error.message.includes('call stack')
}

/**
 * Calls code of the host. What it throws is thrown in the next tick, so that other calls follow.
 */
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

/** The result of a function that did nothing: a request is refused, and all else is 0. */
function nothing(name: string): number {
  return /_(?:submit|sync)$/.test(name) ? Refused.CLOSED : 0
}

const OFTEN =
  /(?<!pool|cluster|sentinel)_(?:input|received|transmit|len|written|deadline|request|submit|take|completions|flight|queued)$|_place$|_look_up$/
