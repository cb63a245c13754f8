// A thin client of sjail: every answer is sjail's, nothing is decided here.
//
//   const Sandbox = require('./sandbox')
//   const result = await Sandbox.execute({ language: 'javascript', code: '40 + 2', timeout: 5000 })
'use strict'
const { spawn } = require('node:child_process')

const SJAIL = process.env.SJAIL || 'sjail'

// Runs sjail to its end; a program that cannot be started is an error.
function call(words, input = '', options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(SJAIL, words, { cwd: options.cwd, stdio: 'pipe' })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text) => { stdout += text })
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, stdout, stderr }))
    child.stdin.on('error', () => {})
    child.stdin.end(input)
  })
}

async function json(words, input, options) {
  const { stdout, stderr } = await call(words, input, options)
  try {
    return JSON.parse(stdout)
  } catch {
    throw new Error(stderr.trim() || 'sjail gave no answer')
  }
}

// Runs a program text; every error is in the result.
async function execute({ language, code, timeout = 30000, maxOutputSize = 1048576 }) {
  const words = ['code', `--language=${language}`, `--timeout=${timeout}ms`, `--max-output=${maxOutputSize}`, '-']
  try {
    return await json(words, code)
  } catch (error) {
    return { success: false, output: '', stderr: '', exitCode: 125, executionTime: 0, error: error.message }
  }
}

const sandbox_check = ({ command, context }) => json(['check', '--jsonl'], JSON.stringify({ command, context }) + '\n')

function sandbox_exec({ command, require_approval, dry_run, timeout = 60000, env = {} }) {
  const words = ['run', '--json', '--no-wait', `--timeout=${timeout}ms`]
  if (require_approval) words.push('--require-approval')
  if (dry_run) words.push('--dry-run')
  for (const [name, value] of Object.entries(env)) words.push(`--env=${name}=${value}`)
  return json([...words, `-c=${command}`])
}

const sandbox_queue_list = ({ status = 'pending' } = {}) => json(['queue', 'list', '--json', `--status=${status}`])

function sandbox_queue_approve({ id, approved_by, notes }) {
  const words = ['queue', 'approve', '--json']
  if (approved_by) words.push(`--approved-by=${approved_by}`)
  if (notes) words.push(`--note=${notes}`)
  return json([...words, '--', id])
}

function sandbox_queue_reject({ id, rejected_by, reason }) {
  const words = ['queue', 'reject', '--json']
  if (rejected_by) words.push(`--rejected-by=${rejected_by}`)
  if (reason) words.push(`--reason=${reason}`)
  return json([...words, '--', id])
}

function sandbox_audit_log({ limit = 50, risk_level, since, command_pattern } = {}) {
  const words = ['audit', 'log', '--json', `--last=${limit}`]
  if (risk_level) words.push(`--risk-level=${risk_level}`)
  if (since) words.push(`--since=${since}`)
  if (command_pattern) words.push(`--command-pattern=${command_pattern}`)
  return json(words)
}

const sandbox_audit_stats = ({ period = 'all' } = {}) => json(['audit', 'stats', '--json', `--period=${period}`])

function sandbox_allowlist_add({ pattern, description, auto_approve = true }) {
  const words = ['allowlist', 'add', '--json']
  if (description) words.push(`--reason=${description}`)
  if (!auto_approve) words.push('--no-auto-approve')
  return json([...words, '--', pattern])
}

const sandbox_allowlist_remove = ({ pattern }) => json(['allowlist', 'remove', '--json', '--', pattern])
const sandbox_allowlist_test = ({ command }) => json(['allowlist', 'test', '--json', '--', command])

module.exports = {
  execute,
  sandbox_check,
  sandbox_exec,
  sandbox_queue_list,
  sandbox_queue_approve,
  sandbox_queue_reject,
  sandbox_audit_log,
  sandbox_audit_stats,
  sandbox_allowlist_add,
  sandbox_allowlist_remove,
  sandbox_allowlist_test,
}
