//! `sjail mcp`: the sandbox as tools for an agent, over standard input and output.
//!
//! JSON-RPC, one object a line (`rpc`); `session` answers the protocol's calls and
//! keeps track of what is under way; `catalog` says which tools there are and what they
//! take; the rest does what they say. Whatever executes goes through `sjail run` as it is
//! typed (`runner`), so a tool can do nothing that the command line could not, and
//! nothing about isolation can be said here at all.

mod answers;
mod catalog;
mod desk;
mod execute;
mod files;
mod rpc;
mod runner;
mod session;

use crate::error::Result;

/// The text that tells an agent how to work with the sandbox.
pub const INSTRUCTIONS: &str = include_str!("../../packaging/agent/instructions.md");

/// Serves tools to an agent over standard input and output (Model Context Protocol).
#[derive(Debug, clap::Args)]
pub struct McpArgs {
    /// Also offer what only the owner may do: approve, reject, change the allow list.
    /// Never for an agent: it would approve itself
    #[arg(long)]
    operator: bool,
    /// The agent's name in the records; default: what the client calls itself
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// The session's name in the records
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Serves until the client hangs up.
pub fn run(args: McpArgs) -> Result<u8> {
    let sjail = runner::Sjail::here()?;
    let policy = catalog::Policy::of(&sjail)?;
    let role = if args.operator {
        catalog::Role::Operator
    } else {
        catalog::Role::Agent
    };
    let tools = catalog::offered(role, &policy);
    session::serve(session::Settings {
        sjail,
        policy,
        tools,
        agent: args.agent,
        session: args.session,
    })
}
