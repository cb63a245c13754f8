//! `sjail session`: which sessions are the owner's own.

use clap::Subcommand;
use serde_json::json;
use sjail_policy::show::inert;
use sjail_policy::wire::control as wire;

use crate::client::Client;
use crate::cmd::{print, print_json};
use crate::error::Result;

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub enum Session {
    /// Make a session the main one: not jailed under `sandbox.mode = "non-main"`
    Register {
        /// The name that its runs give with --session
        name: String,
    },
    /// Take that away
    Forget {
        /// The name
        name: String,
    },
    /// List the sessions that are registered
    List {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Does what was typed.
pub fn run(verb: Session) -> Result<u8> {
    let mut client = Client::connect()?;
    let mut register = |session: &str, role: &str| -> Result<()> {
        let call = wire::RegisterSession {
            session: session.to_owned(),
            role: role.to_owned(),
        };
        let _: serde_json::Value = client.call(wire::REGISTER_SESSION, &call)?;
        Ok(())
    };
    match verb {
        Session::Register { name } => {
            register(&name, "main")?;
            print(&format!("{}: main\n", inert(name.as_bytes())))?;
        }
        Session::Forget { name } => {
            register(&name, "none")?;
            print(&format!("{}: forgotten\n", inert(name.as_bytes())))?;
        }
        Session::List { json } => {
            let reply: wire::Sessions = client.call(wire::SESSIONS, &json!({}))?;
            if json {
                print_json(&reply)?;
                return Ok(0);
            }
            for one in reply.sessions {
                let name = inert(one.session.as_bytes());
                print(&format!(
                    "{name}  {}  by {}\n",
                    one.role,
                    inert(one.by.as_bytes())
                ))?;
            }
        }
    }
    Ok(0)
}
