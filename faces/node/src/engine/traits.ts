import { Recent } from './recent'
import { ENGINE_LOST, memory } from './memory'

/** What the text of a statement shows, as the engine reads it: bits of `Trait`. */
export function traitsOf(text: string): number {
  if (text.length > LONG) return classify(text)
  let traits = known.get(text)
  if (traits === undefined) {
    traits = classify(text)
    known.set(text, traits)
  }
  return traits
}

function classify(text: string): number {
  // What is said now would be remembered.
  if (memory.isLost) throw new Error(ENGINE_LOST)
  const bytes = Buffer.from(text)
  if (bytes.length === 0) return 0
  return memory.lend(bytes, (start) =>
    memory.engine.onetrip_postgres_classify(start, bytes.length),
  )
}

/** Longer texts are rarely the same twice, and are not kept. */
const LONG = 16_384

/** Texts whose traits are remembered. */
const known = new Recent<string, number>(1024)
