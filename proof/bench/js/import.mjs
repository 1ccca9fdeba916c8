// How many ms the import of a module takes, in a process that has done nothing else.
import { pathToFileURL } from 'node:url'

const { href } = pathToFileURL(process.argv[2])
const before = performance.now()
await import(href)
console.log(performance.now() - before)
