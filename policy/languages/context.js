// Runs the program text from standard input in a context without node's own things. One
// function of ours goes in, so that what is printed comes out at once: it has no prototype,
// is held by a closure that hands it text only, and none of its errors get out. No other
// object of ours goes in, so nothing leads from there to ours; and what turns its errors into
// text is strict code, which `caller` does not give away.
"use strict"
const { readFileSync, writeSync } = require("fs")
const vm = require("vm")
const code = readFileSync(0, "utf8")
const context = vm.createContext(Object.create(null), { microtaskMode: "afterEvaluate" })
const setUp = `((write) => {
  const shown = (value) => {
    if (typeof value === "string") return value
    if (value instanceof Error) return String(value)
    if (typeof value === "object" && value !== null) {
      try { return JSON.stringify(value) } catch { return String(value) }
    }
    return typeof value === "bigint" ? value + "n" : String(value)
  }
  const to = (descriptor) => (...values) => {
    const line = values.map(shown).join(" ") + "\\n"
    try { write(descriptor, line) } catch {}
  }
  const log = to(1)
  const complain = to(2)
  globalThis.console = { log, info: log, debug: log, warn: complain, error: complain }
  const { then } = Promise.prototype
  const shows = (value) => { if (value !== undefined) log(value) }
  // Of a promise, what comes of it; of one that never settles, nothing.
  return (value) => { if (value instanceof Promise) then.call(value, shows); else shows(value) }
})`
const print = (descriptor, text) => {
  const bytes = Buffer.from(text)
  let at = 0
  while (at < bytes.length) {
    try { at += writeSync(descriptor, bytes, at) } catch (error) { if (error.code !== "EAGAIN") return }
  }
}
const ended = vm.runInContext(setUp, context)(Object.setPrototypeOf(print, null))
const text = (value) => {
  try { return typeof value === "string" ? value : "" } catch { return "" }
}
let status = 0
let complaint = ""
// Only the first counts. A promise that fails with nobody to catch it is an error like any other.
const failed = (error) => {
  if (status) return
  status = 1
  try { complaint = `${error}` } catch { complaint = "Error: it cannot be shown" }
}
process.on("unhandledRejection", (error) => failed(error))
let value
try {
  value = vm.runInContext(code, context, { filename: "code.js" })
} catch (error) {
  failed(error)
}
try {
  ended(value)
  // What a promise comes to is printed when its context is entered again.
  vm.runInContext("", context)
} catch {
  failed("Error: the value cannot be shown")
}
// By then node has told of every promise that failed.
setImmediate(() => {
  if (status) print(2, text(complaint) + "\n")
  process.exit(status)
})
