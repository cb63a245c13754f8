//! Memory, queues and keys of the host that are in no file system.

use sjail_tests::attack::files::CANARY;
use sjail_tests::attack::ipc::plant;
use sjail_tests::{Test, Verdict};

use super::attempt::{Control, Plan, attempt};

pub fn tests() -> Vec<Test> {
    use Control::Bare;
    vec![
        attempt("b15_sysv_shared_memory", Bare, |_| {
            let id = plant::segment(key())?;
            Ok(Plan::new(["shm".to_string(), key().to_string()])
                .keep(Planted(move || plant::remove_segment(id))))
        }),
        attempt("b15_sysv_message_queue", Bare, |_| {
            let id = plant::queue(key())?;
            Ok(Plan::new(["msg-queue".to_string(), key().to_string()])
                .keep(Planted(move || plant::remove_queue(id))))
        }),
        attempt("b15_sysv_semaphore", Bare, |_| {
            let id = plant::semaphore(key())?;
            Ok(Plan::new(["sem".to_string(), key().to_string()])
                .keep(Planted(move || plant::remove_semaphore(id))))
        }),
        attempt("b15_posix_message_queue", Bare, |_| {
            let name = unique();
            plant::posix_queue(&name)?;
            Ok(
                Plan::new(["mqueue", &name])
                    .keep(Planted(move || plant::remove_posix_queue(&name))),
            )
        }),
        attempt("b15_posix_shared_memory", Bare, |_| {
            let name = unique();
            std::fs::write(format!("/dev/shm/{name}"), CANARY)?;
            Ok(Plan::new(["posix-shm", &name]).keep(Planted(move || {
                let _ = std::fs::remove_file(format!("/dev/shm/{name}"));
            })))
        }),
        attempt("b15_users_keyring", Bare, |_| key_in_the_keyring()),
    ]
}

fn key_in_the_keyring() -> Verdict<Plan> {
    let name = unique();
    let key = plant::key(&name)?;
    Ok(Plan::new(["keyring", &name]).keep(Planted(move || plant::remove_key(key))))
}

/// A key that no other test of this run uses.
fn key() -> i32 {
    0x5a_0000 + std::process::id() as i32
}

/// A name that no other test of this run uses.
fn unique() -> String {
    format!("sjail-test-{}", std::process::id())
}

/// Takes away what was planted when the attempt is over.
struct Planted<F: Fn()>(F);

impl<F: Fn()> Drop for Planted<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
