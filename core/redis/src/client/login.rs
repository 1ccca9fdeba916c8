//! Who logs in: what is sent for a user and a password, of which either may be missing. It is the
//! same for a single server, for the nodes of a cluster and for Sentinels.

use crate::command::Command;

/// A user and a password. An empty one counts as missing, as in redis-py. `Debug` shows nothing of
/// it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The ACL user; without one, the server's user `default`.
    pub user: Option<String>,
    /// The password. With a user and no password, an empty one is sent: a user may need none
    /// (`nopass`), and a name that is not sent would make its owner the user `default`. Without
    /// either there is no login.
    pub password: Option<String>,
}

impl Login {
    /// HELLO, which changes to RESP3 and logs in. `name`: that of the connection, for CLIENT LIST.
    pub fn hello(&self, name: Option<&str>) -> Command {
        let mut hello = Command::new("HELLO").arg(3);
        if let Some((user, password)) = self.credentials() {
            hello = hello.arg("AUTH").arg(user.unwrap_or("default")).arg(password);
        }
        match name {
            Some(name) => hello.arg("SETNAME").arg(name),
            None => hello,
        }
    }

    /// AUTH, for a server without HELLO; `None` if there is no login. Before version 6 a server has
    /// no users, and refuses one.
    pub fn auth(&self) -> Option<Command> {
        let (user, password) = self.credentials()?;
        Some(user.into_iter().fold(Command::new("AUTH"), Command::arg).arg(password))
    }

    /// What a caller should know when a server refuses the login with this code, besides what the
    /// server says; empty if that is all.
    pub fn hint(&self, code: &[u8]) -> &'static str {
        match self.credentials() {
            Some((Some(_), "")) if code == b"WRONGPASS" => {
                " (the user was given without a password, so an empty one was sent)"
            }
            _ => "",
        }
    }

    fn credentials(&self) -> Option<(Option<&str>, &str)> {
        let user = self.user.as_deref().filter(|user| !user.is_empty());
        let password = self.password.as_deref().filter(|password| !password.is_empty());
        match (user, password) {
            (None, None) => None,
            (user, password) => Some((user, password.unwrap_or_default())),
        }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> String {
        let words = command.iter().map(|word| String::from_utf8_lossy(word).into_owned());
        words
            .map(|word| if word.is_empty() { "''".into() } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// P50.
    #[test]
    fn a_name_is_always_sent_and_an_empty_text_counts_as_missing() {
        let cases = [
            (None, None, "HELLO 3", ""),
            (Some("bob"), None, "HELLO 3 AUTH bob ''", "AUTH bob ''"),
            (Some("bob"), Some(""), "HELLO 3 AUTH bob ''", "AUTH bob ''"),
            (Some("bob"), Some("pw"), "HELLO 3 AUTH bob pw", "AUTH bob pw"),
            (None, Some("pw"), "HELLO 3 AUTH default pw", "AUTH pw"),
            (Some(""), Some("pw"), "HELLO 3 AUTH default pw", "AUTH pw"),
            (Some(""), Some(""), "HELLO 3", ""),
        ];
        for (user, password, hello, auth) in cases {
            let of = |text: Option<&str>| text.map(str::to_owned);
            let login = Login { user: of(user), password: of(password) };
            assert_eq!(words(&login.hello(None)), hello);
            assert_eq!(login.auth().as_ref().map(words).unwrap_or_default(), auth);
            assert_eq!(words(&login.hello(Some("till"))), format!("{hello} SETNAME till"));
        }
    }

    #[test]
    fn a_refused_login_without_a_password_says_so() {
        let mut login = Login { user: Some("bob".into()), password: None };
        assert!(login.hint(b"WRONGPASS").contains("without a password"));
        assert_eq!(login.hint(b"NOPERM"), "");
        login.password = Some("pw".into());
        assert_eq!(login.hint(b"WRONGPASS"), "");
    }
}
