//! How a transaction begins: isolation, read only, deferrable.

pub use onetrip_postgres::client::transaction::modes::Isolation;

use std::borrow::Cow;

use onetrip_postgres::client::transaction::modes::Modes;

/// How a transaction begins. What is not set is left to the server's settings
/// (`default_transaction_isolation`, `default_transaction_read_only`,
/// `default_transaction_deferrable`). By default nothing is set, and a plain BEGIN is sent.
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
pub struct TransactionOptions(Modes);

impl TransactionOptions {
    /// The server's defaults.
    pub const fn new() -> TransactionOptions {
        TransactionOptions(Modes { isolation: None, read_only: None, deferrable: None })
    }

    /// Sets the isolation level.
    #[must_use]
    pub const fn isolation(self, isolation: Isolation) -> TransactionOptions {
        TransactionOptions(Modes { isolation: Some(isolation), ..self.0 })
    }

    /// Sets READ ONLY, or READ WRITE.
    #[must_use]
    pub const fn read_only(self, read_only: bool) -> TransactionOptions {
        TransactionOptions(Modes { read_only: Some(read_only), ..self.0 })
    }

    /// Sets DEFERRABLE, or NOT DEFERRABLE. It has an effect only if the transaction is serializable
    /// and read only: the first statement then waits for a moment from which on nothing can make
    /// the transaction fail with 40001.
    #[must_use]
    pub const fn deferrable(self, deferrable: bool) -> TransactionOptions {
        TransactionOptions(Modes { deferrable: Some(deferrable), ..self.0 })
    }

    /// The BEGIN with these modes.
    pub(crate) fn begin(self) -> Cow<'static, str> {
        self.0.begin()
    }
}
