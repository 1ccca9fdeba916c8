//! The files that libpq reads: of passwords, and of services.

use onetrip_postgres::client::connect::passfile;
use onetrip_postgres::client::connect::service::{LINE_MAX, Wrong, says, settings};

#[test]
fn the_password_file_is_matched_line_by_line() {
    let file = "# a comment\nh:5432:d:u:first\n*:*:d:u:second\r\n\
                a\\:b:1:*:*:with\\:colon\\\\ and more:ignored\nshort:line\n\
                fe80::1:5432:*:*:bare\nlocalhost:*:*:*:local\n";
    for (wanted, expected) in [
        (["h", "5432", "d", "u"], Some("first")),
        (["h", "5433", "d", "u"], Some("second")),
        (["h", "5433", "x", "u"], None),
        (["a:b", "1", "x", "y"], Some("with:colon\\ and more")),
        (["fe80::1", "5432", "x", "y"], Some("bare")),
        (["localhost", "1", "x", "y"], Some("local")),
        (["/tmp", "1", "x", "y"], Some("local")),
        (["/var/run/postgresql", "1", "x", "y"], Some("local")),
        (["/other", "1", "x", "y"], None),
        (["short", "line", "x", "y"], None),
        (["# a comment", "1", "x", "y"], None),
    ] {
        assert_eq!(passfile::password(file, wanted).as_deref(), expected, "{wanted:?}");
    }
}

#[test]
fn a_service_has_the_lines_of_its_first_section() {
    let file = "host=before\n[other]\nno setting\n\n  [shop]  \n# a comment\n  host=a,b\t\r\n\
                user= u = v \npassword=\n[shopping]\nhost=c\n[shop]\nhost=d\n";
    let shop = [(7, "host", "a,b"), (8, "user", " u = v"), (9, "password", "")];
    assert_eq!(settings(file, "shop"), Ok(Some(shop.to_vec())));
    assert_eq!(settings(file, "shopping"), Ok(Some(vec![(11, "host", "c")])));
    assert_eq!(settings("[empty] and more", "empty"), Ok(Some(Vec::new())));
    for absent in ["sho", "Shop", "shop ", ""] {
        assert_eq!(settings(file, absent), Ok(None), "{absent:?}");
    }
}

#[test]
fn a_line_of_a_service_that_cant_be_read_is_named() {
    for (text, line, what) in [
        ("[s]\nhost=a\nhost b\n", 3, says::NO_SETTING),
        ("[s]\nservice=t\n", 2, says::NESTED),
        ("[s]\nservicefile=t\n", 2, says::NESTED),
        ("[s]\nldap://directory/dc=x", 2, says::LDAP),
    ] {
        assert_eq!(settings(text, "s"), Err(Wrong { line, what }), "{text}");
    }
    let long = |bytes: usize| format!("[s]\n# {}\nhost=a\n", "x".repeat(bytes - 3));
    assert_eq!(settings(&long(LINE_MAX), "s"), Ok(Some(vec![(3, "host", "a")])));
    let too_long = Wrong { line: 2, what: says::TOO_LONG };
    assert_eq!(settings(&long(LINE_MAX + 1), "s"), Err(too_long));
    assert_eq!(too_long.to_string(), format!("line 2: {}", says::TOO_LONG));
}
