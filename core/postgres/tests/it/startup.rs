//! The startup machine against a model server that is written with the same codecs.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::auth::{ChannelBinding, ScramServer, md5};
use onetrip_postgres::message::*;
use onetrip_postgres::startup::*;

const NONCE: [u8; NONCE_LEN] = [9; NONCE_LEN];

fn config() -> StartupConfig {
    StartupConfig { password: Some("secret".into()), ..StartupConfig::new("me") }
}

fn start(config: StartupConfig) -> Startup {
    let mut startup = Startup::new(config, NONCE).unwrap();
    startup.transmit().unwrap();
    startup
}

fn feed(startup: &mut Startup, bytes: &[u8]) -> Result<Option<Ready>, StartupError> {
    startup.handle_bytes(&mut bytes.into())
}

/// The error with which these bytes end a startup.
fn error(config: StartupConfig, bytes: &[u8]) -> StartupError {
    feed(&mut start(config), bytes).unwrap_err()
}

fn encoded(write: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out).unwrap();
    out
}

fn auth(message: Authentication<'_>) -> BytesMut {
    encoded(|out| message.encode(out))
}

fn sasl(mechanisms: &[&str]) -> BytesMut {
    encoded(|out| authentication::write_sasl(out, mechanisms))
}

fn parameter(name: &str, value: &str) -> BytesMut {
    encoded(|out| ParameterStatus { name, value }.encode(out))
}

fn key(len: usize) -> BytesMut {
    encoded(|out| BackendKeyData { process_id: 77, secret_key: Secret(&vec![5; len]) }.encode(out))
}

fn ready_for_query() -> BytesMut {
    let mut out = BytesMut::new();
    ReadyForQuery { status: TransactionStatus::Idle }.encode(&mut out);
    out
}

/// AuthenticationOk and everything after it.
fn welcome() -> Vec<u8> {
    [
        auth(Authentication::Ok),
        parameter("server_version", "18.1"),
        parameter("client_encoding", "UTF8"),
        key(4),
        ready_for_query(),
    ]
    .concat()
}

#[test]
fn the_startup_packet_names_user_database_and_utf8() {
    let mut config = config();
    config.database = Some("db".into());
    config.parameters =
        vec![("application_name".into(), "x".into()), ("Client_Encoding".into(), "utf-8".into())];
    let mut startup = Startup::new(config, NONCE).unwrap();
    let packet = startup.transmit().unwrap();
    let body = frame_initial(&packet).unwrap().unwrap();
    assert_eq!(body.len() + 4, packet.len());
    let InitialMessage::Startup(message) = InitialMessage::decode(body).unwrap() else { panic!() };
    assert_eq!(message.version, 0x3_0000);
    assert_eq!(
        message.parameters.collect::<Vec<_>>(),
        [
            ("user", "me"),
            ("client_encoding", "UTF8"),
            ("database", "db"),
            ("application_name", "x")
        ]
    );
    assert_eq!(startup.transmit(), None);
}

#[test]
fn a_configuration_that_can_not_be_sent_is_refused() {
    let refused = |parameters: &[(&str, &str)], user: &str| {
        let parameters =
            parameters.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Startup::new(StartupConfig { parameters, ..StartupConfig::new(user) }, NONCE).unwrap_err()
    };
    assert_eq!(refused(&[], "a\0b"), StartupError::Encode(EncodeError::Nul));
    assert_eq!(refused(&[("", "x")], "a"), StartupError::Encode(EncodeError::EmptyName));
    assert_eq!(refused(&[("client_encoding", "LATIN1")], "a"), StartupError::ClientEncoding);
}

#[test]
fn trusted_startup_ends_at_ready_for_query_and_leaves_later_bytes() {
    let mut startup = start(config());
    let mut input = BytesMut::from(&[&welcome()[..], b"next"].concat()[..]);
    let ready = startup.handle_bytes(&mut input).unwrap().unwrap();
    assert_eq!(input, b"next".as_slice());
    assert_eq!(ready.process_id, 77);
    assert_eq!(ready.secret_key.as_bytes(), [5; 4]);
    assert_eq!(ready.protocol, ProtocolVersion::V3_0);
    assert_eq!(ready.status, TransactionStatus::Idle);
    assert_eq!(ready.parameters[0], ("server_version".into(), "18.1".into()));
    assert_eq!(startup.handle_bytes(&mut input).unwrap_err(), StartupError::Ended);
}

#[test]
fn startup_works_byte_by_byte() {
    let mut startup = start(config());
    let mut input = BytesMut::new();
    let bytes = welcome();
    for (index, byte) in bytes.iter().enumerate() {
        input.put_u8(*byte);
        let ready = startup.handle_bytes(&mut input).unwrap();
        assert_eq!(ready.is_some(), index + 1 == bytes.len());
    }
    assert!(input.is_empty());
}

#[test]
fn the_last_report_of_a_setting_counts() {
    let bytes = [
        &auth(Authentication::Ok)[..],
        &parameter("a", "1"),
        &parameter("b", "2"),
        &parameter("a", "3"),
        &ready_for_query(),
    ]
    .concat();
    let ready = feed(&mut start(config()), &bytes).unwrap().unwrap();
    assert_eq!(ready.parameters, [("a".into(), "3".into()), ("b".into(), "2".into())]);
    assert!(ready.secret_key.is_empty());
}

#[test]
fn plain_passwords_are_refused_over_an_open_channel_and_the_error_names_the_option() {
    for (request, method) in [
        (Authentication::CleartextPassword, PlainMethod::Cleartext),
        (Authentication::Md5Password { salt: [1; 4] }, PlainMethod::Md5),
    ] {
        let mut startup = start(config());
        let error = feed(&mut startup, &auth(request)).unwrap_err();
        assert_eq!(error, StartupError::PlainPasswordRefused { method });
        assert!(error.to_string().contains("allow_plain_password"), "{error}");
        assert_eq!(startup.transmit(), None);
    }
}

#[test]
fn plain_passwords_are_sent_on_a_secure_channel_or_where_allowed() {
    for (secure_channel, allow_cleartext) in [(true, false), (false, true)] {
        let config = || StartupConfig { secure_channel, allow_cleartext, ..config() };
        let hash = md5::response("me", &"secret".into(), [1; 4]);
        for (request, expected) in [
            (Authentication::CleartextPassword, "secret"),
            (Authentication::Md5Password { salt: [1; 4] }, &*hash),
        ] {
            let mut startup = start(config());
            assert!(feed(&mut startup, &auth(request)).unwrap().is_none());
            let sent = startup.transmit().unwrap();
            let password = PasswordMessage::decode(&sent[5..]).unwrap().password;
            assert_eq!(password.0, expected.as_bytes());
            assert!(feed(&mut startup, &welcome()).unwrap().is_some());
        }
    }
}

#[test]
fn a_second_request_for_a_password_is_refused() {
    let mut startup = start(StartupConfig { secure_channel: true, ..config() });
    let request = auth(Authentication::CleartextPassword);
    feed(&mut startup, &request).unwrap();
    let error = feed(&mut startup, &request).unwrap_err();
    assert_eq!(error, StartupError::Unexpected { tag: b'R' });
}

#[test]
fn a_request_for_a_password_without_one_is_an_error() {
    let none = StartupConfig { secure_channel: true, ..StartupConfig::new("me") };
    let cleartext = auth(Authentication::CleartextPassword);
    assert_eq!(error(none.clone(), &cleartext), StartupError::PasswordMissing);
    assert_eq!(error(none, &sasl(&["SCRAM-SHA-256"])), StartupError::PasswordMissing);
}

/// A startup after the client's first SCRAM message, the model server, and its answer.
fn scram_begun(
    config: StartupConfig,
    offer: &[&str],
    expected: ChannelBinding,
) -> (Startup, ScramServer, BytesMut) {
    let mut startup = start(config);
    feed(&mut startup, &sasl(offer)).unwrap();
    let sent = startup.transmit().unwrap();
    let initial = SaslInitialResponse::decode(&sent[5..]).unwrap();
    assert_eq!(initial.mechanism, expected.mechanism());
    let mut server = ScramServer::new("secret".into(), b"salt", 5, b"more", expected);
    let first = server.handle_client_first(initial.data.unwrap().0).unwrap();
    (startup, server, auth(Authentication::SaslContinue(first.as_bytes())))
}

/// Plays the exchange to its end, and returns the server's last SCRAM message.
fn scram_proved(startup: &mut Startup, server: &mut ScramServer, first: &[u8]) -> BytesMut {
    assert!(feed(startup, first).unwrap().is_none());
    let sent = startup.transmit().unwrap();
    let last = server.handle_client_final(SaslResponse::decode(&sent[5..]).data.0).unwrap();
    auth(Authentication::SaslFinal(last.as_bytes()))
}

#[test]
fn scram_succeeds_with_and_without_channel_binding() {
    let both = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];
    let bound = ChannelBinding::TlsServerEndPoint(vec![1, 2]);
    for (data, offer, expected) in [
        (None, &both[1..], ChannelBinding::Unsupported),
        (None, &both[..], ChannelBinding::Unsupported),
        (Some(vec![1, 2]), &both[1..], ChannelBinding::NotOffered),
        (Some(vec![1, 2]), &both[..], bound.clone()),
        (Some(vec![1, 2]), &both[..1], bound),
    ] {
        let config = StartupConfig { channel_binding: data, ..config() };
        let (mut startup, mut server, first) = scram_begun(config, offer, expected);
        let last = scram_proved(&mut startup, &mut server, &first);
        let ready = feed(&mut startup, &[&last[..], &welcome()].concat()).unwrap();
        assert!(ready.is_some());
    }
}

#[test]
fn authentication_ok_before_sasl_final_is_refused() {
    let plain = || scram_begun(config(), &["SCRAM-SHA-256"], ChannelBinding::Unsupported);
    let (mut startup, ..) = plain();
    assert_eq!(feed(&mut startup, &welcome()).unwrap_err(), StartupError::UnverifiedServer);
    let (mut startup, mut server, first) = plain();
    scram_proved(&mut startup, &mut server, &first);
    assert_eq!(feed(&mut startup, &welcome()).unwrap_err(), StartupError::UnverifiedServer);
}

#[test]
fn a_wrong_server_signature_is_refused() {
    let (mut startup, mut server, first) =
        scram_begun(config(), &["SCRAM-SHA-256"], ChannelBinding::Unsupported);
    scram_proved(&mut startup, &mut server, &first);
    let forged = auth(Authentication::SaslFinal(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    let error = feed(&mut startup, &forged).unwrap_err();
    assert!(error.to_string().contains("could not prove"), "{error}");
}

#[test]
fn too_many_scram_iterations_are_refused() {
    let config = StartupConfig { scram_iterations_max: 4, ..config() };
    let (mut startup, _, first) =
        scram_begun(config, &["SCRAM-SHA-256"], ChannelBinding::Unsupported);
    let error = feed(&mut startup, &first).unwrap_err();
    assert!(error.to_string().contains("scram_iterations_max"), "{error}");
    assert_eq!(startup.transmit(), None);
}

#[test]
fn a_downgrade_from_scram_to_a_password_is_refused() {
    let config = StartupConfig { secure_channel: true, ..config() };
    let (mut startup, ..) = scram_begun(config, &["SCRAM-SHA-256"], ChannelBinding::Unsupported);
    let error = feed(&mut startup, &auth(Authentication::CleartextPassword)).unwrap_err();
    assert_eq!(error, StartupError::Unexpected { tag: b'R' });
    assert_eq!(startup.transmit(), None);
}

#[test]
fn a_way_of_authentication_that_is_not_allowed_is_refused_before_anything_is_sent() {
    let all = AuthMethods::default();
    let without = [
        ("none", AuthMethods { none: false, ..all }, welcome()),
        (
            "password",
            AuthMethods { password: false, ..all },
            auth(Authentication::CleartextPassword).to_vec(),
        ),
        (
            "md5",
            AuthMethods { md5: false, ..all },
            auth(Authentication::Md5Password { salt: [0; 4] }).to_vec(),
        ),
        (
            "scram-sha-256",
            AuthMethods { scram: false, ..all },
            sasl(&["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]).to_vec(),
        ),
    ];
    for (method, methods, _) in &without {
        for (others, _, request) in &without {
            let config = StartupConfig { secure_channel: true, methods: *methods, ..config() };
            let mut startup = start(config);
            let result = feed(&mut startup, request);
            if method == others {
                assert_eq!(result.unwrap_err(), StartupError::MethodRefused { method });
                assert_eq!(startup.transmit(), None);
            } else {
                assert!(result.is_ok(), "{others} although only {method} is refused");
            }
        }
    }
}

#[test]
fn required_channel_binding_refuses_everything_else() {
    let config = || StartupConfig {
        secure_channel: true,
        channel_binding: Some(vec![1]),
        channel_binding_required: true,
        ..config()
    };
    for bytes in [
        &welcome()[..],
        &auth(Authentication::CleartextPassword),
        &auth(Authentication::Md5Password { salt: [0; 4] }),
        &sasl(&["SCRAM-SHA-256"]),
    ] {
        assert_eq!(error(config(), bytes), StartupError::ChannelBindingMissing);
    }
    let unable = StartupConfig { channel_binding: None, ..config() };
    let both = sasl(&["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
    assert_eq!(error(unable, &both), StartupError::ChannelBindingMissing);
}

#[test]
fn unsupported_methods_are_named() {
    let gss = auth(Authentication::Unsupported { code: 7 });
    assert_eq!(error(config(), &gss), StartupError::UnsupportedAuthentication { code: 7 });
    let other = sasl(&["OAUTHBEARER"]);
    assert_eq!(error(config(), &other), StartupError::UnsupportedMechanism);
    assert_eq!(error(config(), &sasl(&[])), StartupError::UnsupportedMechanism);
}

#[test]
fn a_server_may_negotiate_down_once_and_before_anything_else() {
    let v3_2 = || StartupConfig { protocol: ProtocolVersion::V3_2, ..config() };
    let down = |version| encoded(|out| negotiate_protocol_version::write(out, version, &[]));
    for (offer, version) in [
        (0x3_0000, ProtocolVersion::V3_0),
        (0, ProtocolVersion::V3_0),
        (0x3_0002, ProtocolVersion::V3_2),
    ] {
        let mut bytes = down(offer).to_vec();
        bytes.extend_from_slice(&welcome());
        let ready = feed(&mut start(v3_2()), &bytes).unwrap().unwrap();
        assert_eq!(ready.protocol, version);
    }
    for offer in [0x3_0001, 0x3_0003, 0x2_0000, 0x4_0000, u32::MAX] {
        assert_eq!(error(v3_2(), &down(offer)), StartupError::Negotiation, "{offer:x}");
    }
    assert_eq!(error(config(), &down(0x3_0002)), StartupError::Negotiation);
    let twice = [down(0x3_0000), down(0x3_0000)].concat();
    assert_eq!(error(v3_2(), &twice), StartupError::Negotiation);
    let late = [&auth(Authentication::Ok)[..], &down(0x3_0000)].concat();
    assert_eq!(error(v3_2(), &late), StartupError::Unexpected { tag: b'v' });
}

#[test]
fn only_options_that_were_asked_for_may_be_refused_by_the_server() {
    let refuse = |name| encoded(|out| negotiate_protocol_version::write(out, 0x3_0000, &[name]));
    let mut asking = config();
    asking.parameters = vec![("_pq_.x".into(), "1".into())];
    assert_eq!(error(asking.clone(), &refuse("_pq_.y")), StartupError::Negotiation);
    let bytes = [&refuse("_pq_.x")[..], &welcome()].concat();
    assert!(feed(&mut start(asking), &bytes).unwrap().is_some());
}

#[test]
fn long_cancel_keys_belong_to_3_2_only() {
    let bytes = |len| [auth(Authentication::Ok), key(len), ready_for_query()].concat();
    assert_eq!(error(config(), &bytes(32)), StartupError::KeyLength);
    let v3_2 = StartupConfig { protocol: ProtocolVersion::V3_2, ..config() };
    for len in [4, 32, 256] {
        let ready = feed(&mut start(v3_2.clone()), &bytes(len)).unwrap().unwrap();
        assert_eq!(ready.secret_key.as_bytes().len(), len);
    }
}

#[test]
fn a_session_that_does_not_speak_utf8_does_not_begin() {
    let bytes = |encoding| {
        [auth(Authentication::Ok), parameter("client_encoding", encoding), ready_for_query()]
            .concat()
    };
    assert_eq!(error(config(), &bytes("LATIN1")), StartupError::ClientEncoding);
    for encoding in ["UTF8", "utf-8", "UNICODE"] {
        assert!(feed(&mut start(config()), &bytes(encoding)).unwrap().is_some());
    }
}

#[test]
fn an_error_of_the_server_ends_the_startup() {
    let refusal = ServerError {
        severity: "FATAL".into(),
        code: "28P01".into(),
        message: "password authentication failed".into(),
        ..ServerError::default()
    };
    let bytes = encoded(|out| refusal.encode_error(out));
    let refusal = Box::new(refusal);
    let of_login = (&b""[..], StartupError::Server(refusal.clone()));
    let authenticated = auth(Authentication::Ok);
    let of_session = (&authenticated[..], StartupError::Session(refusal));
    for (before, told) in [of_login, of_session] {
        let mut startup = start(config());
        let error = feed(&mut startup, &[before, &bytes].concat()).unwrap_err();
        assert_eq!(error.to_string(), "password authentication failed (SQLSTATE 28P01)");
        assert_eq!(error, told);
        assert_eq!(feed(&mut startup, &welcome()).unwrap_err(), StartupError::Ended);
    }
}

#[test]
fn notices_are_kept_up_to_their_limit() {
    let notice = encoded(|out| ServerError::default().encode_notice(out));
    let bytes = [&notice.repeat(40)[..], &welcome()].concat();
    let ready = feed(&mut start(config()), &bytes).unwrap().unwrap();
    assert_eq!(ready.notices.len(), NOTICES_MAX);
}

#[test]
fn peers_that_speak_another_protocol_are_named_so() {
    for bytes in [
        b"HTTP/1.1 400 Bad Request\r\n".as_slice(),
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"-ERR unknown command\r\n",
        b"+OK\r\n",
        b"J\0\0\0\x0a8.0.36\0",
        b"\x15\x03\x01\0\x02\x02\x50",
        b"220 mail ESMTP\r\n",
        b"R\0\0\0\x03",
        b"N\xff\xff\xff\xff",
    ] {
        let error = error(config(), bytes);
        assert_eq!(error, StartupError::NotPostgres, "{bytes:?}");
        assert!(error.to_string().contains("does not speak PostgreSQL's protocol"));
    }
}

#[test]
fn a_refusal_in_the_form_of_protocol_2_is_understood() {
    let bytes = b"Ecould not fork new process for connection: x\n\0";
    assert_eq!(error(config(), bytes), StartupError::RefusedEarly);
}

#[test]
fn messages_out_of_turn_are_refused() {
    for early in [&key(4)[..], &parameter("a", "b"), &ready_for_query(), b"1\0\0\0\x04"] {
        let notice = encoded(|out| ServerError::default().encode_notice(out));
        let bytes = [&notice[..], early].concat();
        assert_eq!(error(config(), &bytes), StartupError::Unexpected { tag: early[0] });
    }
    let ok = auth(Authentication::Ok);
    for late in [&ok[..], b"A\0\0\0\x04", b"D\0\0\0\x06\0\0", b"2\0\0\0\x04"] {
        let bytes = [&ok[..], late].concat();
        assert_eq!(error(config(), &bytes), StartupError::Unexpected { tag: late[0] });
    }
    let unknown = [&ok[..], b"!"].concat();
    assert_eq!(error(config(), &unknown), StartupError::Violation(Violation::UnknownTag(b'!')));
}

#[test]
fn a_stranger_may_send_64_kib_in_all() {
    let too_much = StartupError::TooMuch { max: PRE_AUTH_LEN_MAX };
    // Declared in one header, before the body is waited for. The length field does not count the
    // type.
    assert_eq!(error(config(), b"N\0\x01\0\0"), too_much);
    assert!(feed(&mut start(config()), b"N\0\0\xff\xff").unwrap().is_none());
    // Spread over many messages, each of them small.
    let message = "x".repeat(1000);
    let notice =
        encoded(|out| ServerError { message, ..ServerError::default() }.encode_notice(out));
    let mut startup = start(config());
    let mut sent = 0;
    let error = loop {
        match feed(&mut startup, &notice) {
            Ok(_) => sent += notice.len(),
            Err(error) => break error,
        }
    };
    assert_eq!(error, too_much);
    assert!(sent <= PRE_AUTH_LEN_MAX && sent + notice.len() > PRE_AUTH_LEN_MAX);
}

#[test]
fn what_follows_authentication_is_bounded_too() {
    let mut startup = start(config());
    feed(&mut startup, &auth(Authentication::Ok)).unwrap();
    let error = (0..).find_map(|n: u32| feed(&mut startup, &parameter(&n.to_string(), "")).err());
    assert_eq!(error, Some(StartupError::TooManyParameters));
    let mut startup = start(config());
    feed(&mut startup, &auth(Authentication::Ok)).unwrap();
    let long = parameter("x", &"y".repeat(20_000));
    let error = std::iter::repeat_with(|| feed(&mut startup, &long)).find_map(Result::err);
    assert_eq!(error, Some(StartupError::TooMuch { max: RECEIVED_LEN_MAX }));
}

#[test]
fn a_declared_length_takes_no_memory() {
    let mut startup = start(config());
    feed(&mut startup, &auth(Authentication::Ok)).unwrap();
    let mut input = BytesMut::from(&b"N\0\x0f\0\0"[..]);
    let capacity = input.capacity();
    assert!(startup.handle_bytes(&mut input).unwrap().is_none());
    assert_eq!((input.len(), input.capacity()), (5, capacity));
}

#[test]
fn a_closed_connection_ends_the_startup() {
    let mut startup = start(config());
    assert_eq!(startup.handle_closed(), StartupError::Closed);
    assert_eq!(feed(&mut startup, &welcome()).unwrap_err(), StartupError::Ended);
}

#[test]
fn passwords_and_keys_do_not_show_in_debug_output() {
    let mut startup = start(StartupConfig { secure_channel: true, ..config() });
    feed(&mut startup, &auth(Authentication::CleartextPassword)).unwrap();
    let shown = format!("{startup:?}");
    assert!(!shown.contains("secret\"") && shown.contains("***"), "{shown}");
    let ready = feed(&mut startup, &welcome()).unwrap().unwrap();
    let shown = format!("{ready:?}");
    assert!(!shown.contains("5, 5") && shown.contains("***"), "{shown}");
}

#[test]
fn random_bytes_never_panic_the_machine_and_never_make_it_ready() {
    for seed in 1..=20_000u64 {
        let result = std::panic::catch_unwind(|| {
            let mut random = XorShift(seed);
            let mut startup = start(StartupConfig { secure_channel: true, ..config() });
            let mut input = BytesMut::new();
            for _ in 0..40 {
                let byte = random.next() as u8;
                input.put_u8(if byte.is_multiple_of(2) {
                    b"RENv\0\0\0\x08\x0c\x05"[byte as usize % 10]
                } else {
                    byte
                });
                if startup.handle_bytes(&mut input).is_ok_and(|ready| ready.is_some()) {
                    panic!("ready");
                }
            }
        });
        assert!(result.is_ok(), "failed with seed {seed}");
    }
}

#[test]
fn messages_in_random_order_never_panic_and_never_skip_authentication() {
    for seed in 1..=20_000u64 {
        let result = std::panic::catch_unwind(|| {
            let mut random = XorShift(seed);
            let mut startup = start(StartupConfig { secure_channel: true, ..config() });
            let ok = auth(Authentication::Ok);
            let messages = [
                auth(Authentication::CleartextPassword),
                sasl(&["SCRAM-SHA-256"]),
                auth(Authentication::SaslContinue(b"r=CQkJCQkJCQkJCQkJCQkJCQkJCQkJx,s=YQ==,i=1")),
                auth(Authentication::SaslFinal(b"v=YQ==")),
                parameter("a", "b"),
                key(4),
                encoded(|out| ServerError::default().encode_notice(out)),
                ready_for_query(),
                ok.clone(),
            ];
            let mut welcomed = false;
            for _ in 0..8 {
                let message = &messages[random.next() as usize % messages.len()];
                welcomed |= *message == ok;
                let cut = if random.next().is_multiple_of(16) {
                    message.len() - 1
                } else {
                    message.len()
                };
                let ready = feed(&mut startup, &message[..cut]);
                assert!(welcomed || !matches!(ready, Ok(Some(_))));
            }
        });
        assert!(result.is_ok(), "failed with seed {seed}");
    }
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

#[test]
fn only_what_time_may_mend_is_worth_another_attempt() {
    let refusal = |(code, message): &(&str, &str)| ServerError {
        code: (*code).to_owned(),
        message: (*message).to_owned(),
        ..ServerError::default()
    };
    let for_now = [
        ("57P03", "the database system is starting up"),
        ("57P01", "terminating connection due to administrator command"),
        ("53300", "sorry, too many clients already"),
        ("55P03", "lock not available"),
        ("58030", "could not read file"),
        ("XX000", "could not fork"),
        ("08006", "connection failure"),
        ("08P01", "no more connections allowed (max_client_conn)"),
        ("08P01", "client connections exceeded (max_db_client_connections)"),
        ("08P01", "server login has been failing, try again later (server_login_retry)"),
        ("08P01", "client_login_timeout (server down)"),
        ("08P01", "pgbouncer cannot connect to server"),
        ("08P01", "query_wait_timeout"),
        ("", "a server of old"),
    ];
    for case in &for_now {
        assert!(refusal(case).may_mend(), "{case:?}");
    }
    let for_good = [
        ("28P01", "password authentication failed"),
        ("3D000", "database \"none\" does not exist"),
        ("42704", "unrecognized configuration parameter \"nonsense\""),
        ("22023", "invalid value for parameter \"work_mem\""),
        ("55000", "the database takes no connections"),
        ("58P01", "could not access file \"nonsense\""),
        ("0A000", "unsupported frontend protocol"),
        ("08P01", "bouncer config error"),
        ("08P01", "no such database: none"),
        ("08P01", "unsupported startup parameter: nonsense"),
        ("08P01", "invalid startup packet layout"),
    ];
    for case in &for_good {
        assert!(!refusal(case).may_mend(), "{case:?}");
    }
}
