export { readText } from '../engine/memory'
export type { ReadText } from '../engine/text'
