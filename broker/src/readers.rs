//! Reading from the store beside the writer: a few connections, used in turn on
//! threads that may wait.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::store;

/// So many connections are kept open.
const KEPT: usize = 2;

/// Connections for reading.
#[derive(Clone)]
pub struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Readers of this database.
    pub fn new(path: PathBuf) -> Readers {
        Readers {
            path,
            idle: Arc::default(),
        }
    }

    /// Reads on a thread that may wait.
    pub async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let readers = self.clone();
        tokio::task::spawn_blocking(move || {
            let kept = readers.lock().pop();
            let connection = match kept {
                Some(connection) => connection,
                None => store::open_reader(&readers.path)?,
            };
            let result = work(&connection);
            let mut idle = readers.lock();
            if idle.len() < KEPT {
                idle.push(connection);
            }
            result
        })
        .await
        .map_err(|_| Error::WriterGone)?
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
