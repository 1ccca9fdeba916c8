/** Sets a field that is not enumerable, so that it is not printed or copied. */
export function hide(of: object, name: string, value: unknown): void {
  const field = { configurable: true, enumerable: false, writable: true, value }
  Object.defineProperty(of, name, field)
}
