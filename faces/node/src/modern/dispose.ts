/**
 * The symbol of `await using`. Node has it from 20.5.1 on. On older versions this is a symbol that
 * nothing looks for, and callers use `end`, `release` or `return`.
 */
export const ASYNC_DISPOSE: typeof Symbol.asyncDispose =
  (Symbol as { asyncDispose?: typeof Symbol.asyncDispose }).asyncDispose ??
  (Symbol('Symbol.asyncDispose') as typeof Symbol.asyncDispose)
