//! How a host learns what a text is.

use onetrip_abi::export::{onetrip_postgres_classify, onetrip_postgres_may_mend, shows};

fn classify(text: &[u8]) -> u32 {
    // SAFETY: the text is valid for its length.
    unsafe { onetrip_postgres_classify(text.as_ptr(), text.len()) }
}

#[test]
fn each_bit_is_told_of_a_text_that_shows_it() {
    let cases = [
        ("savepoint a", shows::CONTROL | shows::SAVEPOINT),
        ("commit", shows::CONTROL | shows::COMMIT),
        ("set local a = 1", shows::LOCAL | shows::RENAMES),
        ("set local lock_timeout = 1", shows::LOCAL),
        ("listen a", shows::SESSION | shows::MAY_LEAVE),
        ("vacuum", shows::ALONE | shows::MAY_LEAVE),
        ("copy t to stdout", shows::COPY | shows::MAY_LEAVE),
        ("copy t from stdin", shows::COPY | shows::COPY_IN | shows::MAY_LEAVE),
        ("call p()", shows::CALL | shows::MAY_LEAVE | shows::RENAMES),
        ("select ';'", shows::READ | shows::QUERY | shows::SHAREABLE),
        ("select 1; select 2", shows::QUERY | shows::SEVERAL | shows::RENAMES),
        (
            "select set_Config('a', 'b', true)",
            shows::READ | shows::QUERY | shows::MAY_LEAVE | shows::RENAMES,
        ),
        ("update t set a = 1", shows::QUERY | shows::SHAREABLE | shows::MAY_LEAVE),
        ("create table t ()", shows::MAY_LEAVE | shows::RENAMES),
        ("", 0),
    ];
    for (text, bits) in cases {
        assert_eq!(classify(text.as_bytes()), bits, "{text}");
    }
    assert_eq!(classify(b"select '\xff'"), 0);
}

#[test]
fn whether_time_may_mend_a_refusal_is_told_of_its_bytes() {
    let refusal = |code: &str, text: &str| {
        let fields = format!("SFATAL\0C{code}\0M{text}\0\0");
        let len = u32::try_from(fields.len() + 4).unwrap();
        [b"E", &len.to_be_bytes()[..], fields.as_bytes()].concat()
    };
    // SAFETY: the bytes are valid for their length.
    let may_mend = |bytes: &[u8]| unsafe { onetrip_postgres_may_mend(bytes.as_ptr(), bytes.len()) };
    assert_eq!(may_mend(&refusal("57P03", "starting up")), 1);
    assert_eq!(may_mend(&refusal("08P01", "bouncer config error")), 0);
    assert_eq!(may_mend(b"E"), 1);
}
