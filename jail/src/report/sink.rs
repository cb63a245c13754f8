//! Where the result object goes.

use std::fs::File;
use std::io::{self, Write};

use crate::cli::RunArgs;
use crate::error::Error;
use crate::result::RunResult;
use crate::sys;

/// Where the result object goes.
#[derive(Debug)]
pub enum Sink {
    /// Nobody asked for it.
    Nowhere,
    /// Standard output (`--json`).
    Output,
    /// A descriptor of the caller's (`--status-fd`).
    Descriptor(File),
}

impl Sink {
    /// Where it was asked for.
    pub fn of(args: &RunArgs) -> Result<Sink, Error> {
        Ok(match args.status_fd {
            Some(number) => Sink::Descriptor(
                sys::file::adopt(number)
                    .map_err(|errno| Error::StatusFd { number, errno })?
                    .into(),
            ),
            None if args.json => Sink::Output,
            None => Sink::Nowhere,
        })
    }

    /// Writes it there.
    pub fn take(&mut self, result: &RunResult) -> io::Result<()> {
        let write = |sink: &mut dyn Write| -> io::Result<()> {
            serde_json::to_writer(&mut *sink, result)?;
            sink.write_all(b"\n")?;
            sink.flush()
        };
        match self {
            Sink::Nowhere => Ok(()),
            Sink::Output => write(&mut io::stdout().lock()),
            Sink::Descriptor(file) => write(file),
        }
    }
}
