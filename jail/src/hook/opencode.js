// Put here by `sjail hook install opencode`; `sjail hook uninstall opencode` removes it.
// Asks sjail before each tool is used. Whatever goes wrong is a no.
import { spawnSync } from "node:child_process"

const SJAIL = "@SJAIL@"

export const Sjail = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const question = { tool: input.tool, sessionID: input.sessionID, cwd: directory, args: output.args }
    const asked = spawnSync(SJAIL, ["hook", "opencode"], { input: JSON.stringify(question), encoding: "utf8" })
    if (asked.status !== 0) throw new Error(asked.stderr || "sjail could not be asked")
    const answer = JSON.parse(asked.stdout)
    if (answer.decision === "deny") throw new Error(answer.reason)
    if (answer.decision !== "allow" && answer.decision !== "none") throw new Error("sjail gave no answer")
    if (answer.command) output.args.command = answer.command
  },
})
