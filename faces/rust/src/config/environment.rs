//! The environment of the process: its variables, its user, the sockets on its machine. They are
//! passed in as functions, so that tests need not change the process.

use std::path::{Path, PathBuf};

pub(super) use onetrip_postgres::client::connect::passfile::SOCKET_DIRECTORIES;

/// Where the machine's service file is, unless `PGSYSCONFDIR` says it: Debian's directory.
const COMMON_DIRECTORY: &str = "/etc/postgresql-common";

/// What [`Config::resolve`](super::Config::resolve) reads of its environment.
pub(super) struct Surroundings<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) exists: &'a dyn Fn(&Path) -> bool,
    pub(super) system_user: &'a dyn Fn() -> Option<String>,
}

impl Surroundings<'_> {
    /// The host if none is given: the directory that holds a socket for this port, else localhost.
    /// (libpq takes its built-in directory even if it holds no socket.)
    pub(super) fn default_host(&self, port: u16) -> &'static str {
        let holds_socket = |directory: &&str| (self.exists)(&socket_in(Path::new(directory), port));
        SOCKET_DIRECTORIES.into_iter().find(holds_socket).unwrap_or("localhost")
    }

    /// The user if none is given: `$USER`, `$LOGNAME` or `%USERNAME%`, else the system's name for
    /// this process's user.
    pub(super) fn user(&self) -> Option<String> {
        let variables = ["USER", "LOGNAME", "USERNAME"];
        let named = variables.into_iter().find_map(|name| self.filled(name));
        named.or_else(|| (self.system_user)())
    }

    /// The password file if none is named.
    pub(super) fn passfile(&self) -> Option<PathBuf> {
        if cfg!(windows) {
            let data = self.filled("APPDATA")?;
            return Some(Path::new(&data).join("postgresql").join("pgpass.conf"));
        }
        Some(Path::new(&self.filled("HOME")?).join(".pgpass"))
    }

    /// The service files in the order in which they are looked at: the one that is named, else the
    /// user's; and the machine's.
    pub(super) fn service_files(&self, named: Option<&Path>) -> Vec<PathBuf> {
        let own = || match cfg!(windows) {
            true => self.filled("APPDATA").map(|data| Path::new(&data).join("postgresql")),
            false => self.filled("HOME").map(PathBuf::from),
        };
        let named = named.map(Path::to_owned);
        let first = named.or_else(|| own().map(|directory| directory.join(".pg_service.conf")));
        let common = self.filled("PGSYSCONFDIR").unwrap_or_else(|| COMMON_DIRECTORY.to_owned());
        first.into_iter().chain([Path::new(&common).join("pg_service.conf")]).collect()
    }

    /// A TLS file in its default directory.
    pub(super) fn tls_file(&self, name: &str) -> Option<PathBuf> {
        let directory = match cfg!(windows) {
            true => Path::new(&self.filled("APPDATA")?).join("postgresql"),
            false => Path::new(&self.filled("HOME")?).join(".postgresql"),
        };
        Some(directory.join(name))
    }

    fn filled(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }
}

/// The name of this process's user if no variable has it, as in most containers: the owner of
/// `/proc/self`, looked up in `/etc/passwd`.
#[cfg(target_os = "linux")]
pub(super) fn system_user() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn system_user() -> Option<String> {
    None
}

/// The file of a server's socket in its directory.
pub(super) fn socket_in(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!(".s.PGSQL.{port}"))
}
