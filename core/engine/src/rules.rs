//! Rules of settings, as data for every language: which of them contradict each other, and which
//! say nothing alone. What breaks one is an error, since a setting that is dropped is a promise that
//! is broken. Here are those of TLS, which all protocols have; the others are beside the settings of
//! their protocol.
//!
//! A face says what it was told, by the names that settings have in a URL. Options of TLS that only
//! its language has are facts of their own: `tls` (there are any), and `tls.ca`, `tls.cert`,
//! `tls.key`, `tls.passphrase`, `tls.crl`, `tls.min` and `tls.max` (they say this themselves),
//! `tls.verifies` and `tls.checks_name` (`0` if they turn it off).

/// What refuses settings.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// It refuses where all of these hold.
    pub when: &'static [(&'static str, Is)],
    /// What is wrong, and what to do.
    pub says: &'static str,
}

/// What is known of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Is {
    /// Something was said of it.
    Said,
    /// Nothing was said of it.
    Unsaid,
    /// It is one of these.
    OneOf(&'static [&'static str]),
}

/// Which of these rules the settings break: its words. `said`: what a setting is; `None`, as for an
/// empty text, if nothing was said.
pub fn broken<T: AsRef<str>>(
    rules: &[Rule],
    said: impl Fn(&str) -> Option<T>,
) -> Option<&'static str> {
    let holds = |(name, is): &(&'static str, Is)| {
        let text = said(name);
        let text = text.as_ref().map(AsRef::as_ref).filter(|text: &&str| !text.is_empty());
        match is {
            Is::Said => text.is_some(),
            Is::Unsaid => text.is_none(),
            Is::OneOf(words) => text.is_some_and(|text| words.contains(&text)),
        }
    };
    rules.iter().find(|rule| rule.when.iter().all(holds)).map(|rule| rule.says)
}

/// The rules as JSON, for a table in another language: `true` for what is said, `false` for what is
/// not, otherwise words.
#[doc(hidden)]
pub fn json(rules: &[Rule]) -> String {
    let of = |rule: &Rule| {
        let when: Vec<String> = rule
            .when
            .iter()
            .map(|(name, is)| match is {
                Is::Said => format!("[{name:?}, true]"),
                Is::Unsaid => format!("[{name:?}, false]"),
                Is::OneOf(words) => format!("[{name:?}, {words:?}]"),
            })
            .collect();
        format!("  {{\n    when: [{}],\n    says: {:?},\n  }},\n", when.join(", "), rule.says)
    };
    format!("[\n{}]", rules.iter().map(of).collect::<String>())
}

macro_rules! rules {
    ($(#[doc = $doc:literal])* $name:ident; $($when:expr => $says:literal;)*) => {
        $(#[doc = $doc])*
        pub const $name: &[Rule] = &[$(Rule { when: &$when, says: $says }),*];
    };
}

use Is::{OneOf, Said, Unsaid};

const BELOW_FULL: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca"];

rules! {
    /// Of TLS, whoever said it. `sslmode` is the one that is in force.
    TLS;
    [("sslrootcert", OneOf(&["system"])), ("sslmode", OneOf(BELOW_FULL))] =>
        "sslrootcert=system trusts whoever has a certificate of a public authority: set \
         sslmode=verify-full, or leave sslmode out";
    [("tls", Said), ("sslmode", OneOf(&["disable"]))] =>
        "sslmode=disable contradicts the options of TLS: leave out one of them";
    [("sslcert", Said), ("sslkey", Unsaid), ("sslcertmode", OneOf(&["allow"]))] =>
        "sslcert is nothing without its key: name the file of the key in sslkey";
    [("sslkey", Said), ("sslcert", Unsaid), ("sslcertmode", OneOf(&["allow"]))] =>
        "sslkey is nothing without its certificate: name the file of the certificate in sslcert";
}

rules! {
    /// Of what was said in the program, in a call and its URL, beside options of TLS. What the
    /// environment says is overruled.
    TLS_OPTIONS;
    [("tls.ca", Said), ("sslrootcert", Said)] =>
        "sslrootcert and the options of TLS both name authorities: leave out one of them";
    [("tls.cert", Said), ("sslcert", Said)] =>
        "sslcert and the options of TLS both have a certificate: leave out one of them";
    [("tls.key", Said), ("sslkey", Said)] =>
        "sslkey and the options of TLS both have a key: leave out one of them";
    [("tls.passphrase", Said), ("sslpassword", Said)] =>
        "sslpassword and the options of TLS both have a password: leave out one of them";
    [("tls.cert", Said), ("sslcertmode", OneOf(&["disable"]))] =>
        "sslcertmode=disable contradicts the options of TLS, which have a certificate: leave out \
         one of them";
    [("tls.crl", Said), ("sslcrl", Said)] =>
        "sslcrl and the options of TLS both have revoked certificates: leave out one of them";
    [("tls.min", Said), ("ssl_min_protocol_version", Said)] =>
        "ssl_min_protocol_version and the options of TLS both have an oldest version: leave out one \
         of them";
    [("tls.max", Said), ("ssl_max_protocol_version", Said)] =>
        "ssl_max_protocol_version and the options of TLS both have a newest version: leave out one \
         of them";
    [("tls.verifies", OneOf(&["0"])), ("sslmode", OneOf(&["verify-ca", "verify-full"]))] =>
        "this sslmode verifies the server, and the options of TLS turn that off: leave out one of \
         them";
    [("tls.verifies", OneOf(&["0"])), ("sslrootcert", Said)] =>
        "sslrootcert is for verifying the server, and the options of TLS turn that off: leave out \
         one of them";
    [("tls.checks_name", OneOf(&["0"])), ("sslmode", OneOf(&["verify-full"]))] =>
        "sslmode=verify-full checks the name of the server, and the options of TLS turn that off: \
         leave out one of them";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<'a>(told: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        |name| told.iter().find(|pair| pair.0 == name).map(|pair| pair.1)
    }

    /// P51.
    #[test]
    fn a_rule_is_broken_where_all_of_it_holds() {
        let cert = [("sslcert", "c"), ("sslcertmode", "allow")];
        assert!(broken(TLS, said(&cert)).is_some_and(|says| says.contains("sslkey")));
        let whole = [("sslcert", "c"), ("sslkey", "k"), ("sslcertmode", "allow")];
        assert_eq!(broken(TLS, said(&whole)), None);
        let empty = [("sslcert", ""), ("sslkey", ""), ("sslcertmode", "allow")];
        assert_eq!(broken(TLS, said(&empty)), None);
        assert_eq!(broken(TLS, said(&[("sslcert", "c"), ("sslcertmode", "disable")])), None);
        let both = [("tls.verifies", "0"), ("sslmode", "verify-full")];
        assert!(broken(TLS_OPTIONS, said(&both)).is_some());
        assert_eq!(broken(TLS_OPTIONS, said(&both[..1])), None);
    }
}
