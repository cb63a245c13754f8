// Runs the program text from standard input in a context without node's own things. What
// the context prints it keeps as text, and only text is ever taken out of it: no object of
// ours goes in, so nothing leads from there to ours.
const { readFileSync, writeSync } = require("fs")
const vm = require("vm")
const code = readFileSync(0, "utf8")
const context = vm.createContext(Object.create(null), { microtaskMode: "afterEvaluate" })
const setUp = `(() => {
  const lines = { out: [], err: [] }
  let size = 0
  const shown = (value) => {
    if (typeof value === "string") return value
    if (value instanceof Error) return String(value)
    if (typeof value === "object" && value !== null) {
      try { return JSON.stringify(value) } catch { return String(value) }
    }
    return typeof value === "bigint" ? value + "n" : String(value)
  }
  const to = (list) => (...values) => {
    if (size > 67108864) return
    const line = values.map(shown).join(" ")
    size += line.length + 1
    list.push(line)
  }
  const log = to(lines.out)
  const complain = to(lines.err)
  globalThis.console = { log, info: log, debug: log, warn: complain, error: complain }
  return (name, value) => (value !== undefined && log(value), lines[name].splice(0).join("\\n"))
})()`
const ended = vm.runInContext(setUp, context)
const print = (descriptor, text) => {
  const bytes = Buffer.from(text)
  let at = 0
  while (at < bytes.length) {
    try { at += writeSync(descriptor, bytes, at) } catch (error) { if (error.code !== "EAGAIN") return }
  }
}
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
let printed = ""
let said = ""
try {
  printed = text(ended("out", value))
  said = text(ended("err"))
} catch (error) {
  status = 1
  complaint = complaint || "Error: the value cannot be shown"
}
if (printed) print(1, printed + "\n")
if (said) print(2, said + "\n")
if (status) print(2, text(complaint) + "\n")
process.exit(status)
