//! The states that can be left in a session, and the ways to set them.

use crate::random::Random;

/// A state that a session keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Path,
    Role,
    Auth,
    Timeout,
    LockTimeout,
    ReadOnly,
    Level,
    Zone,
    Setting,
    Temp,
    Lock,
    Name,
    Channel,
    Cursor,
}

impl State {
    const ALL: [State; 14] = [
        State::Path,
        State::Role,
        State::Auth,
        State::Timeout,
        State::LockTimeout,
        State::ReadOnly,
        State::Level,
        State::Zone,
        State::Setting,
        State::Temp,
        State::Lock,
        State::Name,
        State::Channel,
        State::Cursor,
    ];

    /// A random state; those that can lose rows come more often.
    pub(crate) fn any(random: &mut Random) -> State {
        match random.below(4) {
            0 => State::Temp,
            1 if random.one_in(2) => State::Path,
            _ => State::ALL[random.below(State::ALL.len() as u64) as usize],
        }
    }

    /// Its name for the SQL function `chaos_do`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Path => "path",
            State::Role => "role",
            State::Auth => "auth",
            State::Timeout => "timeout",
            State::LockTimeout => "lock_timeout",
            State::ReadOnly => "readonly",
            State::Level => "level",
            State::Zone => "zone",
            State::Setting => "setting",
            State::Temp => "temp",
            State::Lock => "lock",
            State::Name => "name",
            State::Channel => "channel",
            State::Cursor => "cursor",
        }
    }

    /// The plain statement that sets it.
    fn open(self, key: i64) -> String {
        match self {
            State::Path => "set search_path = stray, public".into(),
            State::Role => "set role chaos_guest".into(),
            State::Auth => "set session authorization chaos_guest".into(),
            State::Timeout => format!("set statement_timeout = {}", 1 + key % 20),
            State::LockTimeout => "set lock_timeout = 7".into(),
            State::ReadOnly => "set default_transaction_read_only = on".into(),
            State::Level => "set default_transaction_isolation = 'serializable'".into(),
            State::Zone => "set timezone = 'Asia/Tokyo'".into(),
            State::Setting => format!("set chaos.owner = '{key}'"),
            State::Temp => "create temp table entry (like public.entry including all)".into(),
            State::Lock => format!("select pg_advisory_lock({key})"),
            State::Name => "prepare chaos_name as select 1".into(),
            State::Channel => "listen chaos_channel".into(),
            State::Cursor => "declare chaos_cursor cursor with hold for select 1".into(),
        }
    }

    /// The setting behind it, and its value.
    fn setting(self, key: i64) -> Option<(&'static str, String)> {
        Some(match self {
            State::Path => ("search_path", "stray, public".into()),
            State::Role => ("role", "chaos_guest".into()),
            State::Auth => ("session_authorization", "chaos_guest".into()),
            State::Timeout => ("statement_timeout", (1 + key % 20).to_string()),
            State::LockTimeout => ("lock_timeout", "7".into()),
            State::ReadOnly => ("default_transaction_read_only", "on".into()),
            State::Level => ("default_transaction_isolation", "serializable".into()),
            State::Zone => ("timezone", "Asia/Tokyo".into()),
            State::Setting => ("chaos.owner", key.to_string()),
            _ => return None,
        })
    }

    /// Statements that set it in one of the many ways.
    pub(crate) fn statements(self, random: &mut Random, key: i64) -> Vec<String> {
        let word = self.word();
        let one = match random.below(18) {
            0..4 => self.open(key),
            4 => match self.setting(key) {
                Some((name, value)) => format!("select set_config('{name}', '{value}', false)"),
                None => self.open(key),
            },
            5 => format!("select public.chaos_do('{word}', {key})"),
            6 => format!("select public.chaos_sql('{word}')"),
            7 => format!("do $$ begin perform public.chaos_do('{word}', {key}); end $$"),
            8 => format!("call public.chaos_call('{word}')"),
            9 => format!("select n from public.chaos_view_{word}"),
            10 => format!("insert into public.chaos_trap values ('{word}')"),
            11 => format!("insert into public.chaos_default_{word} (n) values (1)"),
            12 => format!("select '{word}'::text operator(public.##) 1"),
            13 => format!("select '{word}'::public.chaos_domain"),
            14 => format!("insert into public.chaos_ruled values ('{word}')"),
            15 => format!("select public.chaos_all('{word}'::text)"),
            16 => format!("insert into public.chaos_indexed values ('{word}')"),
            _ => {
                let prepare = format!("prepare it as select public.chaos_do('{word}', {key})");
                return vec![prepare, "execute it".into(), "deallocate it".into()];
            }
        };
        vec![one]
    }
}
