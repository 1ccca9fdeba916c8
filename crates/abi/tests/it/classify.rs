//! What a host is told of a text.

use onetrip_abi::export::{onetrip_postgres_classify, shows};

fn classify(text: &[u8]) -> u32 {
    // SAFETY: the text is as long as it is.
    unsafe { onetrip_postgres_classify(text.as_ptr(), text.len()) }
}

#[test]
fn each_bit_is_told_of_a_text_that_shows_it() {
    let cases = [
        ("savepoint a", shows::CONTROL | shows::SAVEPOINT),
        ("commit", shows::CONTROL | shows::COMMIT),
        ("set local a = 1", shows::LOCAL),
        ("listen a", shows::SESSION | shows::MAY_LEAVE),
        ("vacuum", shows::ALONE | shows::MAY_LEAVE),
        ("copy t to stdout", shows::COPY | shows::MAY_LEAVE),
        ("copy t from stdin", shows::COPY | shows::COPY_IN | shows::MAY_LEAVE),
        ("call p()", shows::CALL | shows::MAY_LEAVE),
        ("select ';'", shows::READ | shows::QUERY | shows::SHAREABLE),
        ("select 1; select 2", shows::QUERY | shows::SEVERAL),
        ("select set_Config('a', 'b', true)", shows::READ | shows::QUERY | shows::MAY_LEAVE),
        ("update t set a = 1", shows::QUERY | shows::SHAREABLE | shows::MAY_LEAVE),
        ("create table t ()", shows::MAY_LEAVE),
        ("", 0),
    ];
    for (text, bits) in cases {
        assert_eq!(classify(text.as_bytes()), bits, "{text}");
    }
    assert_eq!(classify(b"select '\xff'"), 0);
}
