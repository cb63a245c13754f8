//! The one database file: opening it, its tables, and who may touch it.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};

/// Marks the file as ours (`SJA1`).
const APPLICATION_ID: i64 = 0x534a_4131;
/// The version of the tables.
const VERSION: i64 = 1;
/// The tables, the indexes and the triggers that keep records from being changed.
const SCHEMA: &str = include_str!("store.sql");

/// Where the files of one broker lie.
#[derive(Debug, Clone)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// The files in this folder, usually `$XDG_STATE_HOME/sjail`.
    pub fn new(folder: impl Into<PathBuf>) -> Files {
        Files {
            folder: folder.into(),
        }
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.folder.join("audit.db")
    }

    /// The signed statement of how far the log goes.
    pub fn head(&self) -> PathBuf {
        self.folder.join("audit.head")
    }

    /// The signing key.
    pub fn key(&self) -> PathBuf {
        self.folder.join("audit.key")
    }
}

/// Opens the database for the one writer, making it when there is none.
pub fn open(files: &Files) -> Result<Connection> {
    let path = files.database();
    let connection = open_private(&path)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA cache_size = -4096;
             PRAGMA wal_autocheckpoint = 4000;
             PRAGMA busy_timeout = 5000;",
        )
        .map_err(Error::database("set up the connection"))?;
    connection.set_prepared_statement_cache_capacity(64);
    prepare(&connection, &path)?;
    Ok(connection)
}

/// Opens the database to read from it, beside the writer.
pub fn open_reader(path: &Path) -> Result<Connection> {
    // Without this look SQLite would only say "unable to open".
    fs::metadata(path).map_err(Error::file("read", path))?;
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(Error::database("open the log for reading"))?;
    connection
        .execute_batch(
            "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA busy_timeout = 5000;",
        )
        .map_err(Error::database("set up the connection"))?;
    let version = pragma(&connection, "user_version")?;
    if pragma(&connection, "application_id")? != APPLICATION_ID || version != VERSION {
        return Err(Error::StoreVersion {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    Ok(connection)
}

/// SQLite would create the file with the umask's rights: make it ours alone first.
fn open_private(path: &Path) -> Result<Connection> {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
        .map_err(Error::file("open", path))?;
    let metadata = file.metadata().map_err(Error::file("read", path))?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Error::UnsafeFolder {
            path: path.to_owned(),
            problem: format!("it belongs to uid {}", metadata.uid()),
        });
    }
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .map_err(Error::file("restrict", path))?;
    }
    drop(file);
    Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(Error::database("open the log"))
}

fn prepare(connection: &Connection, path: &Path) -> Result<()> {
    let (application, version) = (
        pragma(connection, "application_id")?,
        pragma(connection, "user_version")?,
    );
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(Error::database("read the tables"))?;
    if tables == 0 && application == 0 {
        let script = format!(
            "BEGIN IMMEDIATE;\n{SCHEMA}\nPRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {VERSION};\nCOMMIT;"
        );
        return connection
            .execute_batch(&script)
            .map_err(Error::database("make the tables"));
    }
    if application != APPLICATION_ID || version != VERSION {
        return Err(Error::StoreVersion {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    Ok(())
}

fn pragma(connection: &Connection, name: &str) -> Result<i64> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(Error::database("read the version"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_file_is_for_its_owner_alone_and_opens_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        drop(open(&files).unwrap());
        fs::set_permissions(files.database(), fs::Permissions::from_mode(0o644)).unwrap();
        drop(open(&files).unwrap());
        let mode = fs::metadata(files.database()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        open_reader(&files.database()).unwrap();
    }

    #[test]
    fn another_programs_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        Connection::open(files.database())
            .unwrap()
            .execute_batch("CREATE TABLE t(x); PRAGMA user_version = 9;")
            .unwrap();
        assert!(matches!(
            open(&files),
            Err(Error::StoreVersion { found: 9, .. })
        ));
    }

    #[test]
    fn a_link_in_place_of_the_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        std::os::unix::fs::symlink("elsewhere.db", files.database()).unwrap();
        assert!(matches!(open(&files), Err(Error::File { .. })));
    }
}
