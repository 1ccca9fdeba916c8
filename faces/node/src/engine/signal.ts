/** Is called when a signal is aborted. */
export interface Heeder {
  handleEvent(): void
}

/**
 * The heeders of a signal, behind one listener. Node warns of more than ten listeners, and a
 * program may well stop a hundred queries with one signal.
 */
class Heeders extends Set<Heeder> {
  handleEvent(): void {
    for (const heeder of this) heeder.handleEvent()
  }
}

const signals = new WeakMap<AbortSignal, Heeders>()

export function heed(signal: AbortSignal, heeder: Heeder): void {
  let heeders = signals.get(signal)
  if (heeders === undefined) {
    signals.set(signal, (heeders = new Heeders()))
    signal.addEventListener('abort', heeders)
  }
  heeders.add(heeder)
}

export function heedNoMore(signal: AbortSignal, heeder: Heeder): void {
  const heeders = signals.get(signal)
  heeders?.delete(heeder)
  if (heeders?.size !== 0) return
  signals.delete(signal)
  signal.removeEventListener('abort', heeders)
}

/** Whether it is a signal, also one of another realm or of a library. */
export function isSignal(value: unknown): value is AbortSignal {
  const { aborted, addEventListener } = Object(value) as Partial<AbortSignal>
  return typeof aborted === 'boolean' && typeof addEventListener === 'function'
}
