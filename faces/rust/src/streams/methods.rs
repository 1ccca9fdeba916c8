//! The methods for streams and COPY that a client, a session and a transaction share. Each has a
//! `lease` of a connection that nobody else uses meanwhile. It is a macro, as for statements;
//! `self` is passed to it, so that the expression that makes the lease may use it.

macro_rules! stream_methods {
    (($($receiver:tt)+), $life:lifetime, $lease:expr) => {
        /// Runs a statement and returns its rows as they come, in bounded memory.
        ///
        /// The statement is sent when the future is first polled, by its text even if it is
        /// prepared. The future resolves with the first row, or the end.
        ///
        /// # Errors
        /// The statement failed before its first row.
        pub async fn query_stream(
            $($receiver)+,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> Result<$crate::RowStream<$life>, $crate::Error> {
            $crate::RowStream::open($lease, statement, params).await
        }

        /// Begins a COPY FROM STDIN. No trip: nothing is sent until there are 64 KiB of data, or
        /// all of it. (As the first statement of a transaction it costs one trip, which confirms
        /// that the transaction has begun.)
        ///
        /// # Errors
        /// The text is not one COPY FROM STDIN. The server's errors come with the data.
        pub async fn copy_in(
            $($receiver)+,
            sql: &str,
        ) -> Result<$crate::CopyIn<$life>, $crate::Error> {
            $crate::CopyIn::begin($lease, sql).await
        }

        /// Begins a binary COPY of rows into a table. It asks the server for the types of the
        /// columns, which takes one trip, and returns a [`BinaryCopyIn`](crate::BinaryCopyIn) on a
        /// [`copy_in`](Self::copy_in).
        ///
        /// `table` and `columns` are names without quotes, in their exact case; a dot separates a
        /// schema from its table: `copy_in_rows("audit.Log", &["id", "what"])`.
        ///
        /// # Errors
        /// There is no such table or column.
        pub async fn copy_in_rows(
            $($receiver)+,
            table: &str,
            columns: &[&str],
        ) -> Result<$crate::BinaryCopyIn<$life>, $crate::Error> {
            $crate::BinaryCopyIn::into_table($lease, table, columns).await
        }

        /// Begins a COPY TO STDOUT, and waits until it has begun.
        ///
        /// # Errors
        /// The text is not one COPY TO STDOUT, or the server refused it.
        pub async fn copy_out(
            $($receiver)+,
            sql: &str,
        ) -> Result<$crate::CopyOut<$life>, $crate::Error> {
            $crate::CopyOut::begin($lease, sql).await
        }

        /// Runs a statement whose last parameter is read while it is sent, so that it is never in
        /// memory whole: `len` bytes of `value`, at most 1 GiB with everything else. Its number is
        /// one more than there are `params`. For a `bytea` the bytes are the value; for other types
        /// they are its text. Returns how many rows the statement inserted, updated, deleted or
        /// returned.
        ///
        /// One trip more than [`execute`](Self::execute), to learn the types.
        ///
        /// # Errors
        /// As `execute`. If `value` fails or ends before `len` bytes, or if the future is dropped
        /// while it sends, the connection is closed: a message that was begun can't be taken back
        /// otherwise. Then the statement has not run: the outcome is `Rejected`.
        pub async fn execute_large(
            $($receiver)+,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
            len: usize,
            value: impl tokio::io::AsyncRead,
        ) -> Result<u64, $crate::Error> {
            $crate::streams::execute_large($lease, statement, params, len, value).await
        }
    };
}

pub(crate) use stream_methods;
