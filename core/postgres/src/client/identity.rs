//! Which server a connection leads to: the cluster, the branch of its history, and its role. And
//! what a client remembers of that, so that it writes to no former primary.
//!
//! A cluster keeps its system identifier for life. Each promotion begins a new timeline, with a
//! larger number, and a former primary stays on the old one ("Timelines" in PostgreSQL's manual).
//! So a server that takes writes on a timeline below one that was seen is a former primary.

use bytes::{Buf, BytesMut};

use super::connect::Refusal;
use crate::message::{BackendMessage, EncodeError, Query, Violation, frame, max_len};

/// The question, which any role may ask of PostgreSQL 10 and later. It has one row of three texts,
/// which [`Identity::read`] takes.
///
/// A primary knows its timeline. A standby knows two that it has passed: that of its last
/// restartpoint, and that up to which its files must be replayed to be consistent. So the answer of
/// a standby may be older than what it replays, and never newer.
pub const QUESTION: &str = "select s.system_identifier::pg_catalog.text, \
     pg_catalog.pg_is_in_recovery()::pg_catalog.text, (case when pg_catalog.pg_is_in_recovery() \
     then greatest(c.timeline_id, r.min_recovery_end_timeline) \
     else ('x' operator(pg_catalog.||) pg_catalog.substr(\
     pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8))\
     ::pg_catalog.bit(32)::pg_catalog.int4 end)::pg_catalog.text \
     from pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c, \
     pg_catalog.pg_control_recovery() r";

/// The answer to [`QUESTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's, the same on all of its servers.
    pub system: u64,
    /// Whether the server is a standby.
    pub is_standby: bool,
    /// The timeline that it is on at least.
    pub timeline: u32,
}

impl Identity {
    /// Reads the texts of the row. `None` if they can't be the answer.
    pub fn read(system: &str, is_standby: &str, timeline: &str) -> Option<Identity> {
        let is_standby = match is_standby {
            "true" => true,
            "false" => false,
            _ => return None,
        };
        Some(Identity {
            system: system.parse().ok()?,
            is_standby,
            timeline: timeline.parse().ok()?,
        })
    }
}

/// What a client has seen of the servers that it was connected to. It keeps one, and shows it each
/// server before that serves anybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Clusters, the one that was met last in front, and the highest timeline on which a server of
    /// each took writes.
    clusters: [Option<(u64, u32)>; CLUSTERS_MAX],
    /// The host of the list that did not answer in time last, by its index, until it serves again.
    silent: Option<usize>,
    /// The host of the list that a connection was opened to last.
    served: Option<usize>,
}

/// A cluster that is replaced by another one under the same names, as by a blue-green deployment, is
/// another history. More of them are not remembered.
const CLUSTERS_MAX: usize = 4;

impl Lineage {
    /// Remembers a server, unless it must not be used.
    ///
    /// # Errors
    /// It would take writes, although a server of a later timeline was the primary before it.
    pub fn admit(&mut self, server: Identity) -> Result<(), Refusal> {
        if let Some(refusal) = self.refuses(server) {
            return Err(refusal);
        }
        if !server.is_standby {
            let is_it = |known: &Option<(u64, u32)>| known.is_some_and(|it| it.0 == server.system);
            let at = self.clusters.iter().position(is_it).unwrap_or(CLUSTERS_MAX - 1);
            self.clusters[..=at].rotate_right(1);
            self.clusters[0] = Some((server.system, server.timeline));
        }
        Ok(())
    }

    /// A host of the list has answered nothing: it did not in time when it was connected to, or its
    /// connections were silent when another primary was met.
    pub(super) fn note_silent(&mut self, host: usize) {
        self.silent = Some(host);
    }

    /// A host of the list was met, and is not what was asked for. It is tried last until another
    /// one is.
    pub fn note_unfit(&mut self, host: usize) {
        self.note_silent(host);
    }

    /// A connection to a host of the list is ready.
    pub(super) fn note_served(&mut self, host: usize) {
        self.silent = self.silent.filter(|silent| *silent != host);
        self.served = Some(host);
    }

    /// The host that is tried last.
    pub(super) fn silent(&self) -> Option<usize> {
        self.silent
    }

    /// The host that the client is connected to, if to any.
    pub(super) fn served(&self) -> Option<usize> {
        self.served
    }

    /// Whether a server that was met since `before` was seen makes others former primaries.
    pub(super) fn is_beyond(&self, before: &Lineage) -> bool {
        self.clusters != before.clusters
    }

    /// Why a server must not be used: asked of connections that are open, once another was opened.
    pub fn refuses(&self, server: Identity) -> Option<Refusal> {
        let (_, timeline) = self.clusters.iter().flatten().find(|it| it.0 == server.system)?;
        (!server.is_standby && server.timeline < *timeline).then_some(Refusal::FormerPrimary)
    }
}

/// Whether a server can be asked, by the `server_version` that it reported: PostgreSQL 10 or later.
/// The console of PgBouncer, which reports a version of its own, is not asked.
pub fn is_asked(server_version: &str) -> bool {
    let digits = server_version.bytes().take_while(u8::is_ascii_digit).count();
    digits >= 2 && !server_version.ends_with("/bouncer")
}

/// [`QUESTION`] on a connection that nobody uses yet.
#[derive(Debug, Default)]
pub struct Asking {
    row: Option<Identity>,
    received_len: usize,
}

/// The end of [`Asking`].
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// `None` if the server did not say: it may not be PostgreSQL, or not allow the question. Then
    /// nothing is known of it.
    pub identity: Option<Identity>,
}

/// The answer has some 200 bytes; notices may come with it.
const ANSWER_LEN_MAX: usize = 64 << 10;

impl Asking {
    /// Writes the question, to be sent at once.
    ///
    /// # Errors
    /// None: its text is short and has no NUL.
    pub fn write(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        Query { sql: QUESTION }.encode(out)
    }

    /// Takes whole messages off the front of `input`; an incomplete one stays. `parameter` is called
    /// with each setting that the server reports meanwhile.
    ///
    /// # Errors
    /// The server broke the protocol, or ended the session. The connection must then be closed.
    pub fn handle_bytes(
        &mut self,
        input: &mut BytesMut,
        mut parameter: impl FnMut(&str, &str),
    ) -> Result<Option<Answer>, Violation> {
        while let Some(next) = frame(input, max_len)? {
            let len = next.message_len();
            self.received_len += len;
            if self.received_len > ANSWER_LEN_MAX {
                return Err(Violation::TooLong { tag: next.tag });
            }
            let is_over = match BackendMessage::decode(next)? {
                BackendMessage::DataRow(row) => {
                    let mut texts = row.values.map(|it| str::from_utf8(it?).ok());
                    let mut text = || texts.next().flatten();
                    let texts = (text(), text(), text());
                    if let (Some(system), Some(is_standby), Some(timeline)) = texts {
                        self.row = Identity::read(system, is_standby, timeline);
                    }
                    false
                }
                BackendMessage::ParameterStatus(it) => {
                    parameter(it.name, it.value);
                    false
                }
                BackendMessage::ErrorResponse(_) => {
                    self.row = None;
                    false
                }
                BackendMessage::RowDescription(_)
                | BackendMessage::CommandComplete(_)
                | BackendMessage::NoticeResponse(_) => false,
                BackendMessage::ReadyForQuery(_) => true,
                _ => return Err(Violation::UnknownTag(next.tag)),
            };
            input.advance(len);
            if is_over {
                return Ok(Some(Answer { identity: self.row }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn primary(system: u64, timeline: u32) -> Identity {
        Identity { system, is_standby: false, timeline }
    }

    #[test]
    fn a_server_that_takes_writes_on_an_earlier_timeline_is_a_former_primary() {
        let mut lineage = Lineage::default();
        assert_eq!(lineage.admit(primary(7, 2)), Ok(()), "the first that is seen");
        assert_eq!(lineage.admit(primary(7, 2)), Ok(()));
        assert_eq!(lineage.admit(primary(7, 1)), Err(Refusal::FormerPrimary));
        assert_eq!(lineage.admit(primary(7, 4)), Ok(()));
        assert_eq!(lineage.admit(primary(7, 3)), Err(Refusal::FormerPrimary));
        assert_eq!(lineage.refuses(primary(7, 2)), Some(Refusal::FormerPrimary), "opened before");
        assert_eq!(lineage.refuses(primary(7, 4)), None);
    }

    #[test]
    fn a_standby_is_never_refused_and_teaches_nothing() {
        let standby = |timeline| Identity { is_standby: true, ..primary(7, timeline) };
        let mut lineage = Lineage::default();
        assert_eq!(lineage.admit(standby(9)), Ok(()));
        assert_eq!(lineage.admit(primary(7, 2)), Ok(()));
        assert_eq!(lineage.admit(standby(1)), Ok(()));
    }

    #[test]
    fn another_cluster_has_a_history_of_its_own() {
        let mut lineage = Lineage::default();
        assert_eq!(lineage.admit(primary(7, 5)), Ok(()));
        assert_eq!(lineage.admit(primary(8, 1)), Ok(()));
        assert_eq!(lineage.admit(primary(7, 4)), Err(Refusal::FormerPrimary));
        assert_eq!(lineage.admit(primary(7, 5)), Ok(()));
        for system in 10..10 + CLUSTERS_MAX as u64 - 1 {
            assert_eq!(lineage.admit(primary(system, 1)), Ok(()));
        }
        assert_eq!(lineage.refuses(primary(7, 4)), Some(Refusal::FormerPrimary), "still known");
        assert_eq!(lineage.admit(primary(20, 1)), Ok(()));
        assert_eq!(lineage.refuses(primary(7, 4)), None, "the one that was met longest ago");
    }

    #[test]
    fn only_a_server_that_knows_the_answer_is_asked() {
        for version in ["10.23", "15.18 (Debian 15.18-0+deb12u1)", "18beta1"] {
            assert!(is_asked(version), "{version}");
        }
        for version in ["9.6.24", "1.24.1/bouncer", "", "unknown"] {
            assert!(!is_asked(version), "{version}");
        }
    }

    /// The messages of an answer with these values, or of an error.
    fn answer(row: Option<[&str; 3]>) -> BytesMut {
        let mut out = BytesMut::new();
        match row {
            Some(values) => {
                let values = values.map(|it| Some(it.as_bytes()));
                crate::message::data_row::write(&mut out, values.into_iter())
                    .expect("the row is short");
                out.extend_from_slice(b"C\0\0\0\x0dSELECT 1\0");
            }
            None => out.extend_from_slice(b"E\0\0\0\x13SERROR\0C42501\0\0"),
        }
        out.extend_from_slice(b"S\0\0\0\x0dname\0val\0Z\0\0\0\x05I");
        out
    }

    #[test]
    fn the_answer_is_taken_in_pieces_of_any_size_and_leaves_what_is_behind_it() {
        let whole = answer(Some(["7", "false", "3"]));
        for size in 1..=whole.len() {
            let (mut asking, mut input) = (Asking::default(), BytesMut::new());
            let (mut found, mut told) = (None, 0);
            for piece in whole.chunks(size) {
                assert_eq!(found, None);
                input.extend_from_slice(piece);
                let taken = asking.handle_bytes(&mut input, |name, value| {
                    assert_eq!((name, value), ("name", "val"));
                    told += 1;
                });
                found = taken.unwrap();
            }
            assert_eq!((found, told), (Some(Answer { identity: Some(primary(7, 3)) }), 1));
        }
    }

    #[test]
    fn a_server_that_refuses_the_question_has_no_identity() {
        let taken = Asking::default().handle_bytes(&mut answer(None), |_, _| {});
        assert_eq!(taken.unwrap(), Some(Answer { identity: None }));
    }

    #[test]
    fn the_answer_is_read() {
        let read = Identity::read("7712198474217982495", "false", "3");
        let system = 7_712_198_474_217_982_495;
        assert_eq!(read, Some(Identity { system, is_standby: false, timeline: 3 }));
    }

    #[test]
    fn anything_else_is_no_answer() {
        for (system, is_standby, timeline) in
            [("", "true", "1"), ("1", "t", "1"), ("1", "true", ""), ("1", "true", "-1")]
        {
            assert_eq!(Identity::read(system, is_standby, timeline), None);
        }
    }
}
