//! What a run might leave behind.

use crate::cleanup::{Leftover, Note, RunFolder};
use crate::result::RunId;

/// What this run might leave behind should it be killed: written down when the first such
/// thing is made, and hence usually never.
#[derive(Default)]
pub(super) struct Noted {
    note: Option<Note>,
    stays: bool,
}

impl Noted {
    pub(super) fn add(
        &mut self,
        id: &RunId,
        leftover: Leftover,
    ) -> Result<(), crate::cleanup::Error> {
        if self.note.is_none() {
            let folder = RunFolder::open()?;
            folder.sweep();
            self.note = Some(folder.note(id.as_str())?);
        }
        match &mut self.note {
            Some(note) => note.add(&leftover),
            None => Ok(()),
        }
    }

    /// Something could not be removed: the next start tries again.
    pub(super) fn stay(&mut self) {
        self.stays = true;
    }

    pub(super) fn done(self) {
        if let (Some(note), false) = (self.note, self.stays) {
            note.done();
        }
    }
}
