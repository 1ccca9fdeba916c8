//! Classifies the text of a statement, and decides from that where the statement must not go.
//!
//! Only rules that can be read off the text belong here. Effects that only the answer shows (by its
//! tag, the transaction status or ParameterStatus) are detected where answers are read. Effects
//! that nothing shows are listed in the documentation: `select set_config(…)`, temporary tables
//! made inside functions, `currval()` and `lastval()`.
//!
//! The text is read by a lexer after the server's `scan.l`, not by a parser. It knows comments,
//! quotes and parentheses, so quoted text is never taken for a statement. It allocates nothing and
//! reads each byte once. It has two limits: it reads `'…'` as `standard_conforming_strings = on`
//! does (the default since 9.1), and it may classify text with a syntax error as anything, which
//! does no harm since none of it runs.

mod control;
mod lexer;
mod locks;
mod refusal;
mod skeleton;
mod stores;

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

pub use control::{Control, control, declared};
use lexer::{Lexer, Token, is, lower, starts};
pub use locks::may_lock;
pub use refusal::{Place, Refusal, refusal, refusal_of_one, refusal_of_read};
pub use skeleton::{Skeleton, skeleton};
pub use stores::not_only_stored;

/// What the text of a statement shows. For a text of several statements: what any of them shows.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Traits(u16);

impl Traits {
    const NONE: Traits = Traits(0);
    const TRANSACTION_CONTROL: Traits = Traits(1);
    const TRANSACTION_LOCAL: Traits = Traits(1 << 1);
    const SESSION_STATE: Traits = Traits(1 << 2);
    const STAND_ALONE: Traits = Traits(1 << 3);
    const COPY: Traits = Traits(1 << 4);
    const CALL: Traits = Traits(1 << 5);
    const SEVERAL: Traits = Traits(1 << 6);
    const READ_ONLY_SELECT: Traits = Traits(1 << 7);
    const SAVEPOINT: Traits = Traits(1 << 8);
    const COMMIT: Traits = Traits(1 << 9);
    const COPY_IN: Traits = Traits(1 << 10);
    const QUERY: Traits = Traits(1 << 11);
    const MAY_LEAVE: Traits = Traits(1 << 12);
    const TEMPORARY: Traits = Traits(1 << 13);
    const TOO_MANY_PARAMETERS: Traits = Traits(1 << 14);
    const RENAMES: Traits = Traits(1 << 15);

    /// Begins, ends or divides a transaction: BEGIN, START TRANSACTION, COMMIT, END, ROLLBACK,
    /// ABORT, SAVEPOINT, RELEASE, PREPARE TRANSACTION, SET TRANSACTION. (COMMIT PREPARED and
    /// ROLLBACK PREPARED end another transaction, not their own: they are
    /// [`stand_alone`](Self::stand_alone).)
    #[must_use]
    pub fn transaction_control(self) -> bool {
        self.has(Self::TRANSACTION_CONTROL)
    }

    /// COMMIT or END. The server may answer it by rolling back.
    #[must_use]
    pub fn commit(self) -> bool {
        self.has(Self::COMMIT)
    }

    /// Transaction control that leaves the transaction open: SAVEPOINT, RELEASE, ROLLBACK TO, SET
    /// TRANSACTION.
    #[must_use]
    pub fn savepoint(self) -> bool {
        self.has(Self::SAVEPOINT)
    }

    /// Takes effect until the end of the current transaction only: SET LOCAL, SET CONSTRAINTS. It
    /// leaves nothing behind, and has no effect outside a transaction.
    #[must_use]
    pub fn transaction_local(self) -> bool {
        self.has(Self::TRANSACTION_LOCAL)
    }

    /// Makes, uses or drops something that lives in the session: SET, RESET, LISTEN, UNLISTEN,
    /// DECLARE, FETCH, MOVE, CLOSE, PREPARE, EXECUTE, DEALLOCATE, DISCARD, LOAD, LOCK, CREATE TEMP,
    /// SELECT … INTO TEMP, anything in `pg_temp`, and calls of the session's advisory locks (not of
    /// the `_xact_` ones, which end with the statement's transaction).
    #[must_use]
    pub fn session_state(self) -> bool {
        self.has(Self::SESSION_STATE)
    }

    /// Commits by itself, so that the server refuses it in a transaction block, as far as the text
    /// shows. These are the callers of `PreventInTransactionBlock` in PostgreSQL 15 to 18: VACUUM;
    /// CREATE and DROP DATABASE or TABLESPACE; ALTER DATABASE … SET TABLESPACE; ALTER SYSTEM;
    /// CREATE and DROP INDEX CONCURRENTLY; REINDEX of a schema, a database, the system or
    /// CONCURRENTLY; CLUSTER without a table; ALTER TABLE … DETACH PARTITION … CONCURRENTLY; COMMIT
    /// and ROLLBACK PREPARED; DISCARD ALL; and CREATE, ALTER and DROP SUBSCRIPTION.
    ///
    /// Some forms of the SUBSCRIPTION statements may run in a transaction; they are included
    /// nevertheless. CLUSTER or REINDEX of a partitioned table is not visible in the text, and so
    /// not included.
    #[must_use]
    pub fn stand_alone(self) -> bool {
        self.has(Self::STAND_ALONE)
    }

    /// Switches the connection to the copy protocol: COPY … FROM STDIN or TO STDOUT. COPY of a file
    /// or program on the server is an ordinary statement.
    #[must_use]
    pub fn copy(self) -> bool {
        self.has(Self::COPY)
    }

    /// COPY … FROM STDIN. For several statements: one of them is.
    #[must_use]
    pub fn copy_in(self) -> bool {
        self.has(Self::COPY_IN)
    }

    /// CALL or DO. Outside a transaction block it may commit part of its work, and with it the
    /// earlier statements of the same implicit transaction.
    #[must_use]
    pub fn call(self) -> bool {
        self.has(Self::CALL)
    }

    /// More than one statement. Empty statements don't count, nor do semicolons in quotes,
    /// comments, parentheses (CREATE RULE) or behind BEGIN ATOMIC. Text behind the END of such a
    /// body isn't seen. So a valid single statement is never called several, and the extended
    /// protocol refuses several anyway.
    #[must_use]
    pub fn several(self) -> bool {
        self.has(Self::SEVERAL)
    }

    /// A hint: one SELECT, VALUES, TABLE or WITH that shows no INTO, no row locks and no writing
    /// WITH. The functions that it calls may still write, so this alone doesn't make a statement
    /// repeatable. When in doubt it is `false`: a column named `update` is enough.
    #[must_use]
    pub fn read_only_select(self) -> bool {
        self.has(Self::READ_ONLY_SELECT)
    }

    /// SELECT, VALUES, TABLE, WITH, INSERT, UPDATE, DELETE, MERGE, EXPLAIN of one of these, or
    /// SHOW. For several statements: one of them is.
    #[must_use]
    pub fn query(self) -> bool {
        self.has(Self::QUERY)
    }

    /// Whether the statement can leave nothing behind in its session, whatever the database
    /// contains. The list of such statements is short: those that begin, end or divide a
    /// transaction, set what ends with the transaction, show a setting, or select constants. For
    /// several statements: each of them is on the list.
    ///
    /// Tables are not on it, since a table's name may be a view's. Neither are functions, operators
    /// and casts, since a user's own may be meant. Those can do anything: take a lock, make a
    /// temporary table, set the path.
    #[must_use]
    pub fn leaves_nothing(self) -> bool {
        !self.has(Self::MAY_LEAVE)
    }

    /// Makes something temporary: CREATE TEMP, SELECT … INTO TEMP. It is
    /// [`session_state`](Self::session_state), too.
    #[must_use]
    pub fn temporary(self) -> bool {
        self.has(Self::TEMPORARY)
    }

    /// Names a parameter beyond 65,535, up to which the protocol counts. A server that is asked to
    /// describe such a text answers with a false number of them.
    #[must_use]
    pub fn too_many_parameters(self) -> bool {
        self.has(Self::TOO_MANY_PARAMETERS)
    }

    /// What was prepared before in its session may mean other things behind it: it sets the path or the
    /// role, defines something, or calls a function that is not known to be harmless, which may do so. A trigger, a view or an operator may call such a
    /// function, and no text shows that. What a definition changes, it changes for other sessions as
    /// well, which find it out by themselves once it is committed.
    #[must_use]
    pub fn renames(self) -> bool {
        self.has(Self::RENAMES)
    }

    /// The traits as a number, for callers of the C ABI.
    #[must_use]
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The traits with these [`bits`](Self::bits).
    #[must_use]
    pub fn of_bits(bits: u16) -> Traits {
        Traits(bits)
    }

    /// Its failure may leave effects behind: [`call`](Self::call),
    /// [`stand_alone`](Self::stand_alone) or [`several`](Self::several).
    #[must_use]
    pub fn partial_effects(self) -> bool {
        self.has(Self::CALL | Self::STAND_ALONE | Self::SEVERAL)
    }

    /// Whether any bit of `other` is set.
    const fn has(self, other: Traits) -> bool {
        self.0 & other.0 != 0
    }

    fn remove(&mut self, other: Traits) {
        self.0 &= !other.0;
    }

    /// What lasts in the session is more than a read.
    fn note_session_state(&mut self) {
        *self |= Traits::SESSION_STATE;
        self.remove(Traits::READ_ONLY_SELECT);
    }
}

impl BitOr for Traits {
    type Output = Traits;

    fn bitor(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }
}

impl BitOrAssign for Traits {
    fn bitor_assign(&mut self, other: Traits) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Traits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Traits, &str); 16] = [
            (Traits::TRANSACTION_CONTROL, "transaction_control"),
            (Traits::TRANSACTION_LOCAL, "transaction_local"),
            (Traits::SESSION_STATE, "session_state"),
            (Traits::STAND_ALONE, "stand_alone"),
            (Traits::COPY, "copy"),
            (Traits::CALL, "call"),
            (Traits::SEVERAL, "several"),
            (Traits::READ_ONLY_SELECT, "read_only_select"),
            (Traits::SAVEPOINT, "savepoint"),
            (Traits::COMMIT, "commit"),
            (Traits::COPY_IN, "copy_in"),
            (Traits::QUERY, "query"),
            (Traits::MAY_LEAVE, "may_leave"),
            (Traits::TEMPORARY, "temporary"),
            (Traits::TOO_MANY_PARAMETERS, "too_many_parameters"),
            (Traits::RENAMES, "renames"),
        ];
        let set = NAMES.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, name)| name);
        f.debug_set().entries(set).finish()
    }
}

/// Reads the traits off a text. For several statements it gives the union.
#[must_use]
pub fn classify(sql: &str) -> Traits {
    let mut lexer = Lexer::new(sql);
    let Some(mut traits) = statement(&mut lexer) else { return Traits::NONE };
    while let Some(next) = statement(&mut lexer) {
        traits |= next | Traits::SEVERAL;
        traits.remove(Traits::READ_ONLY_SELECT);
    }
    if locks::renames(sql, traits) {
        traits |= Traits::RENAMES;
    }
    traits
}

/// How many parameters a text has: the highest number behind a `$`. `None` if that depends on the
/// session's `standard_conforming_strings`, because a string holds a backslash.
#[must_use]
pub fn parameters(sql: &str) -> Option<usize> {
    let mut lexer = Lexer::new(sql);
    let mut highest = 0;
    loop {
        match lexer.next() {
            Token::End => return Some(highest),
            Token::Text(text) if text.contains(&b'\\') => return None,
            Token::Parameter(digits) => {
                let number = std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
                highest = highest.max(number?);
            }
            _ => {}
        }
    }
}

/// Whether a text may run on a shared connection although its caller has not asked for that: it is
/// one [`query`](Traits::query), shows no session state, and contains `set_config` nowhere, not
/// even in a string. When in doubt it is `false`.
#[must_use]
pub fn is_shareable(sql: &str, traits: Traits) -> bool {
    const SETS: &[u8] = b"set_config";
    let not = Traits::SEVERAL | Traits::SESSION_STATE | Traits::TRANSACTION_CONTROL;
    let sets = || sql.as_bytes().windows(SETS.len()).any(|word| word.eq_ignore_ascii_case(SETS));
    traits.query() && !traits.has(not) && !sets()
}

/// Whether SQL's PREPARE takes a text: it begins as SELECT, VALUES, TABLE, WITH, INSERT, UPDATE,
/// DELETE or MERGE does (`PreparableStmt` in src/backend/parser/gram.y). Parse takes any statement.
#[must_use]
pub fn can_be_prepared_by_sql(sql: &str) -> bool {
    let mut lexer = Lexer::new(sql);
    loop {
        match lexer.next() {
            Token::Symbol(b'(') => {}
            Token::Word(word) => return head(word, lexer).0.query() && !is(word, b"show"),
            _ => return false,
        }
    }
}

/// Reads one statement up to its semicolon, or to the end. `None` if there is no further statement.
fn statement(lexer: &mut Lexer<'_>) -> Option<Traits> {
    let mut depth = 0;
    let mut explain = false;
    let (mut traits, rest) = loop {
        match lexer.next() {
            Token::End => return None,
            Token::Symbol(b';') => {}
            Token::Symbol(b'(') => depth += 1,
            // The statement behind EXPLAIN may run, and may use session state (EXECUTE).
            Token::Word(word) if is(word, b"explain") => {
                explain = true;
                lexer.skip_explain_options();
            }
            Token::Word(word) => {
                let (mut traits, rest) = head(word, *lexer);
                if explain || depth > 0 || !leaves_nothing(word, traits, *lexer) {
                    traits |= Traits::MAY_LEAVE;
                }
                break (traits, rest);
            }
            _ => break (Traits::MAY_LEAVE, Rest::Plain),
        }
    };
    if explain {
        traits.remove(Traits::READ_ONLY_SELECT);
    }
    Some(rest_of_statement(lexer, traits, rest, depth))
}

/// What to look for after the first words of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// SELECT and its kin: look for words that make it more than a read.
    Query,
    /// Look only for what matters in every statement.
    Plain,
    /// A definition, which stores its statements and doesn't run them: look for BEGIN ATOMIC.
    Definition,
    /// COPY: look for STDIN or STDOUT.
    Copy,
    /// Look for CONCURRENTLY, which makes it stand alone.
    Concurrently,
    /// Look for SET TABLESPACE, which makes it stand alone.
    SetTablespace,
}

/// Decides by the first word, and by the next ones if needed. `ahead` is a copy of the lexer.
fn head(word: &[u8], ahead: Lexer<'_>) -> (Traits, Rest) {
    let mut buffer = [0; 12];
    match lower(word, &mut buffer) {
        b"select" | b"values" | b"table" | b"with" => {
            (Traits::READ_ONLY_SELECT | Traits::QUERY, Rest::Query)
        }
        b"insert" | b"update" | b"delete" | b"merge" | b"show" => (Traits::QUERY, Rest::Plain),
        b"begin" | b"start" | b"abort" => (Traits::TRANSACTION_CONTROL, Rest::Plain),
        b"savepoint" | b"release" => (Traits::TRANSACTION_CONTROL | Traits::SAVEPOINT, Rest::Plain),
        b"commit" | b"rollback" if ahead.is(b"prepared") => (Traits::STAND_ALONE, Rest::Plain),
        b"rollback" => (rollback(ahead), Rest::Plain),
        b"commit" | b"end" => (Traits::TRANSACTION_CONTROL | Traits::COMMIT, Rest::Plain),
        b"prepare" if ahead.is(b"transaction") => (Traits::TRANSACTION_CONTROL, Rest::Plain),
        b"set" => (set(ahead), Rest::Plain),
        b"discard" if ahead.is(b"all") => {
            (Traits::SESSION_STATE | Traits::STAND_ALONE, Rest::Plain)
        }
        b"reset" | b"listen" | b"unlisten" | b"declare" | b"fetch" | b"move" | b"close"
        | b"prepare" | b"execute" | b"deallocate" | b"discard" | b"load" | b"lock" => {
            (Traits::SESSION_STATE, Rest::Plain)
        }
        b"call" | b"do" => (Traits::CALL, Rest::Plain),
        b"copy" => (Traits::NONE, Rest::Copy),
        b"create" => create(ahead),
        b"drop" => drop(ahead),
        b"alter" => alter(ahead),
        b"vacuum" => (Traits::STAND_ALONE, Rest::Plain),
        b"reindex" => reindex(ahead),
        b"cluster" | b"repack" => cluster(ahead),
        _ => (Traits::NONE, Rest::Plain),
    }
}

/// Whether the statement is on the short list of [`Traits::leaves_nothing`]. `ahead` is behind the
/// first word.
fn leaves_nothing(word: &[u8], traits: Traits, ahead: Lexer<'_>) -> bool {
    let mut buffer = [0; 12];
    match lower(word, &mut buffer) {
        b"begin" | b"start" | b"commit" | b"end" | b"rollback" | b"abort" | b"savepoint"
        | b"release" => !traits.stand_alone(),
        b"set" => traits.has(Traits::TRANSACTION_LOCAL | Traits::TRANSACTION_CONTROL),
        b"show" => true,
        b"select" | b"values" => selects_constants(ahead),
        _ => false,
    }
}

/// Whether a SELECT consists only of numbers and strings, and names for them.
fn selects_constants(mut ahead: Lexer<'_>) -> bool {
    loop {
        match ahead.next() {
            Token::End | Token::Symbol(b';') => return true,
            Token::Literal | Token::Symbol(b',') => {}
            // With a backslash, the end of the string depends on `standard_conforming_strings`.
            Token::Text(text) if !text.contains(&b'\\') => {}
            Token::Word(word) if is(word, b"as") => match ahead.next() {
                Token::Word(_) | Token::Quoted(_) => {}
                _ => return false,
            },
            Token::Word(word) if is(word, b"null") || is(word, b"true") || is(word, b"false") => {}
            _ => return false,
        }
    }
}

/// ROLLBACK [WORK | TRANSACTION] [TO [SAVEPOINT] name].
fn rollback(mut ahead: Lexer<'_>) -> Traits {
    if ahead.is(b"work") || ahead.is(b"transaction") {
        ahead.next();
    }
    match ahead.is(b"to") {
        true => Traits::TRANSACTION_CONTROL | Traits::SAVEPOINT,
        false => Traits::TRANSACTION_CONTROL,
    }
}

/// SET [SESSION | LOCAL] {TRANSACTION … | CONSTRAINTS … | a parameter}.
fn set(mut ahead: Lexer<'_>) -> Traits {
    if ahead.is(b"transaction") {
        return Traits::TRANSACTION_CONTROL | Traits::SAVEPOINT;
    }
    if ahead.is(b"constraints") {
        return Traits::TRANSACTION_LOCAL;
    }
    let local = ahead.is(b"local");
    if local || ahead.is(b"session") {
        ahead.next();
        if ahead.is(b"transaction") {
            return Traits::TRANSACTION_CONTROL;
        }
    }
    if local { Traits::TRANSACTION_LOCAL } else { Traits::SESSION_STATE }
}

/// CREATE: finds the kind of object behind its qualifiers.
fn create(mut ahead: Lexer<'_>) -> (Traits, Rest) {
    let mut traits = Traits::NONE;
    loop {
        let Token::Word(word) = ahead.next() else { return (traits, Rest::Plain) };
        let mut buffer = [0; 12];
        match lower(word, &mut buffer) {
            b"or" | b"replace" | b"local" | b"global" | b"unlogged" | b"unique" => {}
            b"temp" | b"temporary" => traits |= Traits::SESSION_STATE | Traits::TEMPORARY,
            b"database" | b"tablespace" | b"subscription" => {
                return (traits | Traits::STAND_ALONE, Rest::Plain);
            }
            b"index" if ahead.is(b"concurrently") => {
                return (traits | Traits::STAND_ALONE, Rest::Plain);
            }
            // CREATE TABLE AS and CREATE MATERIALIZED VIEW run their query.
            b"table" | b"materialized" => return (traits, Rest::Plain),
            _ => return (traits, Rest::Definition),
        }
    }
}

fn drop(mut ahead: Lexer<'_>) -> (Traits, Rest) {
    let alone = ahead.is(b"database")
        || ahead.is(b"tablespace")
        || ahead.is(b"subscription")
        || ahead.is(b"index") && {
            ahead.next();
            ahead.is(b"concurrently")
        };
    (if alone { Traits::STAND_ALONE } else { Traits::NONE }, Rest::Plain)
}

fn alter(ahead: Lexer<'_>) -> (Traits, Rest) {
    if ahead.is(b"system") || ahead.is(b"subscription") {
        (Traits::STAND_ALONE, Rest::Definition)
    } else if ahead.is(b"database") {
        (Traits::NONE, Rest::SetTablespace)
    } else if ahead.is(b"table") {
        (Traits::NONE, Rest::Concurrently)
    } else {
        (Traits::NONE, Rest::Definition)
    }
}

/// REINDEX [(options)] kind [CONCURRENTLY] name. CONCURRENTLY may also be among the options.
fn reindex(mut ahead: Lexer<'_>) -> (Traits, Rest) {
    ahead.skip_parentheses();
    if ahead.is(b"schema") || ahead.is(b"database") || ahead.is(b"system") {
        (Traits::STAND_ALONE, Rest::Plain)
    } else {
        (Traits::NONE, Rest::Concurrently)
    }
}

/// CLUSTER [(options)] [VERBOSE] [table]. Without a table it goes through all, each in a
/// transaction of its own. PostgreSQL 19 calls it REPACK and knows REPACK (CONCURRENTLY).
fn cluster(mut ahead: Lexer<'_>) -> (Traits, Rest) {
    ahead.skip_parentheses();
    if ahead.is(b"verbose") {
        ahead.next();
    }
    match ahead.next() {
        Token::End | Token::Symbol(b';') => (Traits::STAND_ALONE, Rest::Plain),
        _ => (Traits::NONE, Rest::Concurrently),
    }
}

/// Reads from behind the first word up to the statement's own semicolon. Every unprepared statement
/// goes through this loop, so each word is judged by its first letter first.
fn rest_of_statement(
    lexer: &mut Lexer<'_>,
    mut traits: Traits,
    rest: Rest,
    mut depth: u32,
) -> Traits {
    let starts = match rest {
        Rest::Query => starts::ANY | starts::QUERY,
        Rest::Plain => starts::ANY,
        _ => starts::ANY | starts::OTHER,
    };
    let mut atomic = false;
    loop {
        lexer.skip_uninteresting(starts);
        let word = match lexer.next() {
            Token::Word(word) => word,
            Token::End => return traits,
            Token::Symbol(b';') if depth == 0 && !atomic => return traits,
            Token::Symbol(b'(') => {
                depth += 1;
                continue;
            }
            Token::Symbol(b')') => {
                depth = depth.saturating_sub(1);
                continue;
            }
            Token::Quoted(name) if lasts_in_session(name, *lexer, rest) => {
                traits.note_session_state();
                continue;
            }
            Token::Parameter(digits) if is_beyond_the_count(digits) => {
                traits |= Traits::TOO_MANY_PARAMETERS;
                continue;
            }
            _ => continue,
        };
        match word[0] | 0x20 {
            b'p' => {
                let mut buffer = [0; 32];
                if word.len() >= 7 && lasts_in_session(lower(word, &mut buffer), *lexer, rest) {
                    traits.note_session_state();
                }
            }
            b'i' | b'u' | b'd' | b'm' | b'f' if rest == Rest::Query => {
                query(word, lexer, &mut traits)
            }
            b'b' if rest == Rest::Definition && is(word, b"begin") => atomic |= lexer.is(b"atomic"),
            b'c' if rest == Rest::Concurrently && is(word, b"concurrently") => {
                traits |= Traits::STAND_ALONE;
            }
            b't' if rest == Rest::SetTablespace && is(word, b"tablespace") => {
                traits |= Traits::STAND_ALONE;
            }
            b'f' | b't'
                if rest == Rest::Copy
                    && depth == 0
                    && (is(word, b"from") || is(word, b"to"))
                    && (lexer.is(b"stdin") || lexer.is(b"stdout")) =>
            {
                // To the server's grammar, COPY … FROM STDOUT is the same as FROM STDIN.
                traits |= match word[0] | 0x20 {
                    b'f' => Traits::COPY | Traits::COPY_IN,
                    _ => Traits::COPY,
                };
            }
            _ => {}
        }
    }
}

/// Whether the number of a parameter is more than 16 bits count.
fn is_beyond_the_count(digits: &[u8]) -> bool {
    const FEWEST_DIGITS: usize = 5;
    let number = || std::str::from_utf8(digits).ok().and_then(|it| it.parse::<u16>().ok());
    digits.len() >= FEWEST_DIGITS && number().is_none()
}

/// Handles the words that make a query more than a read, and SELECT … INTO TEMP.
fn query(word: &[u8], lexer: &mut Lexer<'_>, traits: &mut Traits) {
    if is(word, b"into") {
        traits.remove(Traits::READ_ONLY_SELECT);
        let temporary: [&[u8]; 4] = [b"temp", b"temporary", b"local", b"global"];
        if temporary.iter().any(|kind| lexer.is(kind)) {
            *traits |= Traits::SESSION_STATE | Traits::TEMPORARY;
        }
    } else if is(word, b"insert") || is(word, b"merge") {
        traits.remove(Traits::READ_ONLY_SELECT);
        // The INTO of INSERT INTO is not the one of SELECT INTO.
        if lexer.is(b"into") {
            lexer.next();
        }
    } else if is(word, b"update") || is(word, b"delete") {
        traits.remove(Traits::READ_ONLY_SELECT);
    } else if is(word, b"for") {
        // FOR UPDATE, NO KEY UPDATE, SHARE, KEY SHARE; but not `substring(a for 3)`.
        let locks: [&[u8]; 4] = [b"update", b"share", b"no", b"key"];
        if locks.iter().any(|lock| lexer.is(lock)) {
            traits.remove(Traits::READ_ONLY_SELECT);
        }
    }
}

/// Whether a name calls a session's advisory lock, or is the schema of the session's temporary
/// objects. `name` is folded as the server folds it; `ahead` is behind it.
#[inline]
fn lasts_in_session(name: &[u8], mut ahead: Lexer<'_>, rest: Rest) -> bool {
    match name {
        b"pg_temp" => matches!(ahead.next(), Token::Symbol(b'.')),
        b"pg_advisory_lock"
        | b"pg_advisory_lock_shared"
        | b"pg_try_advisory_lock"
        | b"pg_try_advisory_lock_shared"
        | b"pg_advisory_unlock"
        | b"pg_advisory_unlock_shared"
        | b"pg_advisory_unlock_all" => {
            rest != Rest::Definition && matches!(ahead.next(), Token::Symbol(b'('))
        }
        _ => false,
    }
}
