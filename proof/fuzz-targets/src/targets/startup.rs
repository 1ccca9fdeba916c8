//! The startup, with a peer that is hostile from the first byte on.

use onetrip_postgres::auth::Password;
use onetrip_postgres::startup::{
    AuthMethods, NONCE_LEN, NOTICES_MAX, PARAMETERS_MAX, PRE_AUTH_LEN_MAX, ProtocolVersion,
    RECEIVED_LEN_MAX, Ready, Startup, StartupConfig, StartupError,
};

use crate::input::{Input, buffer, contains, cut, show_debug};

/// The password, which the server must not learn and no error may contain.
const PASSWORD: &str = "secret";

/// AuthenticationOk.
const OK: &[u8] = &[b'R', 0, 0, 0, 8, 0, 0, 0, 0];

/// More than a peer may send before the login.
const STREAM_LEN_MAX: usize = PRE_AUTH_LEN_MAX + PRE_AUTH_LEN_MAX / 2;

/// Two bytes of configuration, one with the plan of the cuts, then what the server sends. If the
/// three highest bits of the first byte are set, the server sends it again and again.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (given, refused, plan) = (input.u8(), input.u8(), input.u8());
    let config = config(given, refused);
    let stream = input.rest();
    let times = (STREAM_LEN_MAX / stream.len().max(1)).clamp(1, 1 << (given >> 5));
    let stream = &stream.repeat(times)[..];
    let ended = start(&config, plan, stream);
    check(&config, &ended, stream);
    if plan != 0 {
        assert_eq!(ended, start(&config, 0, stream));
    }
}

/// The bits that refuse something are those that the corpus leaves at zero.
fn config(given: u8, refused: u8) -> StartupConfig {
    let has = |bit: u8| given & (1 << bit) != 0;
    let allows = |bit: u8| refused & (1 << bit) == 0;
    let methods =
        AuthMethods { none: allows(0), password: allows(1), md5: allows(2), scram: allows(3) };
    StartupConfig {
        password: has(0).then(|| Password::from(PASSWORD)),
        protocol: if has(1) { ProtocolVersion::V3_2 } else { ProtocolVersion::V3_0 },
        secure_channel: has(2),
        allow_cleartext: has(3),
        channel_binding: has(4).then(|| vec![3; 32]),
        channel_binding_required: !allows(4),
        parameters: vec![("_pq_.x".to_owned(), "1".to_owned())],
        methods,
        // More iterations than the corpus was recorded with, and few enough for many runs.
        scram_iterations_max: 16,
        ..StartupConfig::new("lab")
    }
}

/// How a startup ended: the text of the result, the bytes sent, and how many were taken.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    result: Option<Result<String, StartupError>>,
    sent: Vec<u8>,
    taken: usize,
}

fn start(config: &StartupConfig, plan: u8, stream: &[u8]) -> Ended {
    let mut startup = Startup::new(config.clone(), [9; NONCE_LEN]).expect("it can be written");
    let mut ended = Ended { result: None, sent: Vec::new(), taken: 0 };
    let mut input = buffer(&[]);
    for chunk in cut(plan, stream) {
        input.extend_from_slice(chunk);
        let before = input.len();
        let result = startup.handle_bytes(&mut input);
        ended.taken += before - input.len();
        ended.sent.extend(startup.transmit().into_iter().flatten());
        if let Some(result) = result.transpose() {
            ended.result = Some(result.map(describe));
            assert_eq!(startup.handle_bytes(&mut input).err(), Some(StartupError::Ended));
            break;
        }
    }
    ended
}

fn describe(ready: Ready) -> String {
    assert!(ready.parameters.len() <= PARAMETERS_MAX && ready.notices.len() <= NOTICES_MAX);
    format!("{ready:?}")
}

fn check(config: &StartupConfig, ended: &Ended, stream: &[u8]) {
    assert!(ended.taken <= RECEIVED_LEN_MAX);
    assert!(ended.taken <= PRE_AUTH_LEN_MAX || contains(stream, OK), "too much before the login");
    let plain = config.secure_channel || config.allow_cleartext;
    let sent = contains(&ended.sent, PASSWORD.as_bytes());
    assert!(!sent || (plain && config.methods.password), "the password went out");
    show_debug(&ended.result);
    if let Some(Err(error)) = &ended.result {
        let text = format!("{error} {error:?}");
        assert!(!text.contains(PASSWORD) || contains(stream, PASSWORD.as_bytes()));
    }
}
