/**
 * The symbol that `await using` looks for. Node has it from 20.5.1 on; before, nothing is found
 * under this one, and what has an end is ended by its method.
 */
export const ASYNC_DISPOSE: typeof Symbol.asyncDispose =
  (Symbol as { asyncDispose?: typeof Symbol.asyncDispose }).asyncDispose ??
  (Symbol('Symbol.asyncDispose') as typeof Symbol.asyncDispose)
