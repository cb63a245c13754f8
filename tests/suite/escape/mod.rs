//! Ways out. Each attempt is a real program that tries it in the jail and is
//! held; and, so that no check is hollow, tries it once more without the
//! protection, where it must get out. Names begin with the attack's number in
//! the project's list of ways out that others were caught by.

mod attempt;
mod bombs;
mod environment;
mod files;
mod hiding;
mod ipc;
mod kernel;
mod lifetime;
pub mod neighbours;
mod newer;
mod peers;
mod project;
pub mod protected;
pub mod repositories;
pub mod second_names;
pub mod second_paths;
mod secrets;
mod sockets;
mod terminal;

use sjail_tests::Test;

pub fn suite() -> Vec<Test> {
    [
        kernel::tests(),
        peers::tests(),
        ipc::tests(),
        sockets::tests(),
        files::tests(),
        secrets::tests(),
        environment::tests(),
        terminal::tests(),
        lifetime::tests(),
        hiding::tests(),
        newer::tests(),
        project::tests(),
        bombs::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
