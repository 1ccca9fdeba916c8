import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'

import type * as Compiler from 'typescript'

const ts = require('../../../node_modules/typescript') as typeof Compiler
const root = join(__dirname, '../..')

const OURS = 'node_modules/pg/lib/index.d.ts'
const THEIRS = 'node_modules/@types/pg/index.d.ts'

const OPTIONS: Compiler.CompilerOptions = {
  strict: true,
  noEmit: true,
  esModuleInterop: true,
  exactOptionalPropertyTypes: false,
  target: ts.ScriptTarget.ES2022,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  module: ts.ModuleKind.Node16,
  moduleResolution: ts.ModuleResolutionKind.Node16,
  typeRoots: [join(root, '../node_modules/@types')],
  types: ['node'],
  skipLibCheck: true,
}

function program(files: string[], options: Compiler.CompilerOptions = {}): Compiler.Program {
  return ts.createProgram(files.map((file) => join(root, file)), { ...OPTIONS, ...options })
}

/** The errors of the compiler in the uses of the types, with these declarations. */
function faults(options: Compiler.CompilerOptions): string[] {
  const uses = program(['types/uses.ts'], options)
  return ts.getPreEmitDiagnostics(uses).map(({ file, start, messageText }) => {
    const line = file && start !== undefined ? file.getLineAndCharacterOfPosition(start).line + 1 : 0
    return `${file?.fileName ?? ''}:${line} ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
  })
}

const THERE = { pg: [join(root, 'node_modules/@types/pg')], 'pg/lib/*': [join(root, 'node_modules/@types/pg/lib/*')] }

test('each use of the types of pg compiles with them and with ours', { timeout: 120_000 }, () => {
  assert.deepEqual(faults({ paths: THERE }), [], 'with @types/pg')
  assert.deepEqual(faults({}), [], 'with ours')
})

/** Members that `@types/pg` declares and pg does not have: calling one fails with pg, too. */
const NOT_THERE = new Set(['copyFrom', 'copyTo', 'pauseDrain', 'resumeDrain'])

/** The exports of a module, and the members of its types and classes, by name. */
function members(of: string): Map<string, Set<string>> {
  const all = program([OURS, THEIRS])
  const checker = all.getTypeChecker()
  const file = all.getSourceFile(join(root, of))
  const module = file && checker.getSymbolAtLocation(file)
  assert.ok(file && module, of)
  const found = new Map<string, Set<string>>()
  for (const symbol of checker.getExportsOfModule(module)) {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
    const type = checker.getDeclaredTypeOfSymbol(target)
    const isType = (target.flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface)) !== 0
    const value = target.valueDeclaration && checker.getTypeOfSymbolAtLocation(target, target.valueDeclaration)
    const names = (isType ? type : (value ?? type)).getProperties().map(({ name }) => name)
    // Members with symbols are Node's, and their names differ between the modules.
    found.set(symbol.name, new Set(names.filter((it) => !it.startsWith('__@'))))
  }
  return found
}

test('our types have every export of the types of pg, and every member of those', { timeout: 120_000 }, () => {
  const [ours, theirs] = [members(OURS), members(THEIRS)]
  assert.ok(theirs.size > 30 && (theirs.get('ClientConfig')?.size ?? 0) > 20)
  const missing: string[] = []
  for (const [name, names] of theirs) {
    const mine = ours.get(name)
    if (mine === undefined) missing.push(name)
    else for (const it of names) if (!mine.has(it) && !NOT_THERE.has(it)) missing.push(`${name}.${it}`)
  }
  assert.deepEqual(missing, [])
})

test('our types leave out what pg does not have, though its types declare it', () => {
  const { Client } = require('pg-real') as { Client: { prototype: object } }
  for (const name of NOT_THERE) assert.ok(!(name in Client.prototype), name)
})
