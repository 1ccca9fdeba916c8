//! How a transaction begins: isolation, read only, deferrable.

/// How a transaction begins. What is not said is left to the server's settings
/// (`default_transaction_isolation`, `default_transaction_read_only`,
/// `default_transaction_deferrable`), so the default says nothing, and BEGIN is sent alone.
///
/// # Example
/// ```no_run
/// use onetrip::{Isolation, TransactionOptions};
///
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let report = TransactionOptions::new()
///     .isolation(Isolation::Serializable)
///     .read_only(true)
///     .deferrable(true);
/// let tx = client.begin_with(report).await?;
/// let sum = tx.query_one("select sum(total) from orders", &[]).await?;
/// # drop(sum); tx.commit().await }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    isolation: Option<Isolation>,
    read_only: Option<bool>,
    deferrable: Option<bool>,
}

/// What a transaction sees of others that run beside it (PostgreSQL documentation, "Transaction
/// Isolation").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// In PostgreSQL the same as [`ReadCommitted`](Isolation::ReadCommitted).
    ReadUncommitted,
    /// Each statement sees what was committed before it began.
    ReadCommitted,
    /// All statements see what was committed before the first of them. Who changes what another has
    /// changed meanwhile fails with 40001.
    RepeatableRead,
    /// As if transactions ran one after the other. Who would break that fails with 40001.
    Serializable,
}

impl TransactionOptions {
    /// The server's defaults.
    pub const fn new() -> TransactionOptions {
        TransactionOptions { isolation: None, read_only: None, deferrable: None }
    }

    /// At this level.
    #[must_use]
    pub const fn isolation(self, isolation: Isolation) -> TransactionOptions {
        TransactionOptions { isolation: Some(isolation), ..self }
    }

    /// READ ONLY, or READ WRITE.
    #[must_use]
    pub const fn read_only(self, read_only: bool) -> TransactionOptions {
        TransactionOptions { read_only: Some(read_only), ..self }
    }

    /// DEFERRABLE, or NOT DEFERRABLE. It has an effect only if the transaction is serializable and
    /// read only: the first statement then waits for a moment from which on nothing can make the
    /// transaction fail with 40001.
    #[must_use]
    pub const fn deferrable(self, deferrable: bool) -> TransactionOptions {
        TransactionOptions { deferrable: Some(deferrable), ..self }
    }

    /// BEGIN with these modes.
    pub(crate) fn begin(self) -> String {
        let read_only = self.read_only.map(|it| if it { "READ ONLY" } else { "READ WRITE" });
        let deferrable = self.deferrable.map(|it| if it { "DEFERRABLE" } else { "NOT DEFERRABLE" });
        let modes = [self.isolation.map(Isolation::mode), read_only, deferrable];
        let modes: Vec<&str> = modes.into_iter().flatten().collect();
        match modes.is_empty() {
            true => "BEGIN".to_owned(),
            false => format!("BEGIN {}", modes.join(", ")),
        }
    }
}

impl Isolation {
    const fn mode(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "ISOLATION LEVEL READ UNCOMMITTED",
            Isolation::ReadCommitted => "ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begin_says_only_what_was_asked_for() {
        let new = TransactionOptions::new;
        assert_eq!(new().begin(), "BEGIN");
        assert_eq!(new().read_only(false).begin(), "BEGIN READ WRITE");
        assert_eq!(new().deferrable(false).begin(), "BEGIN NOT DEFERRABLE");
        let all = new().isolation(Isolation::Serializable).read_only(true).deferrable(true);
        assert_eq!(all.begin(), "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE");
    }

    #[test]
    fn each_level_has_its_name() {
        let begin = |level| TransactionOptions::new().isolation(level).begin();
        assert_eq!(begin(Isolation::ReadUncommitted), "BEGIN ISOLATION LEVEL READ UNCOMMITTED");
        assert_eq!(begin(Isolation::ReadCommitted), "BEGIN ISOLATION LEVEL READ COMMITTED");
        assert_eq!(begin(Isolation::RepeatableRead), "BEGIN ISOLATION LEVEL REPEATABLE READ");
    }
}
