//! The settings of a connection to Redis: pairs of name and value, each ended by a zero byte.

use onetrip_engine::Limits;
use onetrip_redis::Redis as Protocol;
use onetrip_redis::client::login::Login;
use onetrip_redis::client::sentinel::Role;
use onetrip_redis::scan::ScanLimits;

use crate::settings::{Invalid, flag, number, pairs, set_limit};

/// What a connection to Redis is configured with.
pub(super) struct Settings {
    pub(super) login: Login,
    pub(super) database: u32,
    pub(super) client_name: Option<String>,
    /// What CLIENT LIST says of the library, where the server can. Default: nothing.
    pub(super) library: [Option<String>; 2],
    /// The best protocol: 2, or 3 with a fallback to 2 if the server lacks 3. Default 3.
    pub(super) protocol: u32,
    /// The connection is for subscriptions. On RESP2 their messages look like replies. Default
    /// false.
    pub(super) subscriber: bool,
    /// The connection may read from a replica of a cluster. Default false.
    pub(super) readonly: bool,
    /// The role that the server must have, as Sentinels say: `master` or `replica`. Default: any.
    pub(super) role: Option<Role>,
    /// The server is to tell which keys that were read here are changed. Only with RESP3. Default
    /// false.
    pub(super) tracking: bool,
    /// The longest reply in bytes; a reply is kept until it is complete. Default 513 MiB.
    reply_bytes_max: u64,
    pub(super) limits: Limits,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            login: Login::default(),
            database: 0,
            client_name: None,
            library: [None, None],
            protocol: 3,
            subscriber: false,
            readonly: false,
            role: None,
            tracking: false,
            reply_bytes_max: ScanLimits::default().push_bytes_max,
            limits: Limits {
                in_flight_max: 10_000,
                in_flight_bytes_max: 16 << 20,
                ..Limits::default()
            },
        }
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("user", &self.login.user)
            .field("database", &self.database)
            .finish()
    }
}

impl Settings {
    pub(super) fn read(bytes: &[u8]) -> Result<Settings, Invalid> {
        let mut settings = Settings::default();
        for (name, value) in pairs(bytes)? {
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        if set_limit(&mut self.limits, name, value)? {
            return Ok(());
        }
        match name {
            "user" => self.login.user = Some(value.into()),
            "password" => self.login.password = Some(value.into()),
            "database" => self.database = number(name, value)?,
            "client_name" => self.client_name = Some(value.into()),
            "lib_name" => self.library[0] = Some(value.into()),
            "lib_version" => self.library[1] = Some(value.into()),
            "protocol" => {
                self.protocol = number(name, value)?;
                if !matches!(self.protocol, 2 | 3) {
                    return Err("protocol must be 2 or 3".into());
                }
            }
            "subscriber" => self.subscriber = flag(name, value)?,
            "readonly" => self.readonly = flag(name, value)?,
            "role" => {
                self.role = match value {
                    "master" => Some(Role::Master),
                    "replica" => Some(Role::Replica),
                    _ => return Err("role must be master or replica".into()),
                };
            }
            "tracking" => self.tracking = flag(name, value)?,
            "reply_bytes_max" => self.reply_bytes_max = number(name, value)?,
            _ => return Err(format!("{name} is not a setting")),
        }
        Ok(())
    }

    pub(super) fn protocol(&self) -> Protocol {
        let max = self.reply_bytes_max;
        let default = ScanLimits::default();
        let limits = ScanLimits {
            push_bytes_max: max,
            string_bytes_max: default.string_bytes_max.min(max),
            ..default
        };
        match self.subscriber {
            true => Protocol::subscriber(limits).without_parts(),
            false => Protocol::new(limits).without_parts(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn settings_are_read_and_none_is_needed() {
        assert_eq!(Settings::read(b"").unwrap().limits.in_flight_max, 10_000);
        let settings = Settings::read(b"password\0secret\0database\x007\0protocol\x002\0").unwrap();
        assert_eq!((settings.database, settings.protocol), (7, 2));
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn what_is_no_setting_is_named_and_its_value_is_not() {
        let faults: [(&[u8], &str); 5] = [
            (b"colour\0blue\0", "colour is not a setting"),
            (b"database\0first\0", "database must be a number"),
            (b"protocol\x004\0", "protocol must be 2 or 3"),
            (b"role\0slave\0", "role must be master or replica"),
            (b"password\0", "the setting password has no value"),
        ];
        for (bytes, why) in faults {
            assert_eq!(Settings::read(bytes).unwrap_err(), why);
        }
    }
}
