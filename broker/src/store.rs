//! The one database file: opening it, its tables, and who may touch it.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, Result};
use crate::private_file;

/// Marks the file as ours (`SJA1`).
const APPLICATION_ID: i64 = 0x534a_4131;
/// The version of the tables.
const VERSION: i64 = 4;
/// The tables, the indexes and the triggers that keep records from being changed.
const SCHEMA: &str = include_str!("store.sql");
/// What later versions have added: the version, the table, the column, its type.
const ADDED: [(i64, &str, &str, &str); 2] = [
    (2, "run", "asked", "BLOB"),
    (3, "allowed", "auto", "INTEGER NOT NULL DEFAULT 1"),
];

/// The indexes that later versions have added, as [`SCHEMA`] has them.
const INDEXED: [(i64, &str); 5] = [
    (4, "record_answer"),
    (4, "record_failed"),
    (4, "record_preview"),
    (4, "record_user"),
    (4, "record_command"),
];

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

    /// What is committed and not yet moved into the database.
    pub fn wal(&self) -> PathBuf {
        self.folder.join("audit.db-wal")
    }

    /// What makes the hashes of bindings useless to whoever wants to guess.
    pub fn salt(&self) -> PathBuf {
        self.folder.join("binding.salt")
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

/// Opens the database for the one writer, making it when there is none. What is committed
/// survives the end of this process; that it is on the disk is the ledger's to see to
/// (`Ledger::sync`), since not every record is worth the wait.
pub fn open(files: &Files) -> Result<Connection> {
    let path = files.database();
    let connection = open_private(&path)?;
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = NORMAL;
             PRAGMA foreign_keys = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA cache_size = -4096;
             PRAGMA temp_store = MEMORY;
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
    // Older tables can be read as they are; the next broker brings them up to date.
    if pragma(&connection, "application_id")? != APPLICATION_ID || !(1..=VERSION).contains(&version)
    {
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
    private_file::open(path)?;
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
    if application != APPLICATION_ID || !(1..=VERSION).contains(&version) {
        return Err(Error::StoreVersion {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    if version < VERSION {
        bring_up_to_date(connection, version)?;
    }
    Ok(())
}

/// Adds what the tables of an older version lack, all of it or nothing.
fn bring_up_to_date(connection: &Connection, from: i64) -> Result<()> {
    let mut script = String::from("BEGIN IMMEDIATE;\n");
    for (version, table, column, kind) in ADDED {
        let there: bool = connection
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2)",
                [table, column],
                |row| row.get(0),
            )
            .map_err(Error::database("read the tables"))?;
        if version > from && !there {
            script.push_str(&format!(
                "ALTER TABLE {table} ADD COLUMN {column} {kind};\n"
            ));
        }
    }
    for (version, name) in INDEXED {
        let made = SCHEMA
            .lines()
            .find(|line| line.starts_with(&format!("CREATE INDEX {name} ")));
        if let (true, Some(statement)) = (version > from, made) {
            script.push_str(&format!("DROP INDEX IF EXISTS {name};\n{statement}"));
            script.push('\n');
        }
    }
    script.push_str(&format!("PRAGMA user_version = {VERSION};\nCOMMIT;"));
    connection
        .execute_batch(&script)
        .map_err(Error::database("bring the tables up to date"))
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

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

    #[test]
    fn tables_of_the_first_version_are_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        drop(open(&files).unwrap());
        let old = Connection::open(files.database()).unwrap();
        old.execute_batch(
            "ALTER TABLE run DROP COLUMN asked; ALTER TABLE allowed DROP COLUMN auto; \
             DROP INDEX record_answer; DROP INDEX record_failed; DROP INDEX record_user; \
             PRAGMA user_version = 1;",
        )
        .unwrap();
        old.execute("INSERT INTO run VALUES ('run_1', 't', 1, 2, 3, 4, 5)", [])
            .unwrap();
        drop(old);
        assert!(open_reader(&files.database()).is_ok());
        let connection = open(&files).unwrap();
        assert_eq!(pragma(&connection, "user_version").unwrap(), VERSION);
        let kept: (String, Option<Vec<u8>>) = connection
            .query_row("SELECT token, asked FROM run", [], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        assert_eq!(kept, ("t".to_owned(), None));
        let shape = |connection: &Connection| -> Vec<String> {
            connection
                .prepare(
                    "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c \
                     WHERE t.type = 'table' \
                     UNION SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL \
                     ORDER BY 1",
                )
                .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect())
                .unwrap()
        };
        let fresh = tempfile::tempdir().unwrap();
        let fresh = open(&Files::new(fresh.path())).unwrap();
        assert_eq!(shape(&connection), shape(&fresh));
    }

    #[test]
    fn tables_of_a_later_version_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        let connection = open(&files).unwrap();
        connection
            .execute_batch("PRAGMA user_version = 99;")
            .unwrap();
        drop(connection);
        assert!(matches!(open(&files), Err(Error::StoreVersion { .. })));
        assert!(matches!(
            open_reader(&files.database()),
            Err(Error::StoreVersion { .. })
        ));
    }
}
