import { Recent } from './recent'
import { ENGINE_LOST, memory } from './memory'

/** The traits that the text of a statement shows to the engine: bits of `Trait`. */
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
  // A failed module answers 0, which must not be remembered.
  if (memory.isLost) throw new Error(ENGINE_LOST)
  const bytes = Buffer.from(text)
  if (bytes.length === 0) return 0
  return memory.lend(bytes, (start) =>
    memory.engine.onetrip_postgres_classify(start, bytes.length),
  )
}

/** Longer texts rarely repeat, and are not remembered. */
const LONG = 16_384

/** Texts whose traits are remembered. */
const known = new Recent<string, number>(1024)
