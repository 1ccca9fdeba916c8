/** Gives an object a field that is not seen where it is printed or copied. */
export function hide(of: object, name: string, value: unknown): void {
  const field = { configurable: true, enumerable: false, writable: true, value }
  Object.defineProperty(of, name, field)
}
