//! Statements with another deadline than the client's.

use std::marker::PhantomData;

use crate::executor::Executor;
use crate::methods::statement_methods;

/// A client, session or transaction whose statements have another deadline than
/// [`request_timeout`](crate::config::Settings::request_timeout). Returned by their method
/// `timeout`.
///
/// The time of each statement begins with its call, and covers all of its waiting: for a
/// connection, for room in the queue, for the window, and for the server. A late statement fails
/// with [`Kind::Timeout`](crate::Kind::Timeout), and its outcome says whether it was sent. If the
/// server runs it, it is cancelled there, provided that
/// [`cancel_on_timeout`](crate::config::Settings::cancel_on_timeout) is set and the cancel harms
/// nobody; its neighbours go on in any case.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// use std::time::Duration;
///
/// let hurried = client.timeout(Duration::from_millis(50));
/// let total = hurried.query_one("select sum(price) from item", &[]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Timed<'a> {
    executor: Executor,
    of: PhantomData<&'a ()>,
}

impl Timed<'_> {
    pub(crate) fn new<'a>(executor: Executor) -> Timed<'a> {
        Timed { executor, of: PhantomData }
    }

    statement_methods!();
}
