//! The modes of a transaction: isolation level, read only, deferrable.

use std::borrow::Cow;

/// What a transaction sees of concurrent ones (PostgreSQL documentation, "Transaction Isolation").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// In PostgreSQL the same as [`ReadCommitted`](Isolation::ReadCommitted).
    ReadUncommitted,
    /// Each statement sees what was committed before it began.
    ReadCommitted,
    /// All statements see what was committed before the first of them. A transaction that changes a
    /// row that another has changed meanwhile fails with 40001.
    RepeatableRead,
    /// As if transactions ran one after the other. A transaction that would break that fails with
    /// 40001.
    Serializable,
}

/// The modes that BEGIN states. Modes that are `None` follow the server's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// The isolation level.
    pub isolation: Option<Isolation>,
    /// READ ONLY, or READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE, or NOT DEFERRABLE.
    pub deferrable: Option<bool>,
}

impl Modes {
    /// The BEGIN with these modes.
    pub fn begin(self) -> Cow<'static, str> {
        let isolation = self.isolation.map(|it| match it {
            Isolation::ReadUncommitted => "ISOLATION LEVEL READ UNCOMMITTED",
            Isolation::ReadCommitted => "ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "ISOLATION LEVEL SERIALIZABLE",
        });
        let read_only = self.read_only.map(|it| if it { "READ ONLY" } else { "READ WRITE" });
        let deferrable = self.deferrable.map(|it| if it { "DEFERRABLE" } else { "NOT DEFERRABLE" });
        let mut text = Cow::Borrowed("BEGIN");
        for (mode, before) in
            [isolation, read_only, deferrable].iter().flatten().zip([" ", ", ", ", "])
        {
            text.to_mut().push_str(before);
            text.to_mut().push_str(mode);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_says_only_what_was_asked_for() {
        let begin =
            |isolation, read_only, deferrable| Modes { isolation, read_only, deferrable }.begin();
        assert_eq!(begin(None, None, None), "BEGIN");
        assert_eq!(begin(None, Some(false), None), "BEGIN READ WRITE");
        assert_eq!(begin(None, None, Some(false)), "BEGIN NOT DEFERRABLE");
        assert_eq!(
            begin(Some(Isolation::Serializable), Some(true), Some(true)),
            "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE"
        );
    }

    #[test]
    fn each_level_has_its_name() {
        let begin = |level| Modes { isolation: Some(level), ..Modes::default() }.begin();
        assert_eq!(begin(Isolation::ReadUncommitted), "BEGIN ISOLATION LEVEL READ UNCOMMITTED");
        assert_eq!(begin(Isolation::ReadCommitted), "BEGIN ISOLATION LEVEL READ COMMITTED");
        assert_eq!(begin(Isolation::RepeatableRead), "BEGIN ISOLATION LEVEL REPEATABLE READ");
    }
}
