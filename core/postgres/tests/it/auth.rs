//! MD5 and SCRAM, against published vectors, against each other, and against hostile servers.

use base64ct::{Base64, Encoding};
use onetrip_postgres::auth::{
    ChannelBinding, Password, ScramClient, ScramError, ScramProof, ScramServer, md5, scram,
};

/// RFC 7677 section 3. Its nonces are valid base64, so there are raw nonces that encode to them.
const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

fn rfc_client() -> ScramClient {
    let nonce = Base64::decode_vec(CLIENT_NONCE).unwrap();
    ScramClient::new("user", "pencil".into(), &nonce, ChannelBinding::Unsupported)
}

fn rfc_proof() -> ScramProof {
    rfc_client().handle_server_first(SERVER_FIRST.as_bytes(), scram::ITERATIONS_MAX).unwrap()
}

#[test]
fn scram_reproduces_the_exchange_of_rfc_7677() {
    assert_eq!(rfc_client().mechanism(), "SCRAM-SHA-256");
    assert_eq!(rfc_client().message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
    assert_eq!(rfc_proof().message(), CLIENT_FINAL);
    assert_eq!(rfc_proof().handle_server_final(SERVER_FINAL.as_bytes()), Ok(()));
}

#[test]
fn a_server_that_does_not_know_the_password_is_found_out() {
    let wrong = SERVER_FINAL.replace('6', "7");
    assert_eq!(rfc_proof().handle_server_final(wrong.as_bytes()), Err(ScramError::Signature));
    for short in ["v=", "v=6rri"] {
        assert_eq!(rfc_proof().handle_server_final(short.as_bytes()), Err(ScramError::Signature));
    }
}

#[test]
fn malformed_server_final_messages_are_refused() {
    for message in [b"".as_slice(), b"v", b"x=6rri", b"v=\xff", b"v=!!", b"v=6rriTRBi23W,"] {
        let result = rfc_proof().handle_server_final(message);
        assert!(matches!(result, Err(ScramError::Malformed(_))), "{message:?} {result:?}");
    }
    assert_eq!(rfc_proof().handle_server_final(b"e=other-error"), Err(ScramError::Refused));
}

#[test]
fn a_server_nonce_that_does_not_extend_ours_is_refused() {
    for nonce in ["", "x", CLIENT_NONCE, "rOprNGfwEbeRWgbNEkqo-more"] {
        let message = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let result = rfc_client().handle_server_first(message.as_bytes(), 4096);
        assert_eq!(result.unwrap_err(), ScramError::Nonce, "{nonce}");
    }
}

#[test]
fn malformed_server_first_messages_are_refused() {
    let head = "r=rOprNGfwEbeRWgbNEkqOmore";
    for tail in [
        "",
        ",",
        ",s=",
        ",s=,i=4096",
        ",s=!,i=1",
        ",i=1,s=YQ==",
        ",s=YQ==",
        ",s=YQ==,i=",
        ",s=YQ==,i=0",
        ",s=YQ==,i=+1",
        ",s=YQ==,i=-1",
        ",s=YQ==,i= 1",
        ",s=YQ==,i=0x10",
        ",s=YQ==,i=1.0",
    ] {
        let message = format!("{head}{tail}");
        let result = rfc_client().handle_server_first(message.as_bytes(), 4096);
        assert!(matches!(result, Err(ScramError::Malformed(_))), "{message} {result:?}");
    }
    // A mandatory extension, which must be refused by RFC 5802.
    let message = format!("m=x,{head},s=YQ==,i=1");
    assert!(rfc_client().handle_server_first(message.as_bytes(), 4096).is_err());
    assert!(rfc_client().handle_server_first(b"r=\xff", 4096).is_err());
}

#[test]
fn more_iterations_than_allowed_are_refused_and_the_error_names_the_cap() {
    for (demanded, reported) in
        [("4097", 4097), ("4294967295", u32::MAX), ("99999999999999999999999", u32::MAX)]
    {
        let message = format!("r={CLIENT_NONCE}x,s=YQ==,i={demanded}");
        let error = rfc_client().handle_server_first(message.as_bytes(), 4096).unwrap_err();
        assert_eq!(error, ScramError::Iterations { demanded: reported, max: 4096 });
        assert!(error.to_string().contains("4096"), "{error}");
    }
    let allowed = format!("r={CLIENT_NONCE}x,s=YQ==,i=4096");
    assert!(rfc_client().handle_server_first(allowed.as_bytes(), 4096).is_ok());
}

/// Runs an exchange between both sides; the result of the client and of the server.
fn exchange(
    client: (&str, ChannelBinding),
    server: (&str, ChannelBinding),
) -> Result<(), ScramError> {
    let mechanism = client.1.mechanism();
    let client = ScramClient::new("", client.0.into(), &[1; 18], client.1);
    assert_eq!(client.mechanism(), mechanism);
    let mut server = ScramServer::new(server.0.into(), b"salt", 7, &[2; 18], server.1);
    let first = server.handle_client_first(client.message().as_bytes())?;
    let proof = client.handle_server_first(first.as_bytes(), 7)?;
    let last = server.handle_client_final(proof.message().as_bytes())?;
    proof.handle_server_final(last.as_bytes())
}

#[test]
fn both_sides_agree_with_and_without_channel_binding() {
    for binding in [
        ChannelBinding::Unsupported,
        ChannelBinding::NotOffered,
        ChannelBinding::TlsServerEndPoint(vec![1, 2, 3]),
    ] {
        assert_eq!(exchange(("pw", binding.clone()), ("pw", binding)), Ok(()));
    }
}

#[test]
fn another_password_or_another_certificate_is_refused() {
    let none = ChannelBinding::Unsupported;
    let bound = |data: u8| ChannelBinding::TlsServerEndPoint(vec![data]);
    assert_eq!(exchange(("a", none.clone()), ("b", none.clone())), Err(ScramError::Proof));
    assert_eq!(exchange(("a", bound(1)), ("a", bound(2))), Err(ScramError::Nonce));
    assert!(exchange(("a", ChannelBinding::NotOffered), ("a", bound(1))).is_err());
    assert!(exchange(("a", none), ("a", bound(1))).is_err());
}

#[test]
fn passwords_are_prepared_and_taken_raw_where_that_fails() {
    let same =
        |a, b| exchange((a, ChannelBinding::Unsupported), (b, ChannelBinding::Unsupported)).is_ok();
    // RFC 4013 section 3: a soft hyphen maps to nothing, and IX is one character.
    assert!(same("I\u{ad}X", "IX"));
    assert!(same("\u{2168}", "IX"));
    // A prohibited character and a lone soft hyphen: used as they are.
    assert!(same("\u{7}", "\u{7}"));
    assert!(!same("\u{ad}", "x"));
    assert!(same("\u{ad}", "\u{ad}"));
    assert!(same("", ""));
}

#[test]
fn user_names_are_escaped() {
    let client = ScramClient::new("a=b,c", "x".into(), &[0; 3], ChannelBinding::Unsupported);
    assert_eq!(client.message(), "n,,n=a=3Db=2Cc,r=AAAA");
}

#[test]
fn md5_hashes_password_and_user_and_then_the_salt() {
    // By md5sum of "passwordmd5_user", then of its 32 hex digits with the salt behind them.
    let hash = md5::response("md5_user", &"password".into(), [0x2a, 0x3d, 0x8f, 0xe0]);
    assert_eq!(hash, "md562af4dd09bbb41884907a838a3233294");
}

#[test]
fn passwords_and_proofs_do_not_show_in_debug_output() {
    let password = Password::from("hush");
    assert_eq!(password.expose(), "hush");
    let proof = rfc_proof();
    let shown = format!(
        "{password:?} {:?} {proof:?}",
        ScramClient::new("", password.clone(), b"n", ChannelBinding::Unsupported)
    );
    assert!(!shown.contains("hush") && !shown.contains("dHzb"), "{shown}");
    assert!(shown.contains("***"));
}

#[test]
fn random_bytes_never_panic_either_side() {
    for seed in 1..=20_000u64 {
        let result = std::panic::catch_unwind(|| {
            let mut random = XorShift(seed);
            let letters = b"rsiepvcnm=,,==0149abzYQ+/\xff\x00";
            let mut text = |max: u64| {
                let len = random.next() % max;
                (0..len)
                    .map(|_| letters[random.next() as usize % letters.len()])
                    .collect::<Vec<_>>()
            };
            let noise = text(40);
            let _ = rfc_client().handle_server_first(&noise, 10);
            let near = [b"r=rOprNGfwEbeRWgbNEkqO".as_slice(), &text(30)].concat();
            let _ = rfc_client().handle_server_first(&near, 10);
            let mut server =
                ScramServer::new("x".into(), b"s", 1, b"n", ChannelBinding::Unsupported);
            let _ = server.handle_client_first(&[b"n,,n=,r=".as_slice(), &noise].concat());
            let _ = server.handle_client_final(&text(60));
        });
        assert!(result.is_ok(), "panic with seed {seed}");
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
