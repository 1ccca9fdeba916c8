//! Reads a configuration from its two forms of text, as libpq does (fe-connect.c: `conninfo_parse`
//! and `conninfo_uri_parse_options`). Three deliberate differences: an unescaped `@` behind the
//! user's part, a NUL, and a host that libpq takes for an abstract socket are refused.

use percent_encoding::percent_decode_str;

use super::Config;
use super::error::{ConfigError, ConfigErrorKind as Kind, Place};
use super::keyword::{Keyword, nearest, says, unsupported};

/// Reads a URL or `keyword=value` pairs into `config`.
pub(super) fn parse(config: &mut Config, text: &str) -> Result<(), ConfigError> {
    if text.contains('\0') {
        return Err(fault(Kind::Syntax, Place::KeyValue, "a NUL can't be part of it"));
    }
    for scheme in ["postgres://", "postgresql://"] {
        if let Some(rest) = text.strip_prefix(scheme) {
            return parse_url(config, rest);
        }
    }
    let before_value = text.split(['=', ' ', '\'']).next().unwrap_or_default();
    if before_value.contains("://") {
        let what = "the scheme must be postgres:// or postgresql://";
        return Err(fault(Kind::Scheme, Place::Url, what));
    }
    parse_pairs(config, text)
}

/// Reads what follows the scheme: user and password, hosts and ports, the database and the
/// parameters.
fn parse_url(config: &mut Config, text: &str) -> Result<(), ConfigError> {
    let mut rest = text;
    // As in libpq, an `@` before the first slash ends the user's part, whatever stands before it.
    if let Some(at) = text.find(['@', '/']).filter(|&at| text[at..].starts_with('@')) {
        let (user, password) = text[..at].split_once(':').unwrap_or((&text[..at], ""));
        set_decoded(config, Keyword::User, user)?;
        set_decoded(config, Keyword::Password, password)?;
        rest = &text[at + 1..];
    }
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, dbname) = address.split_once('/').unwrap_or((address, ""));
    if hosts.contains('@') || dbname.contains('@') {
        let what = "an unescaped '@' stands behind the user's part: in a user name, a password or \
                    a database name write %40 for '@', %3A for ':' and %2F for '/'";
        return Err(fault(Kind::Syntax, Place::Url, what));
    }
    parse_hosts(config, hosts)?;
    set_decoded(config, Keyword::Dbname, dbname)?;
    parse_query(config, query)
}

/// Reads `host[:port],…`; an IPv6 address stands in brackets.
fn parse_hosts(config: &mut Config, text: &str) -> Result<(), ConfigError> {
    let (mut hosts, mut ports) = (String::new(), String::new());
    let mut rest = text;
    loop {
        if let Some(inside) = rest.strip_prefix('[') {
            let Some((address, behind)) = inside.split_once(']') else {
                let what = "the ']' of an IPv6 address is missing";
                return Err(fault(Kind::Host, Place::Url, what));
            };
            if address.is_empty() {
                return Err(fault(Kind::Host, Place::Url, "the IPv6 address in '[]' is empty"));
            }
            if !behind.is_empty() && !behind.starts_with([':', ',']) {
                let what = "behind the ']' of an IPv6 address only ':', ',', '/' or '?' can follow";
                return Err(fault(Kind::Host, Place::Url, what));
            }
            hosts.push_str(address);
            rest = behind;
        } else {
            let end = rest.find([':', ',']).unwrap_or(rest.len());
            hosts.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        if let Some(behind) = rest.strip_prefix(':') {
            let end = behind.find(',').unwrap_or(behind.len());
            ports.push_str(&behind[..end]);
            rest = &behind[end..];
        }
        let Some(behind) = rest.strip_prefix(',') else { break };
        hosts.push(',');
        ports.push(',');
        rest = behind;
    }
    set_decoded(config, Keyword::Host, &hosts)?;
    set_decoded(config, Keyword::Port, &ports)
}

/// Reads `keyword=value&…`. A later keyword wins over an earlier one, and over the rest of the URL.
fn parse_query(config: &mut Config, query: &str) -> Result<(), ConfigError> {
    let mut rest = query;
    // An unescaped `&` or `@` may have cut a password in two; then the error names no keyword.
    let mut named = !query.contains('@');
    while !rest.is_empty() {
        let (pair, behind) = rest.split_once('&').unwrap_or((rest, ""));
        rest = behind;
        let Some((name, value)) = pair.split_once('=') else {
            let what = "a parameter behind '?' has no '='";
            return Err(fault(Kind::Syntax, Place::Url, what));
        };
        if value.contains('=') {
            let what = "a parameter behind '?' has a second '=': write %3D in a value";
            return Err(fault(Kind::Syntax, Place::Url, what));
        }
        let (name, value) = (decode(name, "parameter name")?, decode(value, "parameter")?);
        // As in libpq: JDBC's way to require TLS.
        let (name, value) = match (name.as_str(), value.as_str()) {
            ("ssl", "true") => ("sslmode".to_owned(), "require".to_owned()),
            _ => (name, value),
        };
        let keyword = keyword(&name, Place::Url, named)?;
        named &= keyword != Keyword::Password;
        config.set(keyword, &value, Place::Url)?;
    }
    Ok(())
}

/// Sets a keyword from a part of the URL; an empty part sets nothing.
fn set_decoded(config: &mut Config, keyword: Keyword, text: &str) -> Result<(), ConfigError> {
    if text.is_empty() {
        return Ok(());
    }
    config.set(keyword, &decode(text, keyword.name())?, Place::Url)
}

fn decode(text: &str, part: &'static str) -> Result<String, ConfigError> {
    let wrong = |what| {
        let what = format!("the {part}: {what}");
        Err(ConfigError::new(Kind::PercentEncoding, Place::Url, what))
    };
    for (at, _) in text.match_indices('%') {
        let digits = text.as_bytes().get(at + 1..at + 3);
        match digits {
            Some(b"00") => return wrong("%00 is not allowed"),
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {}
            _ => return wrong("'%' needs two hexadecimal digits; '%' itself is written %25"),
        }
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => wrong("the percent-encoded bytes aren't UTF-8"),
    }
}

/// Reads `keyword = value …`. A value with spaces stands between single quotes; a backslash quotes
/// the next character, inside quotes and outside.
fn parse_pairs(config: &mut Config, text: &str) -> Result<(), ConfigError> {
    let mut rest = text.trim_start_matches(is_space);
    // A space in an unquoted password turns its second half into a keyword; then the error names no
    // keyword.
    let mut named = true;
    while !rest.is_empty() {
        let end = rest.find(|c| c == '=' || is_space(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        let Some(behind) = rest[end..].trim_start_matches(is_space).strip_prefix('=') else {
            let what = match Keyword::named(name) {
                Some(known) => format!("'=' is missing behind {}", known.name()),
                None => "'=' is missing behind a keyword; a value with a space in it needs single \
                         quotes"
                    .to_owned(),
            };
            return Err(ConfigError::new(Kind::Syntax, Place::KeyValue, what));
        };
        let keyword = keyword(name, Place::KeyValue, named)?;
        let (value, behind) = value(behind.trim_start_matches(is_space), keyword)?;
        config.set(keyword, &value, Place::KeyValue)?;
        named &= keyword != Keyword::Password;
        rest = behind.trim_start_matches(is_space);
    }
    Ok(())
}

/// One value, and the text behind it.
fn value(text: &str, keyword: Keyword) -> Result<(String, &str), ConfigError> {
    let mut value = String::new();
    let quoted = text.strip_prefix('\'');
    let text = quoted.unwrap_or(text);
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted.is_some() => return Ok((value, &text[at + 1..])),
            space if quoted.is_none() && is_space(space) => return Ok((value, &text[at..])),
            other => value.push(other),
        }
    }
    if quoted.is_some() {
        let what = format!("the closing quote of {} is missing", keyword.name());
        return Err(ConfigError::new(Kind::Syntax, Place::KeyValue, what));
    }
    Ok((value, ""))
}

/// As C's `isspace`.
fn is_space(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Looks a keyword up. The error does not repeat a name that may be part of a value.
pub(super) fn keyword(name: &str, place: Place, named: bool) -> Result<Keyword, ConfigError> {
    if let Some(keyword) = Keyword::named(name) {
        return Ok(keyword);
    }
    if let Some(what) = unsupported(name) {
        let what = [name, says::NEEDS, what, says::LACKING].concat();
        return Err(ConfigError::new(Kind::Unsupported, place, what));
    }
    let looks_like_one = (1..=40).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let what = if named && looks_like_one {
        let near = nearest(name).map_or(String::new(), |near| format!("; the nearest is {near}"));
        [says::UNKNOWN, name, &near].concat()
    } else {
        "there is an unknown keyword, not named here as it may be part of a password that lacks \
         its quotes or escapes"
            .to_owned()
    };
    Err(ConfigError::new(Kind::Keyword, place, what))
}

fn fault(kind: Kind, place: Place, what: &'static str) -> ConfigError {
    ConfigError::new(kind, place, what)
}
