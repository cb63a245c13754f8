// Put here by `sjail hook install opencode`; `sjail hook uninstall opencode` removes it.
// Asks sjail before each tool is used. Whatever goes wrong is a no.
import { spawnSync } from "node:child_process"

const SJAIL = "@SJAIL@"

// The line to run instead, if there is one; an error where the tool may not be used.
function asked(tool, sessionID, cwd, args) {
  if (typeof cwd !== "string") throw new Error("sjail could not be asked: the folder is not known")
  const question = JSON.stringify({ tool, sessionID, cwd, args })
  const done = spawnSync(SJAIL, ["hook", "opencode"], { input: question, encoding: "utf8" })
  if (done.status !== 0) throw new Error(done.stderr || "sjail could not be asked")
  const answer = JSON.parse(done.stdout)
  if (answer.decision === "deny") throw new Error(answer.reason)
  if (answer.decision !== "allow" && answer.decision !== "none") throw new Error("sjail gave no answer")
  return answer.command
}

// The line goes where the tool reads it, however it spells that.
function rewritten(args, command) {
  const spelled = ["command", "cmd"].filter((name) => args[name] != null)
  return { ...args, ...Object.fromEntries(spelled.map((name) => [name, command])) }
}

export default {
  id: "sjail",
  // OpenCode 1 begins here,
  server: async ({ directory }) => ({
    "tool.execute.before": async (input, output) => {
      const command = asked(input.tool, input.sessionID, directory, output.args)
      if (command) Object.assign(output.args, rewritten(output.args, command))
    },
  }),
  // and OpenCode 2 here.
  setup: async (context) => {
    await context.tool.hook("execute.before", async (event) => {
      const session = await context.session.get({ sessionID: event.sessionID })
      const command = asked(event.tool, event.sessionID, session.location.directory, event.input)
      if (command) event.input = rewritten(event.input, command)
    })
  },
}
