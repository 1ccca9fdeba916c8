//! The methods that a client, a session and a transaction share; each has an `executor` that knows
//! where statements go. It is a macro and not a trait, so that nobody has to import a trait to run
//! a statement.

macro_rules! statement_methods {
    () => {
        /// Runs a statement and returns its rows.
        ///
        /// `statement` is a text or a [`Statement`](crate::Statement). Parameters are `$1`, `$2`,
        /// …; their types are found automatically, or given by [`typed`](crate::typed).
        pub fn query(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> $crate::Reply<$crate::Rows> {
            self.executor.run(statement, params)
        }

        /// Runs a statement that returns exactly one row. No row, or several, is an error
        /// (`Applied`).
        pub fn query_one(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> $crate::Reply<$crate::Row> {
            self.executor.run(statement, params)
        }

        /// Runs a statement that returns at most one row. Several are an error (`Applied`).
        pub fn query_opt(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> $crate::Reply<Option<$crate::Row>> {
            self.executor.run(statement, params)
        }

        /// Runs a statement and returns how many rows it inserted, updated, deleted or returned.
        pub fn execute(
            &self,
            statement: &(impl $crate::ToStatement + ?Sized),
            params: $crate::params::Params<'_>,
        ) -> $crate::Reply<u64> {
            self.executor.run(statement, params)
        }

        /// Prepares a statement: one trip. Afterwards each use sends its parameters only.
        pub fn prepare(
            &self,
            sql: &str,
        ) -> impl Future<Output = Result<$crate::Statement, $crate::Error>> + use<> {
            self.executor.prepare(sql, &[])
        }

        /// Prepares a statement whose first parameters are of these types.
        pub fn prepare_typed(
            &self,
            sql: &str,
            types: &[$crate::types::Type],
        ) -> impl Future<Output = Result<$crate::Statement, $crate::Error>> + use<> {
            self.executor.prepare(sql, types)
        }

        /// Makes a batch, many parameter sets for one statement: see [`Batch`](crate::Batch).
        /// Nothing is sent until [`atomic`](crate::Batch::atomic) or
        /// [`isolated`](crate::Batch::isolated) is called.
        pub fn batch<'s, R>(
            &'s self,
            statement: &'s (impl $crate::ToStatement + ?Sized),
            rows: R,
        ) -> $crate::Batch<'s, R>
        where
            R: IntoIterator,
            R::Item: $crate::ParameterSet,
        {
            $crate::Batch::new(&self.executor, statement, rows)
        }

        /// Sends a notification to a channel, with a payload that may be empty: by `pg_notify`, as
        /// a statement among others. Listeners receive it when its transaction is committed.
        ///
        /// # Errors
        /// The name of the channel is empty, longer than 63 bytes or contains a NUL
        /// (`channel_name`, nothing was sent), or the payload is 8,000 bytes or longer.
        pub fn notify(&self, channel: &str, payload: &str) -> $crate::Reply<()> {
            match $crate::notification::check(channel) {
                Ok(()) => self.executor.run("select pg_notify($1, $2)", &[&channel, &payload]),
                Err(error) => $crate::Reply::refused(error),
            }
        }

        /// Begins a pipeline: statements that share one trip and one transaction.
        pub fn pipeline(&self) -> $crate::Pipeline {
            $crate::Pipeline::new(&self.executor)
        }
    };
}

pub(crate) use statement_methods;
