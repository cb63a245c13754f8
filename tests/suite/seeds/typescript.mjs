// The protocol's own TypeScript client against `sjail mcp`: client.mjs SJAIL FOLDER PACKAGE,
// the package in that folder's node_modules. Prints what the test compares.
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { pathToFileURL } from "node:url"

const [sjail, folder, name] = process.argv.slice(2)
const older = name === "@modelcontextprotocol/sdk"
const from = createRequire(folder + "/package.json")
const load = async (part) => import(pathToFileURL(from.resolve(name + part)).href)
const { Client } = await load(older ? "/client/index.js" : "")
const { StdioClientTransport } = await load(older ? "/client/stdio.js" : "/stdio")

const client = new Client({ name: "typescript", version: "1" })
const transport = new StdioClientTransport({ command: sjail, args: ["mcp"], env: { ...process.env } })
await client.connect(transport)
const call = (name, args, options) => {
  const asked = { name, arguments: args }
  return older ? client.callTool(asked, undefined, options) : client.callTool(asked, options)
}

console.log(client.getServerVersion().name, client.getInstructions().includes("sandbox_check"))
await client.ping().then(() => console.log("pong"), (error) => console.log("ping:", error.message))
// Asking for the tools makes this client check every answer against its schema from here on.
const { tools } = await client.listTools()
console.log(tools.length, tools.every((tool) => tool.inputSchema.type === "object" && tool.outputSchema?.type === "object"))

const check = await call("sandbox_check", { command: "rm -rf /tmp/*", context: { working_dir: "/job", user: "agent" } })
console.log(check.structuredContent.risk_level, check.structuredContent.risk_reasons.join(), check.structuredContent.suggested_action)
const run = await call("sandbox_exec", { command: "echo $NODE_ENV", env: { NODE_ENV: "production" }, timeout: 60000 })
console.log(run.isError, run.structuredContent.status, run.structuredContent.stdout.trim(), run.structuredContent.exit_code)
const code = await call("run_code", { language: "bash", code: "echo $((6 * 7))", timeout: 60000 })
console.log(code.structuredContent.success, code.structuredContent.output)
await call("write", { path: "made.txt", content: "one\n" })
await call("edit", { path: "made.txt", old_string: "one", new_string: "two" })
console.log((await call("read", { path: "made.txt" })).content[0].text.trim())
const pending = await call("sandbox_exec", { command: "rm -rf build" })
console.log(pending.structuredContent.status, pending.structuredContent.next.includes(pending.structuredContent.approval.id))
for (const [name, args] of [["sandbox_queue_list", { status: "pending" }], ["sandbox_audit_log", { limit: 5 }], ["sandbox_audit_stats", { period: "7d" }], ["sandbox_allowlist_test", { command: "npm install express" }]]) {
  const said = await call(name, args)
  console.log(name, said.isError, Object.keys(said.structuredContent).length > 0)
}
// Wrong in every way: an answer each time, and the connection stands.
for (const [name, args] of [["sandbox_exec", {}], ["sandbox_exec", { command: 7 }], ["sandbox_exec", { command: "ls", privileged: true }], ["read", { path: "/etc/shadow" }]]) {
  const said = await call(name, args)
  console.log(name, said.isError, typeof said.content[0].text)
}
for (const name of ["sandbox_queue_approve", "nonsense"]) {
  await call(name, { id: "x" }).then((said) => console.log(name, "?", said.isError), (error) => console.log(name, error.code))
}
// Followed and called off.
const beats = []
const stop = new AbortController()
await call("sandbox_exec", { command: "touch started; sleep 600", timeout: 600000 }, {
  signal: stop.signal,
  onprogress: (beat) => { beats.push(beat.progress); if (existsSync("started")) stop.abort() },
}).then(() => console.log("ended?"), () => console.log("called off", beats.length > 0))
console.log((await call("sandbox_exec", { command: "echo still here" })).structuredContent.stdout.trim())
await client.close()
console.log("closed")
