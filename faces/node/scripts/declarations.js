'use strict'
// Reduces the compiler's declarations to those that can be reached from the exports of a package. The
// others would take as much room again, and users can't name them.

const { readFileSync } = require('node:fs')
const ts = require('typescript')

/** The reduced declarations by file, reached from these entry files. */
function reachable(entries, options) {
  const program = ts.createProgram(entries, { ...options, noLib: true, types: [] })
  const checker = program.getTypeChecker()
  const folder = commonFolder(entries)
  const used = new Set()
  const hidden = new Set()

  const isOurs = (node) => node.getSourceFile().fileName.startsWith(folder)

  const exported = new Set()
  for (const entry of entries) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry))
    for (const symbol of checker.getExportsOfModule(module)) exported.add(resolved(symbol))
  }

  function resolved(symbol) {
    return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  }

  /** Whether a constructor or method takes a type that users can't name, and so is not for them. */
  const isInner = (node) => {
    let inner = false
    const look = (it) => {
      const symbol =
        ts.isIdentifier(it) && ts.isTypeReferenceNode(it.parent) && checker.getSymbolAtLocation(it)
      const target = symbol && resolved(symbol)
      const isType = target && target.flags & ts.SymbolFlags.Type & ~ts.SymbolFlags.TypeParameter
      if (isType && !exported.has(target) && target.declarations?.some(isOurs)) inner = true
      ts.forEachChild(it, look)
    }
    for (const parameter of node.parameters) look(parameter)
    return inner
  }

  const useSymbol = (symbol) => {
    for (const node of symbol?.declarations ?? []) if (isOurs(node)) use(node)
    if (symbol && symbol.flags & ts.SymbolFlags.Alias)
      useSymbol(checker.getImmediateAliasedSymbol(symbol))
  }

  /** Marks a top-level declaration, or a name of an import or export list, as used. */
  const use = (node) => {
    const part = partOf(node)
    if (used.has(part)) return
    used.add(part)
    if (!isListed(part)) visit(part)
  }

  const visit = (node) => {
    if (isMemberOfClass(node) && isInner(node)) return void hidden.add(node)
    // `implements` is dropped: without its removed members a class may not satisfy the interface.
    if (isImplements(node)) return
    if (ts.isIdentifier(node)) useSymbol(checker.getSymbolAtLocation(node))
    ts.forEachChild(node, visit)
  }

  for (const entry of entries) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(entry))
    for (const symbol of checker.getExportsOfModule(module)) useSymbol(symbol)
  }
  const files = program.getSourceFiles().filter((it) => it.fileName.startsWith(folder))
  // `export *` is kept if its file has used declarations.
  const texts = files.map((file) => [
    file.fileName,
    file.statements.map((it) => textOf(it, used, hidden)).join(''),
  ])
  return new Map(texts.filter(([name, text]) => text.trim() !== '' || entries.includes(name)))
}

/** A statement at the top of a file, or one name of an import or export. */
function partOf(node) {
  let part = node
  while (!isListed(part) && part.parent && !ts.isSourceFile(part.parent)) part = part.parent
  return part
}

function isListed(node) {
  return ts.isImportSpecifier(node) || ts.isExportSpecifier(node)
}

function isMemberOfClass(node) {
  return (
    ts.isConstructorDeclaration(node) ||
    (ts.isMethodDeclaration(node) && ts.isClassDeclaration(node.parent))
  )
}

function isImplements(node) {
  return ts.isHeritageClause(node) && node.token === ts.SyntaxKind.ImplementsKeyword
}

function textOf(statement, used, hidden) {
  const text = statement.getFullText()
  if (ts.isExportDeclaration(statement) && !statement.exportClause) return text
  const list = listOf(statement)
  if (!list) return used.has(statement) ? narrow(withoutHidden(statement, hidden)) : ''
  const kept = list.elements.filter((it) => used.has(it)).map((it) => it.getText())
  if (kept.length === 0) return ''
  const names = kept.length > 3 ? `{\n  ${kept.join(',\n  ')},\n}` : `{ ${kept.join(', ')} }`
  const start = list.getStart() - statement.getFullStart()
  return text.slice(0, start) + names + text.slice(list.end - statement.getFullStart())
}

function withoutHidden(statement, hidden) {
  let text = statement.getFullText()
  const members = statement.members ?? []
  for (const member of members.filter((it) => hidden.has(it)).reverse()) {
    const start = member.getStart() - statement.getFullStart()
    const isMethod = ts.isMethodDeclaration(member)
    const end = member.end - statement.getFullStart()
    // The start of its comment.
    const from = isMethod ? member.getFullStart() - statement.getFullStart() : start
    text = text.slice(0, from) + (isMethod ? '' : 'private constructor();') + text.slice(end)
  }
  for (const clause of (statement.heritageClauses ?? []).filter(isImplements)) {
    const [from, end] = [clause.pos, clause.end].map((at) => at - statement.getFullStart())
    text = text.slice(0, from) + text.slice(end)
  }
  return text
}

/** Indents by tabs: the compiler's four blanks are a tenth of the size. */
function narrow(text) {
  return text.replace(/^(?: {4})+/gm, (blanks) => '\t'.repeat(blanks.length / 4))
}

function listOf(statement) {
  if (ts.isExportDeclaration(statement)) return statement.exportClause
  if (!ts.isImportDeclaration(statement)) return undefined
  const names = statement.importClause?.namedBindings
  return names && ts.isNamedImports(names) ? names : undefined
}

function commonFolder(files) {
  const [first] = files
  return first.slice(0, first.lastIndexOf('/types/') + '/types/'.length)
}

/** Reads options as the compiler would. */
function optionsOf(file) {
  const { config } = ts.parseConfigFileTextToJson(file, readFileSync(file, 'utf8'))
  return ts.convertCompilerOptionsFromJson(config.compilerOptions, '.').options
}

module.exports = { optionsOf, reachable }
