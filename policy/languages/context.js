// Runs the program text from standard input in a context without node's own things. One
// function of ours goes in, so that what is printed comes out at once: it has no prototype,
// is held by a closure that hands it text only, and none of its errors get out. No other
// object of ours goes in, so nothing leads from there to ours.
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
  return (value) => { if (value !== undefined) log(value) }
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
let value
try {
  value = vm.runInContext(code, context, { filename: "code.js" })
} catch (error) {
  status = 1
  try { complaint = `${error}` } catch { complaint = "Error: it cannot be shown" }
}
try {
  ended(value)
} catch (error) {
  status = 1
  complaint = complaint || "Error: the value cannot be shown"
}
if (status) print(2, text(complaint) + "\n")
process.exit(status)
