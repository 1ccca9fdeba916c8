//! Every message: golden bytes by hand, fed in three ways, round trips, limits, and bytes that mean
//! harm.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::message::error_response::{self, field};
use onetrip_postgres::message::*;

type Backend = BackendMessage<'static>;
type Frontend = FrontendMessage<'static>;

/// One message of each type that a server sends, byte by byte.
const BACKEND: &[&[u8]] = &[
    b"R\0\0\0\x08\0\0\0\0",
    b"R\0\0\0\x08\0\0\0\x03",
    b"R\0\0\0\x0c\0\0\0\x05\x01\x02\x03\x04",
    b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
    b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
    b"R\0\0\0\x0b\0\0\0\x0br=x",
    b"R\0\0\0\x0b\0\0\0\x0cv=x",
    b"R\0\0\0\x08\0\0\0\x07",
    b"K\0\0\0\x0c\0\0\x12\x34\xde\xad\xbe\xef",
    b"S\0\0\0\x19client_encoding\0UTF8\0",
    b"Z\0\0\0\x05I",
    b"Z\0\0\0\x05T",
    b"Z\0\0\0\x05E",
    b"T\0\0\0\x2f\0\x02id\0\0\0\x40\x01\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01\
      n\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0",
    b"T\0\0\0\x06\0\0",
    b"D\0\0\0\x14\0\x03\0\0\0\x02hi\xff\xff\xff\xff\0\0\0\0",
    b"D\0\0\0\x06\0\0",
    b"C\0\0\0\x0dSELECT 2\0",
    b"I\0\0\0\x04",
    b"E\0\0\0\x25SERROR\0VERROR\0C42601\0Msyntax\0?x\0\0",
    b"N\0\0\0\x10SWARNING\0M\0\0",
    b"A\0\0\0\x0d\0\0\0\x07ch\0p\0",
    b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19",
    b"n\0\0\0\x04",
    b"1\0\0\0\x04",
    b"2\0\0\0\x04",
    b"3\0\0\0\x04",
    b"s\0\0\0\x04",
    b"G\0\0\0\x0b\0\0\x02\0\0\0\0",
    b"H\0\0\0\x09\x01\0\x01\0\x01",
    b"W\0\0\0\x07\0\0\0",
    b"d\0\0\0\x07abc",
    b"c\0\0\0\x04",
    b"v\0\0\0\x13\0\x03\0\0\0\0\0\x01_pq_.x\0",
    b"V\0\0\0\x0a\0\0\0\x02ok",
    b"V\0\0\0\x08\xff\xff\xff\xff",
];

/// One message of each type that a client sends after the first packet.
const FRONTEND: &[&[u8]] = &[
    b"p\0\0\0\x08abc\0",
    b"Q\0\0\0\x0dselect 1\0",
    b"P\0\0\0\x17s1\0select $1\0\0\x01\0\0\0\x17",
    b"B\0\0\0\x1ap\0s1\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0",
    b"B\0\0\0\x0c\0\0\0\0\0\0\0\0",
    b"D\0\0\0\x06P\0",
    b"D\0\0\0\x08Ss1\0",
    b"E\0\0\0\x09\0\0\0\0\0",
    b"E\0\0\0\x0ap\0\0\0\0\x64",
    b"C\0\0\0\x08Ss1\0",
    b"C\0\0\0\x06P\0",
    b"S\0\0\0\x04",
    b"H\0\0\0\x04",
    b"X\0\0\0\x04",
    b"d\0\0\0\x05z",
    b"c\0\0\0\x04",
    b"f\0\0\0\x08why\0",
];

const INITIAL: &[&[u8]] = &[
    b"\0\0\0\x08\x04\xd2\x16\x2f",
    b"\0\0\0\x08\x04\xd2\x16\x30",
    b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07\x01\x02\x03\x04",
    b"\0\0\0\x1d\0\x03\0\0user\0me\0database\0db\0\0",
    b"\0\0\0\x09\0\x03\0\x02\0",
];

#[test]
fn every_backend_example_decodes_and_encodes_to_the_same_bytes() {
    for example in BACKEND {
        let message = decode_backend(example);
        assert_eq!(encode_backend(message).as_ref(), *example, "{message:?}");
    }
}

#[test]
fn every_frontend_example_decodes_and_encodes_to_the_same_bytes() {
    for example in FRONTEND {
        let message = decode_frontend(example);
        assert_eq!(encode_frontend(message).as_ref(), *example, "{message:?}");
    }
}

#[test]
fn every_initial_example_decodes_and_encodes_to_the_same_bytes() {
    for example in INITIAL {
        let body = frame_initial(example).unwrap().unwrap();
        let mut out = BytesMut::new();
        match InitialMessage::decode(body).unwrap() {
            InitialMessage::SslRequest => out.put_slice(&ssl_request::SSL_REQUEST),
            InitialMessage::GssEncRequest => out.put_slice(&ssl_request::GSSENC_REQUEST),
            InitialMessage::Cancel(cancel) => cancel.encode(&mut out).unwrap(),
            InitialMessage::Startup(startup) => {
                startup_message::write(&mut out, startup.version, startup.parameters).unwrap();
            }
        }
        assert_eq!(out.as_ref(), *example);
    }
}

#[test]
fn every_example_is_found_byte_by_byte_and_with_trailing_bytes() {
    for (examples, max_len_of) in [
        (BACKEND, max_len as fn(u8) -> Option<u32>),
        (FRONTEND, frontend_max_len as fn(u8) -> Option<u32>),
    ] {
        for example in examples {
            for end in 0..example.len() {
                assert_eq!(frame(&example[..end], max_len_of), Ok(None), "{example:?} {end}");
            }
            let mut more = example.to_vec();
            more.extend_from_slice(b"Z\0\0\0trailing");
            let found = frame(&more, max_len_of).unwrap().unwrap();
            assert_eq!(found.message_len(), example.len());
            assert_eq!((found.tag, found.body), (example[0], &example[5..]));
        }
    }
    for example in INITIAL {
        for end in 0..example.len() {
            assert_eq!(frame_initial(&example[..end]), Ok(None));
        }
        let more = [example, b"trailing".as_slice()].concat();
        assert_eq!(frame_initial(&more).unwrap().unwrap(), &example[4..]);
    }
}

#[test]
fn a_body_that_is_cut_or_has_bytes_behind_its_last_field_is_refused() {
    // The data of these is all that is there.
    let open = |example: &[u8]| matches!(example[0], b'd' | b'p' | b'K') || example[0] == b'R';
    for example in BACKEND.iter().filter(|example| !open(example)) {
        let longer = [&example[5..], b"\0".as_slice()].concat();
        for body in (0..example.len() - 5).map(|end| &example[5..5 + end]).chain([&longer[..]]) {
            let frame = Frame { tag: example[0], body };
            assert!(BackendMessage::decode(frame).is_err(), "{frame:?}");
        }
    }
    for example in FRONTEND.iter().filter(|example| !open(example)) {
        let longer = [&example[5..], b"\0".as_slice()].concat();
        for body in (0..example.len() - 5).map(|end| &example[5..5 + end]).chain([&longer[..]]) {
            let frame = Frame { tag: example[0], body };
            assert!(FrontendMessage::decode(frame).is_err(), "{frame:?}");
        }
    }
}

#[test]
fn row_description_yields_the_fields_of_its_columns() {
    let Backend::RowDescription(rows) = decode_backend(BACKEND[13]) else { panic!() };
    let fields = rows.fields.collect::<Vec<_>>();
    assert_eq!(rows.fields.len(), 2);
    assert_eq!(
        fields[0],
        Field {
            name: "id",
            table_oid: 16385,
            column_id: 1,
            type_oid: 23,
            type_size: 4,
            type_modifier: -1,
            format: Format::Binary,
        }
    );
    assert_eq!((fields[1].name, fields[1].type_size), ("n", -1));
}

#[test]
fn data_row_tells_null_from_empty() {
    let Backend::DataRow(row) = decode_backend(BACKEND[15]) else { panic!() };
    assert_eq!(row.values.len(), 3);
    assert_eq!(row.values.collect::<Vec<_>>(), [Some(b"hi".as_slice()), None, Some(b"")]);
}

#[test]
fn command_complete_counts_rows_where_the_tag_does() {
    let rows = |tag| CommandComplete { tag }.rows();
    assert_eq!(rows("SELECT 5"), Some(5));
    assert_eq!(rows("INSERT 0 12"), Some(12));
    assert_eq!(rows("CREATE TABLE"), None);
    assert_eq!(rows("COMMIT"), None);
}

#[test]
fn startup_parameters_come_in_order() {
    let body = frame_initial(INITIAL[3]).unwrap().unwrap();
    let InitialMessage::Startup(startup) = InitialMessage::decode(body).unwrap() else { panic!() };
    assert_eq!(startup.version, 0x30000);
    assert_eq!(startup.parameters.collect::<Vec<_>>(), [("user", "me"), ("database", "db")]);
}

#[test]
fn constants_equal_their_encoded_messages() {
    let mut out = BytesMut::new();
    Execute { portal: "", rows_max: 0 }.encode(&mut out).unwrap();
    assert_eq!(out.as_ref(), execute::UNNAMED_ALL);
    out.clear();
    bind::write_named(&mut out, "", "", &[0; 6]).unwrap();
    assert_eq!(out.as_ref(), bind::UNNAMED_WITHOUT_VALUES);
    assert_eq!(&SYNC, b"S\0\0\0\x04");
    assert_eq!(&FLUSH, b"H\0\0\0\x04");
}

#[test]
fn sasl_responses_round_trip() {
    let mut out = BytesMut::new();
    let golden = b"p\0\0\0\x19SCRAM-SHA-256\0\0\0\0\x03n,,".as_slice();
    let initial = SaslInitialResponse { mechanism: "SCRAM-SHA-256", data: Some(Secret(b"n,,")) };
    initial.encode(&mut out).unwrap();
    assert_eq!(out, golden);
    assert_eq!(SaslInitialResponse::decode(&golden[5..]), Ok(initial));
    for end in 5..golden.len() {
        assert!(SaslInitialResponse::decode(&golden[5..end]).is_err());
    }
    let silent = SaslInitialResponse { mechanism: "X", data: None };
    out.clear();
    silent.encode(&mut out).unwrap();
    assert_eq!(SaslInitialResponse::decode(&out[5..]), Ok(silent));
    out.clear();
    SaslResponse { data: Secret(b"c=") }.encode(&mut out).unwrap();
    assert_eq!(out, b"p\0\0\0\x06c=".as_slice());
    assert_eq!(SaslResponse::decode(b"c=").data, Secret(b"c="));
}

#[test]
fn password_message_ends_with_its_nul() {
    assert_eq!(PasswordMessage::decode(b"abc\0").unwrap().password, Secret(b"abc"));
    assert!(PasswordMessage::decode(b"abc").is_err());
    assert!(PasswordMessage::decode(b"a\0c\0").is_err());
}

#[test]
fn bind_writes_formats_as_no_one_or_many_codes() {
    let bind = |formats: Formats<'_>, results: Formats<'_>| {
        let mut out = BytesMut::new();
        bind::write(&mut out, "", "", formats, 2, put_letter, results).unwrap();
        out[7..].to_vec()
    };
    let values = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff";
    let expected = |head: &[u8], tail: &[u8]| [head, values, tail].concat();
    assert_eq!(bind(Formats::AllText, Formats::AllBinary), expected(b"\0\0", b"\0\x01\0\x01"));
    assert_eq!(
        bind(Formats::Each(&[Format::Text, Format::Binary]), Formats::Each(&[Format::Binary])),
        expected(b"\0\x02\0\0\0\x01", b"\0\x01\0\x01")
    );
}

/// The first parameter is `a`, the others are NULL, even though bytes were written for them.
fn put_letter(index: usize, out: &mut BytesMut) -> Result<IsNull, EncodeError> {
    out.put_u8(b'a' + index as u8);
    Ok(if index == 0 { IsNull::No } else { IsNull::Yes })
}

#[test]
fn format_codes_follow_the_rule_of_bind() {
    let codes = |body: &'static [u8]| match decode_frontend(body) {
        Frontend::Bind(bind) => bind.parameter_formats,
        other => panic!("{other:?}"),
    };
    let one = codes(FRONTEND[3]);
    assert_eq!((one.len(), one.of(0), one.of(7)), (1, Some(Format::Binary), Some(Format::Binary)));
    let none = codes(FRONTEND[4]);
    assert_eq!((none.len(), none.of(0)), (0, Some(Format::Text)));
}

/// Short names are written in another way than long ones.
#[test]
fn names_of_every_length_are_bound_as_they_are_and_without_a_nul() {
    let text = Formats::AllText;
    for (portal, statement) in (0..40).flat_map(|portal| (20..72).map(move |len| (portal, len))) {
        let (portal, statement) = ("p".repeat(portal), "s".repeat(statement));
        let mut out = BytesMut::new();
        bind::write_named(&mut out, &portal, &statement, &[0; 6]).unwrap();
        let bind = Bind::decode(&out[Header::LEN..]).unwrap();
        assert_eq!((bind.portal, bind.statement), (&*portal, &*statement));
        for (at, name) in [&portal, &statement].into_iter().enumerate() {
            for end in [0, name.len() / 2, name.len()] {
                let wrong = format!("{}\0{}", &name[..end], &name[end..]);
                let names = if at == 0 { [&wrong, &statement] } else { [&portal, &wrong] };
                let nothing = |_: usize, _: &mut BytesMut| Ok(IsNull::Yes);
                let mut out = BytesMut::from("kept");
                let result: Result<(), EncodeError> =
                    bind::write(&mut out, names[0], names[1], text, 0, nothing, text);
                assert_eq!(result, Err(EncodeError::Nul));
                assert_eq!(out, "kept");
            }
        }
    }
}

#[test]
fn a_refused_message_leaves_the_buffer_as_it_was() {
    let mut out = BytesMut::from(&b"before"[..]);
    let many = vec![Format::Binary; 65_536];
    let nothing = |_: usize, _: &mut BytesMut| Ok(IsNull::Yes);
    let text = Formats::AllText;
    let refusals = [
        (Query { sql: "a\0b" }.encode(&mut out), EncodeError::Nul),
        (parse::write(&mut out, "s\0", "", &[]), EncodeError::Nul),
        (parse::write(&mut out, "", "", &[0; 65_536]), EncodeError::TooMany),
        (bind::write(&mut out, "", "\0", text, 0, nothing, text), EncodeError::Nul),
        (bind::write(&mut out, "", "", text, 65_536, nothing, text), EncodeError::TooMany),
        (
            bind::write(&mut out, "", "", text, 0, nothing, Formats::Each(&many)),
            EncodeError::TooMany,
        ),
        (
            bind::write(&mut out, "", "", Formats::Each(&many), 1, nothing, text),
            EncodeError::FormatCount,
        ),
        (
            bind::write(&mut out, "", "", text, 3, |_, _| Err(EncodeError::TooLong), text),
            EncodeError::TooLong,
        ),
        (startup_message::write(&mut out, 0, [("", "x")]), EncodeError::EmptyName),
        (startup_message::write(&mut out, 0, [("x", &*"y".repeat(10_000))]), EncodeError::TooLong),
        (CopyFail { reason: &"y".repeat(9_996) }.encode(&mut out), EncodeError::TooLong),
        (
            Execute { portal: &"y".repeat(9_992), rows_max: 0 }.encode(&mut out),
            EncodeError::TooLong,
        ),
        (
            Describe { target: Target::Portal(&"y".repeat(9_995)) }.encode(&mut out),
            EncodeError::TooLong,
        ),
        (error_response::write(&mut out, [(0, b"x".as_slice())]), EncodeError::EmptyName),
        (authentication::write_sasl(&mut out, &[""]), EncodeError::EmptyName),
        (
            BackendKeyData { process_id: 1, secret_key: Secret(&[0; 257]) }.encode(&mut out),
            EncodeError::KeyLength,
        ),
        (
            CancelRequest { process_id: 1, secret_key: Secret(&[0; 3]) }.encode(&mut out),
            EncodeError::KeyLength,
        ),
        (data_row::write(&mut out, vec![None; 65_536].into_iter()), EncodeError::TooMany),
    ];
    for (index, (result, error)) in refusals.into_iter().enumerate() {
        assert_eq!(result, Err(error), "{index}");
    }
    assert_eq!(out, b"before".as_slice());
}

#[test]
fn bind_takes_65535_parameters() {
    let mut out = BytesMut::new();
    let nothing = |_: usize, _: &mut BytesMut| Ok::<_, EncodeError>(IsNull::Yes);
    bind::write(&mut out, "", "", Formats::AllText, 65_535, nothing, Formats::AllText).unwrap();
    let bind = Bind::decode(&out[5..]).unwrap();
    assert_eq!(bind.parameters.len(), 65_535);
    assert!({ bind.parameters }.all(|value| value.is_none()));
}

#[test]
fn cancel_keys_of_4_to_256_bytes_are_taken() {
    for (len, ok) in [(0, false), (3, false), (4, true), (32, true), (256, true), (257, false)] {
        let body = [vec![0; 4], vec![7; len]].concat();
        assert_eq!(BackendKeyData::decode(&body).is_ok(), ok, "{len}");
        let cancel = [&ssl_request::CODE.wrapping_sub(1).to_be_bytes(), &body[..]].concat();
        assert_eq!(InitialMessage::decode(&cancel).is_ok(), ok, "{len}");
    }
}

#[test]
fn header_lengths_below_four_are_a_violation() {
    assert_eq!(Header::peek(b"Z\0\0\0"), Ok(None));
    assert_eq!(Header::peek(b"Z\0\0\0\x05"), Ok(Some(Header { tag: b'Z', len: 1 })));
    for len in 0..4 {
        let error = Violation::ShortLength { tag: b'Z' };
        assert_eq!(Header::peek(&[b'Z', 0, 0, 0, len]), Err(error));
        assert_eq!(frame(&[b'Z', 0, 0, 0, len], max_len), Err(error));
    }
}

#[test]
fn unknown_types_are_refused_at_their_first_byte() {
    for tag in 0..=255u8 {
        let found = frame(std::slice::from_ref(&tag), max_len);
        let known = BACKEND.iter().any(|example| example[0] == tag);
        assert_eq!(found, if known { Ok(None) } else { Err(Violation::UnknownTag(tag)) });
    }
}

#[test]
fn lengths_above_the_limit_of_their_type_are_refused_before_the_body_comes() {
    for tag in 0..=255u8 {
        let Some(max) = max_len(tag) else { continue };
        let header = |len: u32| [&[tag], (len + 4).to_be_bytes().as_slice()].concat();
        let too_long = Err(Violation::TooLong { tag });
        assert_eq!(frame(&header(max + 1), max_len), too_long);
        if max > 0 {
            assert_eq!(frame(&header(max), max_len), Ok(None));
        }
        assert_eq!(frame(&[tag, 0xff, 0xff, 0xff, 0xff], max_len), too_long);
    }
}

#[test]
fn declared_counts_without_the_bytes_are_refused() {
    for body in [
        b"\xff\xff".as_slice(),
        b"\xff\xff\0\0",
        b"\0\x01\x7f\xff\xff\xff",
        b"\0\x01\xff\xff\xff\xfe",
    ] {
        assert!(DataRow::decode(body).is_err());
        assert!(RowDescription::decode(body).is_err());
        assert!(Bind::decode(&[b"\0\0\0\0", body].concat()).is_err());
    }
    assert!(ParameterDescription::decode(b"\xff\xff\0\0\0\x17").is_err());
    assert!(NegotiateProtocolVersion::decode(b"\0\x03\0\0\xff\xff\xff\xff\0\0").is_err());
    assert!(CopyResponse::decode(b"\0\xff\xff\0\0").is_err());
    assert!(CopyResponse::decode(b"\x02\0\0").is_err());
    assert!(CopyResponse::decode(b"\0\0\x01\x01\x01").is_err());
    assert!(ReadyForQuery::decode(b"X").is_err());
}

#[test]
fn server_error_prefers_the_untranslated_severity_and_keeps_unknown_fields() {
    for body in [
        b"SFATAL-DE\0VFATAL\0C53300\0Mtoo many\0Ptwo\0L12\0?x\0\0".as_slice(),
        b"VFATAL\0SFATAL-DE\0C53300\0Mtoo many\0Ptwo\0L12\0?x\0\0",
    ] {
        let error = ServerError::from(ErrorResponse::decode(body).unwrap());
        assert_eq!(error.severity, "FATAL");
        assert!(error.is_fatal());
        assert_eq!((error.position, error.line), (None, Some(12)));
        assert_eq!(error.unknown, [(b'?', "x".to_owned())]);
        assert_eq!(error.to_string(), "too many (SQLSTATE 53300)");
    }
    let lines = ServerError::from(ErrorResponse::decode(b"MOne:\n  two\r\n\0\0").unwrap());
    assert_eq!((lines.to_string().as_str(), &*lines.message), ("One: two", "One:\n  two\r\n"));
    let old = ServerError::from(ErrorResponse::decode(b"SPANIC\0\0").unwrap());
    assert!(old.is_fatal());
}

#[test]
fn server_error_keeps_few_fields_that_nobody_knows() {
    let body = [b"x\0y1\0".repeat(1000).as_slice(), b"Mafter\0\0"].concat();
    let error = ServerError::from(ErrorResponse::decode(&body).unwrap());
    assert_eq!(error.unknown.len(), 16);
    assert_eq!(error.unknown[..2], [(b'x', String::new()), (b'y', "1".to_owned())]);
    assert_eq!(error.message, "after");
}

#[test]
fn server_error_keeps_every_field_over_a_round_trip() {
    let letters = b"SVCMDHPpqWstcdnFLRXY";
    let body = letters.iter().flat_map(|letter| [*letter, b'4', *letter, 0]).chain([0]);
    let body = body.collect::<Vec<_>>();
    let fields = ErrorResponse::decode(&body).unwrap().fields;
    assert_eq!(fields.value(field::HINT), Some(b"4H".as_slice()));
    let mut error = ServerError::from(fields);
    error.position = Some(4);
    error.internal_position = Some(5);
    error.line = Some(6);
    assert_eq!(error.unknown.len(), 2);
    let mut out = BytesMut::new();
    error.encode_error(&mut out).unwrap();
    assert_eq!(out[0], b'E');
    let again = ServerError::from(ErrorResponse::decode(&out[5..]).unwrap());
    assert_eq!(again, error);
    out.clear();
    error.encode_notice(&mut out).unwrap();
    assert_eq!(out[0], b'N');
    assert_eq!(ServerError::from(NoticeResponse::decode(&out[5..]).unwrap()), error);
}

#[test]
fn error_texts_in_another_encoding_are_still_shown() {
    let error = ServerError::from(ErrorResponse::decode(b"Mcaf\xe9\0\0").unwrap());
    assert_eq!(error.message, "caf\u{fffd}");
    assert!(CommandComplete::decode(b"caf\xe9\0").is_err());
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let key = decode_backend(b"K\0\0\0\x0c\0\0\0\x01hush");
    let password = decode_frontend(b"p\0\0\0\x09hush\0");
    let cancel = CancelRequest { process_id: 1, secret_key: Secret(b"hush") };
    let shown = format!("{key:?} {password:?} {cancel:?}");
    assert!(!shown.contains("hush") && !shown.contains("104"), "{shown}");
}

#[test]
fn ssl_answers_are_three_letters() {
    use ssl_request::Answer;
    assert_eq!(Answer::from_byte(b'S'), Some(Answer::Accepted));
    assert_eq!(Answer::from_byte(b'N'), Some(Answer::Refused));
    assert_eq!(Answer::from_byte(b'E'), Some(Answer::Error));
    assert_eq!(Answer::from_byte(b'H'), None);
}

#[test]
fn random_bytes_never_panic_any_decoder() {
    for seed in 1..=30_000u64 {
        let result = std::panic::catch_unwind(|| throw_at_decoders(seed));
        assert!(result.is_ok(), "panic with seed {seed}");
    }
}

#[test]
fn damaged_examples_never_panic_any_decoder() {
    for seed in 1..=30_000u64 {
        let result = std::panic::catch_unwind(|| {
            let mut random = XorShift(seed);
            let all = BACKEND.iter().chain(FRONTEND).collect::<Vec<_>>();
            let mut bytes = all[random.next() as usize % all.len()].to_vec();
            for _ in 0..=random.next() % 3 {
                let at = random.next() as usize % bytes.len();
                bytes[at] =
                    [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.next() as usize % 6];
            }
            decode_all(bytes[0], &bytes[5..]);
            let _ = frame(&bytes, max_len);
        });
        assert!(result.is_ok(), "panic with seed {seed}");
    }
}

fn throw_at_decoders(seed: u64) {
    let mut random = XorShift(seed);
    let len = random.next() as usize % 64;
    // Small numbers are likelier to look like counts and lengths.
    let bytes = (0..len).map(|_| {
        let byte = random.next() as u8;
        if random.next().is_multiple_of(2) { byte % 4 } else { byte }
    });
    let bytes = bytes.collect::<Vec<_>>();
    for tag in 0..=127 {
        decode_all(tag, &bytes);
    }
    let _ = InitialMessage::decode(&bytes).map(|message| format!("{message:?}"));
    let _ = SaslInitialResponse::decode(&bytes);
    let _ = PasswordMessage::decode(&bytes);
    for max_len_of in [max_len as fn(u8) -> Option<u32>, frontend_max_len] {
        let mut rest = &bytes[..];
        while let Ok(Some(found)) = frame(rest, max_len_of) {
            rest = &rest[found.message_len()..];
        }
    }
    let _ = frame_initial(&bytes);
}

/// Messages that decode must encode to the same bytes again.
fn decode_all(tag: u8, body: &[u8]) {
    let frame = Frame { tag, body };
    if let Ok(message) = BackendMessage::decode(frame) {
        let lossless =
            !matches!(message, BackendMessage::Authentication(Authentication::Unsupported { .. }));
        let encoded = encode_backend(message);
        assert!(!lossless || encoded[5..] == *body, "{message:?}");
    }
    if let Ok(message) = FrontendMessage::decode(frame) {
        assert_eq!(encode_frontend(message)[5..], *body, "{message:?}");
    }
}

fn decode_backend(bytes: &'static [u8]) -> Backend {
    BackendMessage::decode(frame(bytes, max_len).unwrap().unwrap()).unwrap()
}

fn decode_frontend(bytes: &'static [u8]) -> Frontend {
    FrontendMessage::decode(frame(bytes, frontend_max_len).unwrap().unwrap()).unwrap()
}

fn encode_backend(message: BackendMessage<'_>) -> BytesMut {
    use BackendMessage as M;
    let mut out = BytesMut::new();
    let copy = |out: &mut BytesMut, direction, copy: CopyResponse<'_>| {
        copy_response::write(out, direction, copy.format, &copy.columns.collect::<Vec<_>>())
    };
    match message {
        M::Authentication(message) => message.encode(&mut out),
        M::BackendKeyData(message) => message.encode(&mut out),
        M::CommandComplete(message) => message.encode(&mut out),
        M::CopyBothResponse(message) => copy(&mut out, CopyDirection::Both, message),
        M::CopyInResponse(message) => copy(&mut out, CopyDirection::In, message),
        M::CopyOutResponse(message) => copy(&mut out, CopyDirection::Out, message),
        M::CopyData(message) => message.encode(&mut out),
        M::DataRow(message) => data_row::write(&mut out, message.values),
        M::ErrorResponse(message) => error_response::write(&mut out, message.fields),
        M::NoticeResponse(message) => error_response::write_notice(&mut out, message.fields),
        M::FunctionCallResponse(message) => message.encode(&mut out),
        M::NegotiateProtocolVersion(message) => negotiate_protocol_version::write(
            &mut out,
            message.version,
            &message.unknown_options.collect::<Vec<_>>(),
        ),
        M::NotificationResponse(message) => message.encode(&mut out),
        M::ParameterDescription(message) => {
            parameter_description::write(&mut out, &message.types.collect::<Vec<_>>())
        }
        M::ParameterStatus(message) => message.encode(&mut out),
        M::RowDescription(message) => row_description::write(&mut out, message.fields),
        M::ReadyForQuery(message) => {
            message.encode(&mut out);
            Ok(())
        }
        M::BindComplete => put(&mut out, empty::BIND_COMPLETE),
        M::CloseComplete => put(&mut out, empty::CLOSE_COMPLETE),
        M::CopyDone => put(&mut out, empty::COPY_DONE),
        M::EmptyQueryResponse => put(&mut out, empty::EMPTY_QUERY_RESPONSE),
        M::NoData => put(&mut out, empty::NO_DATA),
        M::ParseComplete => put(&mut out, empty::PARSE_COMPLETE),
        M::PortalSuspended => put(&mut out, empty::PORTAL_SUSPENDED),
    }
    .unwrap();
    out
}

fn encode_frontend(message: FrontendMessage<'_>) -> BytesMut {
    use FrontendMessage as M;
    let mut out = BytesMut::new();
    match message {
        M::Bind(bind) => encode_bind(&mut out, bind),
        M::Close(message) => message.encode(&mut out),
        M::CopyData(message) => message.encode(&mut out),
        M::CopyDone => put(&mut out, empty::COPY_DONE),
        M::CopyFail(message) => message.encode(&mut out),
        M::Describe(message) => message.encode(&mut out),
        M::Execute(message) => message.encode(&mut out),
        M::Flush => put(&mut out, FLUSH),
        M::Parse(message) => {
            let types = message.parameter_types.collect::<Vec<_>>();
            parse::write(&mut out, message.statement, message.sql, &types)
        }
        M::Password(body) => SaslResponse { data: body }.encode(&mut out),
        M::Query(message) => message.encode(&mut out),
        M::Sync => put(&mut out, SYNC),
        M::Terminate => put(&mut out, TERMINATE),
    }
    .unwrap();
    out
}

/// Bind through the streaming form. The codes are put by hand where their number differs from the
/// parameters'.
fn encode_bind(out: &mut BytesMut, bind: Bind<'_>) -> Result<(), EncodeError> {
    let values = bind.parameters.collect::<Vec<_>>();
    let formats = bind.parameter_formats.collect::<Vec<_>>();
    let results = bind.result_formats.collect::<Vec<_>>();
    let formats = match &formats[..] {
        [] => Formats::AllText,
        [Format::Binary] => Formats::AllBinary,
        each if each.len() == values.len() => Formats::Each(each),
        // The streaming form never writes another number of codes; its reader must take them all
        // the same.
        _ => {
            out.put_slice(&raw_bind(bind));
            return Ok(());
        }
    };
    let write = |index: usize, out: &mut BytesMut| {
        let Some(value) = values[index] else { return Ok::<_, EncodeError>(IsNull::Yes) };
        out.put_slice(value);
        Ok(IsNull::No)
    };
    let results = Formats::Each(&results);
    bind::write(out, bind.portal, bind.statement, formats, values.len(), write, results)
}

fn raw_bind(bind: Bind<'_>) -> Vec<u8> {
    let codes = |codes: FormatCodes<'_>| {
        let count = (codes.len() as u16).to_be_bytes().to_vec();
        codes.fold(count, |all, code| [all, code.code().to_be_bytes().to_vec()].concat())
    };
    let mut row = BytesMut::new();
    data_row::write(&mut row, bind.parameters).unwrap();
    let names = [bind.portal.as_bytes(), b"\0", bind.statement.as_bytes(), b"\0"].concat();
    let body = [&names, &codes(bind.parameter_formats)[..], &row[5..], &codes(bind.result_formats)];
    [b"B\0\0\0\0".as_slice(), &body.concat()].concat()
}

fn put(out: &mut BytesMut, bytes: [u8; 5]) -> Result<(), EncodeError> {
    out.put_slice(&bytes);
    Ok(())
}

struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 24
    }
}
