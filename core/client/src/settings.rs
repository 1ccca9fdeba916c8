//! The settings of a connection: pairs of name and value, each ended by a zero byte, as in
//! PostgreSQL's startup packet.

use std::time::Duration;

use onetrip_engine::Limits;
use onetrip_postgres::client::connect::TargetSessionAttrs;
use onetrip_postgres::startup::StartupConfig;

/// The settings of a connection to PostgreSQL.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) startup: StartupConfig,
    pub(crate) limits: Limits,
    /// The use of a text at which it is prepared; 0 for never. Default 5, like pgjdbc's
    /// prepareThreshold.
    pub(crate) prepare_threshold: u32,
    /// How many statements are kept prepared. Default 256, like pgjdbc's
    /// preparedStatementCacheQueries.
    pub(crate) statements_max: usize,
    /// Whether a message that is too long to be read at once is handed over in pieces. Default: no;
    /// it is put together.
    pub(crate) pieces: bool,
    /// The most bytes of such a message if it is put together. Default 1 GiB, the most that the
    /// protocol allows.
    pub(crate) message_bytes_max: usize,
    /// Whether the host is asked for the password when the server asks. Default: no; the password
    /// is a setting, or there is none.
    pub(crate) ask_password: bool,
    /// Whether a plain BEGIN waits for the first statement behind it. Default: no.
    pub(crate) hold_begin: bool,
    /// What the server has to be. Where that is one that takes writes, a connection whose server
    /// does not any more is reported as `ASTRAY`. Default: any.
    pub(crate) target: TargetSessionAttrs,
    /// Whether the position of what is written is asked for. Default: no.
    pub(crate) watch_positions: bool,
    /// Whether it serves reads of a replica, so that it is reported as `ASTRAY` once the server is
    /// promoted. Default: no.
    pub(crate) is_replica: bool,
}

/// Why the settings are refused, in one line.
pub(crate) type Invalid = String;

impl Settings {
    pub(crate) fn read(bytes: &[u8]) -> Result<Settings, Invalid> {
        let mut settings = Settings {
            startup: StartupConfig::new(""),
            limits: Limits::default(),
            prepare_threshold: 5,
            statements_max: 256,
            pieces: false,
            message_bytes_max: 1 << 30,
            ask_password: false,
            hold_begin: false,
            target: TargetSessionAttrs::Any,
            watch_positions: false,
            is_replica: false,
        };
        for (name, value) in pairs(bytes)? {
            settings.set(name, value)?;
        }
        match settings.startup.user.is_empty() {
            true => Err("the settings name no user".into()),
            false => Ok(settings),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        if set_limit(&mut self.limits, name, value)? {
            return Ok(());
        }
        let startup = &mut self.startup;
        match name {
            "user" => startup.user = value.into(),
            "database" => startup.database = Some(value.into()),
            "password" => startup.password = Some(value.into()),
            "secure_channel" => startup.secure_channel = flag(name, value)?,
            "allow_cleartext" => startup.allow_cleartext = flag(name, value)?,
            "channel_binding" => startup.channel_binding = Some(hex(name, value)?),
            "scram_iterations_max" => startup.scram_iterations_max = number(name, value)?,
            "prepare_threshold" => self.prepare_threshold = number(name, value)?,
            "hold_begin" => self.hold_begin = flag(name, value)?,
            // The plan of connecting has read it before; only these two matter behind the login.
            "target_session_attrs" => match value {
                "read-write" => self.target = TargetSessionAttrs::ReadWrite,
                "primary" => self.target = TargetSessionAttrs::Primary,
                _ => {}
            },
            "ask_password" => self.ask_password = flag(name, value)?,
            "message_bytes_max" => self.message_bytes_max = number(name, value)?,
            "watch_positions" => self.watch_positions = flag(name, value)?,
            "replica" => self.is_replica = flag(name, value)?,
            "pieces" => self.pieces = flag(name, value)?,
            "statements_max" => self.statements_max = number(name, value)?,
            _ => match name.strip_prefix("parameter.") {
                Some(name) => startup.parameters.push((name.into(), value.into())),
                None => return Err(format!("{name} is not a setting")),
            },
        }
        Ok(())
    }
}

/// Sets a limit that connections of both protocols have. Returns whether `name` is one.
pub(crate) fn set_limit(limits: &mut Limits, name: &str, value: &str) -> Result<bool, Invalid> {
    match name {
        "in_flight_max" => limits.in_flight_max = number(name, value)?,
        "in_flight_bytes_max" => limits.in_flight_bytes_max = number(name, value)?,
        "queue_max" => limits.queue_max = number(name, value)?,
        "queue_bytes_max" => limits.queue_bytes_max = number(name, value)?,
        "stall_timeout_ms" => limits.stall_timeout = Duration::from_millis(number(name, value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A limit on their length, since they are copied a few times. PostgreSQL accepts 10,000 bytes
/// (MAX_STARTUP_PACKET_LENGTH in libpq/pqcomm.h).
const SETTINGS_BYTES_MAX: usize = 1 << 20;

/// Splits settings into names and values.
pub(crate) fn pairs(bytes: &[u8]) -> Result<Vec<(&str, &str)>, Invalid> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    if bytes.len() > SETTINGS_BYTES_MAX {
        return Err(format!("the settings have more than {SETTINGS_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the settings are not UTF-8")?;
    let Some(text) = text.strip_suffix('\0') else {
        return Err("the settings do not end with a zero byte".into());
    };
    let mut texts = text.split('\0');
    let mut pairs = Vec::new();
    while let Some(name) = texts.next() {
        let value = texts.next().ok_or_else(|| format!("the setting {name} has no value"))?;
        pairs.push((name, value));
    }
    Ok(pairs)
}

pub(crate) fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Invalid> {
    value.parse().map_err(|_| format!("{name} must be a number"))
}

/// A time in milliseconds; 0 means one that never ends.
pub(crate) fn millis(name: &str, value: &str) -> Result<Duration, Invalid> {
    let millis = number(name, value)?;
    Ok(if millis == 0 { Duration::MAX } else { Duration::from_millis(millis) })
}

/// Bytes in hexadecimal, two digits each.
fn hex(name: &str, value: &str) -> Result<Vec<u8>, Invalid> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = value.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    match bytes.collect::<Option<Vec<u8>>>() {
        Some(bytes) if rest.is_empty() => Ok(bytes),
        _ => Err(format!("{name} must be hexadecimal")),
    }
}

pub(crate) fn flag(name: &str, value: &str) -> Result<bool, Invalid> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{name} must be 0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn settings_are_read_and_parameters_of_the_server_passed_on() {
        let read = Settings::read(
            b"user\0me\0password\0secret\0parameter.application_name\0tests\0in_flight_max\x0077\0\
                channel_binding\x0000fF\0",
        );
        let settings = read.unwrap();
        assert_eq!(settings.startup.user, "me");
        assert_eq!(settings.limits.in_flight_max, 77);
        assert_eq!(settings.startup.channel_binding, Some(vec![0, 255]));
        let parameters = [("application_name".to_owned(), "tests".to_owned())];
        assert_eq!(settings.startup.parameters, parameters);
    }

    #[test]
    fn what_is_no_setting_is_named_and_its_value_is_not() {
        let faults: [(&[u8], &str); 9] = [
            (b"user\0me\0channel_binding\0abc\0", "channel_binding must be hexadecimal"),
            (b"user\0me\0channel_binding\0+1\0", "channel_binding must be hexadecimal"),
            (b"", "the settings name no user"),
            (b"user\0me", "the settings do not end with a zero byte"),
            (b"database\0d\0", "the settings name no user"),
            (b"user\0me\0colour\0blue\0", "colour is not a setting"),
            (b"user\0me\0queue_max\0many\0", "queue_max must be a number"),
            (b"user\0me\0secure_channel\0yes\0", "secure_channel must be 0 or 1"),
            (b"user\0me\0password\0", "the setting password has no value"),
        ];
        for (bytes, why) in faults {
            assert_eq!(Settings::read(bytes).unwrap_err(), why);
        }
    }
}
