//! Policy files: what they say, who may say it, and what holds in the end.
//!
//! Built-in profile → system file → user's file → workspace's file (tightens only, until
//! its owner trusts it) → command line. The library reads no file: whoever calls it gathers
//! [`Sources`] and hands them to [`load`].

mod command_line;
mod document;
mod error;
mod grant;
mod key;
mod layers;
mod origin;
mod ownership;
mod policy;
mod reader;
mod run;
mod sandbox_md;
mod security_config;
mod setting;
mod testcase;
mod tools;
mod value;

pub use command_line::{CommandLine, WorkspaceChoice};
pub(crate) use error::nearest;
pub use error::{At, Error};
pub use grant::{Bind, GrantPath, refused_source};
pub use key::{Key, LockPattern};
pub use layers::{
    Format, Ignored, Loaded, Loosened, MAX_FILE, Notice, PolicyFile, ReadFile, Sources, Trust,
    WORKSPACE_FILES, WorkspaceFile, load,
};
pub use origin::{Layer, Origin, Sourced};
pub use ownership::{GroupMembers, Holder, HolderKind, Owner};
pub use policy::Policy;
pub use run::Run;
pub use setting::{Level, Mode, OnFailure, Preview, Scope, Setting, ToolProfile};
pub use testcase::{Expect, Subject, TestCase};
pub use tools::{
    is_known as is_known_tool, is_own as is_own_tool, names as tool_names,
    registered as registered_tools,
};
pub use value::tool as tool_name;

#[cfg(test)]
mod tests;
