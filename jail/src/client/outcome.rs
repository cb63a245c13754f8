//! Telling how a run ended, and where that is left when nobody hears it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use sjail_policy::wire::request::{self as wire, Outcome};

use super::{Client, Trouble};
use crate::error::Error;

/// So long the broker may take to say that it has an outcome; after that it is left in
/// the spool.
const TOLD: Duration = Duration::from_secs(10);

/// Tells how a run ended. Should the broker be gone, or go while it is told, the next one
/// is told; should there be none, it finds the outcome in the spool. Does something else
/// while the first of them is busy with it.
pub fn tell(client: &mut Client, outcome: &Outcome, meanwhile: impl FnOnce()) -> Result<(), Error> {
    let mut told = tell_once(client, outcome, meanwhile);
    if let Err(Trouble::Gone(_)) = told
        && let Ok(mut next) = Client::connect(&client.desk)
    {
        told = tell_once(&mut next, outcome, || ());
    }
    match told {
        // Never let run, or told already.
        Ok(()) | Err(Trouble::Unknown) => Ok(()),
        Err(trouble) => spool(&client.desk.spool, outcome).map_err(|error| {
            Error::Broker(format!(
                "{}; and {} cannot be written: {error}",
                trouble.said(),
                client.desk.spool.display()
            ))
        }),
    }
}

fn tell_once(
    client: &mut Client,
    outcome: &Outcome,
    meanwhile: impl FnOnce(),
) -> Result<(), Trouble> {
    // A broker that hangs must not hold up a run that is over.
    let _ = client.stream.set_read_timeout(Some(TOLD));
    let _ = client.stream.set_write_timeout(Some(TOLD));
    client.send(wire::OUTCOME, outcome, false)?;
    meanwhile();
    client.next_reply().map(drop)
}

fn spool(folder: &Path, outcome: &Outcome) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let draft = folder.join(format!("{}.new", outcome.id));
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let told = file
        .write_all(&serde_json::to_vec(outcome)?)
        .and_then(|()| fs::rename(&draft, folder.join(format!("{}.json", outcome.id))));
    if told.is_err() {
        // Half a word is of no use to anybody.
        let _ = fs::remove_file(&draft);
    }
    told
}
