// A thin client of sjail: every answer is sjail's, nothing is decided here.
//
//   const Sandbox = require('./sandbox')
//   const result = await Sandbox.execute({ language: 'javascript', code: '40 + 2', timeout: 5000 })
//   const check = Sandbox.sandbox_check({ command: 'rm -rf build' })   // or sandbox_check('rm -rf build')
'use strict'
const { spawn, spawnSync } = require('node:child_process')

const SJAIL = process.env.SJAIL || 'sjail'
const MOST = 64 << 20

// What sjail printed, or an error that says what it said instead.
function answer(stdout, stderr) {
  try {
    return JSON.parse(stdout)
  } catch {
    throw new Error(stderr.trim() || 'sjail gave no answer')
  }
}

// The same as a sentence: what failed, and what helps.
function unable(error) {
  if (error.code !== 'ENOENT') return new Error(`sjail cannot be asked: ${error.message}`)
  return new Error(`sjail cannot be started: there is no ${SJAIL}; install it, or name it in the variable SJAIL`)
}

// Runs sjail to its end.
function json(words, input = '') {
  const done = spawnSync(SJAIL, words, { input, encoding: 'utf8', maxBuffer: MOST })
  if (done.error) throw unable(done.error)
  return answer(done.stdout, done.stderr)
}

// The same, while others go on.
function later(words, input) {
  return new Promise((resolve, reject) => {
    const child = spawn(SJAIL, words, { stdio: 'pipe' })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text) => { stdout += text })
    child.stderr.setEncoding('utf8').on('data', (text) => { stderr += text })
    child.on('error', (error) => reject(unable(error)))
    child.on('close', () => {
      try { resolve(answer(stdout, stderr)) } catch (error) { reject(error) }
    })
    child.stdin.on('error', () => {})
    child.stdin.end(input)
  })
}

// Runs a program text; every error is in the result.
async function execute(options) {
  const { language, code, timeout = 30000, maxOutputSize = 1048576 } = options ?? {}
  const words = ['code', `--language=${language}`, `--timeout=${timeout}ms`, `--max-output=${maxOutputSize}`, '-']
  try {
    if (typeof code !== 'string') throw new Error('`code` is missing')
    return await later(words, code)
  } catch (error) {
    return { success: false, output: '', stderr: '', exitCode: 125, executionTime: 0, error: error.message }
  }
}

// Arguments by name, or in the order of these names: sandbox_check({ command }), sandbox_check(command, rest).
function named(given, ...names) {
  if (given.length === 1 && typeof given[0] === 'object' && given[0] !== null) return given[0]
  const all = {}
  given.forEach((value, at) => {
    if (names[at]) all[names[at]] = value
    else Object.assign(all, value)
  })
  return all
}

function sandbox_check(...given) {
  const { command, context } = named(given, 'command', 'context')
  return json(['check', '--jsonl'], JSON.stringify({ command, context }) + '\n')
}

function sandbox_exec(...given) {
  const { command, require_approval, dry_run, timeout = 60000, env = {}, approval } = named(given, 'command')
  const words = ['run', '--json', '--no-wait', `--timeout=${timeout}ms`]
  if (require_approval) words.push('--require-approval')
  if (dry_run) words.push('--dry-run')
  for (const [name, value] of Object.entries(env)) words.push(`--env=${name}=${value}`)
  if (approval) words.push(`--approval=${approval}`)
  if (command !== undefined) words.push(`-c=${command}`)
  return json(words)
}

function sandbox_queue_list(...given) {
  const { status = 'pending' } = named(given, 'status')
  return json(['queue', 'list', '--json', `--status=${status}`])
}

function sandbox_queue_approve(...given) {
  const { id, approved_by, notes } = named(given, 'id')
  const words = ['queue', 'approve', '--json']
  if (approved_by) words.push(`--approved-by=${approved_by}`)
  if (notes) words.push(`--note=${notes}`)
  return json([...words, '--', id])
}

function sandbox_queue_reject(...given) {
  const { id, rejected_by, reason } = named(given, 'id', 'reason')
  const words = ['queue', 'reject', '--json']
  if (rejected_by) words.push(`--rejected-by=${rejected_by}`)
  if (reason) words.push(`--reason=${reason}`)
  return json([...words, '--', id])
}

function sandbox_audit_log(...given) {
  const { limit = 50, risk_level, since, command_pattern } = named(given)
  const words = ['audit', 'log', '--json', `--last=${limit}`]
  if (risk_level) words.push(`--risk-level=${risk_level}`)
  if (since) words.push(`--since=${since}`)
  if (command_pattern) words.push(`--command-pattern=${command_pattern}`)
  return json(words)
}

function sandbox_audit_stats(...given) {
  const { period = 'all' } = named(given, 'period')
  return json(['audit', 'stats', '--json', `--period=${period}`])
}

function sandbox_allowlist_add(...given) {
  const { pattern, description, auto_approve = true } = named(given, 'pattern')
  const words = ['allowlist', 'add', '--json']
  if (description) words.push(`--reason=${description}`)
  if (!auto_approve) words.push('--no-auto-approve')
  return json([...words, '--', pattern])
}

function sandbox_allowlist_remove(...given) {
  const { pattern } = named(given, 'pattern')
  return json(['allowlist', 'remove', '--json', '--', pattern])
}

function sandbox_allowlist_test(...given) {
  const { command } = named(given, 'command')
  return json(['allowlist', 'test', '--json', '--', command])
}

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
