//! Where a command would run: plain data, gathered by the caller.

/// What the classifier may know about the surroundings of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The working directory, absolute.
    pub cwd: String,
    /// The workspace, absolute; changes below it are the ordinary case.
    pub workspace: String,
    /// The home folder of the user, absolute.
    pub home: String,
    /// The user's name.
    pub user: String,
    /// Folders whose programs are what their names say (root-owned, not writable by others).
    pub trusted_path: Vec<String>,
}

impl Context {
    /// A context whose workspace is the working directory, with the usual trusted folders.
    pub fn new(cwd: &str, home: &str, user: &str) -> Self {
        Context {
            cwd: cwd.to_owned(),
            workspace: cwd.to_owned(),
            home: home.to_owned(),
            user: user.to_owned(),
            trusted_path: [
                "/usr/local/sbin",
                "/usr/local/bin",
                "/usr/sbin",
                "/usr/bin",
                "/sbin",
                "/bin",
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }
}

impl Default for Context {
    fn default() -> Self {
        Context::new("/home/user/project", "/home/user", "user")
    }
}
