//! Advice for errors that a pooler causes. The server's message describes a consequence, and the
//! pooler's says what failed but not why.

use onetrip_postgres::client::names::NAME_PREFIX;
use onetrip_postgres::message::ServerError;

/// The advice to append to the error's message, if the error is one of those.
pub(crate) fn on(error: &ServerError) -> Option<&'static str> {
    let says = |words: &str| error.message.contains(words);
    match error.code.as_str() {
        // The server quotes the statement's name in every language, and only our names begin like
        // this. The guard behind a reset says by its name what has happened.
        "26000" | "42P05"
            if says(&format!("\"{NAME_PREFIX}")) && !says(&format!("\"{NAME_PREFIX}reset")) =>
        {
            Some(
                "a pooler that gives each transaction another connection may be in between: set \
             prepare_threshold=0 here, or max_prepared_statements in PgBouncer 1.21 or newer",
            )
        }
        // PgBouncer has no translations (src/client.c, src/server.c).
        "08P01" if says("unsupported startup parameter") => Some(
            "the pooler takes no such setting: leave it out, or name it in its \
             ignore_startup_parameters, which drops it",
        ),
        "08P01" if says("not allowed in statement pooling mode") => {
            Some("set pool_mode=transaction in the pooler")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, message: &str) -> ServerError {
        let (code, message) = (code.to_owned(), message.to_owned());
        ServerError { code, message, ..ServerError::default() }
    }

    #[test]
    fn a_statement_of_ours_that_is_unknown_leads_to_the_settings() {
        let ours = error("26000", "prepared statement \"onetrip_1f_2\" does not exist");
        assert!(on(&ours).is_some_and(|advice| advice.contains("prepare_threshold=0")));
        let theirs = error("26000", "prepared statement \"plan\" does not exist");
        assert_eq!(on(&theirs), None);
        let guard = error("26000", "prepared statement \"onetrip_reset failed, not run\" does");
        assert_eq!(on(&guard), None);
    }
}
