//! Which requests the engine may send again by itself.
//!
//! docs/architecture/postgres.md has the table of everything that is sent twice, why, and how
//! often.

use onetrip_engine::Request;

use super::statements::Use;

/// Where a statement is sent, as far as that decides what may happen after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Beside statements of others, with its own sync point.
    pub is_shared: bool,
    /// Outside a transaction, and of a place where one may have begun, and of a longer segment.
    pub is_outside: bool,
}

/// How a statement goes on whose connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoesOn {
    /// In line for another connection, if no byte of it was sent.
    InLine,
    /// By its repeats, since its caller says that it may run twice. `is_read`: it only reads.
    Repeated {
        /// See above.
        is_read: bool,
    },
    /// To another server, as a read that replicas serve.
    Elsewhere,
}

/// The same request, marked with what may be done if it did not run or was undone. `used` is the
/// prepared statement that it names; `None` if it carries its text.
pub fn permit<X, T>(
    request: Request<X>,
    at: Setting,
    used: Option<&Use<T>>,
    has_partial_effects: bool,
    goes_on: GoesOn,
) -> Request<X> {
    // A request that prepares its statement shares no sync point with others, and has no repair: it
    // would find the name taken. If it was undone, a Close goes in front of it.
    let parses = used.is_some_and(Use::parses);
    Request {
        // A request that names a statement that the server has lost, or can't use as it is, has
        // never started. A failure inside a transaction is not mended by sending the request again.
        again: at.is_outside && used.is_some() && !parses,
        // A cancel that was meant for another request has undone this one, unless it commits by
        // itself. So has one that took it away from those behind it.
        resend: at.is_shared && !has_partial_effects,
        joins: at.is_shared && !parses && goes_on == GoesOn::Repeated { is_read: true },
        own_way: goes_on != GoesOn::InLine,
        ..request
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use onetrip_engine::{Time, Token};

    use super::*;
    use crate::client::exact::Parameters;
    use crate::client::statements::{Statements, Wanted};
    use crate::message::{TransactionStatus, parse};
    use crate::{Expect, Postgres};

    const READ: GoesOn = GoesOn::Repeated { is_read: true };
    const SHARED: Setting = Setting { is_shared: true, is_outside: true };
    const SESSION: Setting = Setting { is_shared: false, is_outside: true };
    const TRANSACTION: Setting = Setting { is_shared: false, is_outside: false };

    /// What is permitted: retry, sending again after a cancel, a shared-Sync group. `joins`:
    /// it is a read that may run twice.
    fn permitted(at: Setting, used: Option<&Use<()>>, partial: bool, joins: bool) -> [bool; 3] {
        let request = Request::isolated(Token(1), Expect::sync());
        let goes_on = if joins { READ } else { GoesOn::InLine };
        let Request { again, resend, joins, .. } = permit(request, at, used, partial, goes_on);
        [again, resend, joins]
    }

    fn used() -> (Use<()>, Use<()>) {
        let statements = Statements::new(8, 1);
        let mut protocol = Postgres::new(TransactionStatus::Idle);
        let text = |out: &mut BytesMut, name: &str| parse::write(out, name, "select", &[]);
        let wanted = Wanted {
            key: 1,
            parse: &text,
            data: &|| (),
            is_explicit: false,
            parameters: Parameters::default(),
            now: Time::ZERO,
        };
        let prepared = statements.prepare_as(&mut protocol, "s".to_owned(), &wanted, None);
        let prepared = prepared.expect("the text has no NUL");
        (Use::of(prepared.clone()), Use::that_parses(prepared))
    }

    #[test]
    fn a_prepared_statement_is_healed_outside_of_transactions_only() {
        let (named, parses) = used();
        assert_eq!(permitted(SHARED, Some(&named), false, false), [true, true, false]);
        assert_eq!(permitted(SESSION, Some(&named), false, false), [true, false, false]);
        assert_eq!(permitted(TRANSACTION, Some(&named), false, true), [false; 3]);
        assert_eq!(permitted(SESSION, Some(&parses), false, true), [false; 3]);
    }

    #[test]
    fn one_that_prepares_its_statement_is_sent_again_if_a_cancel_undid_it_and_shares_no_sync_point()
    {
        let (_, parses) = used();
        for joins in [false, true] {
            assert_eq!(permitted(SHARED, Some(&parses), false, joins), [false, true, false]);
        }
        assert_eq!(permitted(SHARED, Some(&parses), true, true), [false; 3]);
        assert_eq!(permitted(TRANSACTION, Some(&parses), false, true), [false; 3]);
    }

    #[test]
    fn what_a_cancel_does_not_undo_is_not_sent_again() {
        assert_eq!(permitted(SHARED, None, false, false), [false, true, false]);
        assert_eq!(permitted(SHARED, None, true, false), [false; 3]);
    }

    #[test]
    fn only_shared_reads_of_which_it_is_said_share_a_sync_point() {
        assert_eq!(permitted(SHARED, None, false, true), [false, true, true]);
        assert_eq!(permitted(SESSION, None, false, true), [false; 3]);
    }

    #[test]
    fn what_is_repeated_or_goes_to_another_server_does_not_get_in_line_again() {
        let own_way = |goes_on| {
            let request = Request::isolated(Token(1), Expect::sync());
            permit(request, SHARED, None::<&Use<()>>, false, goes_on).own_way
        };
        assert!(!own_way(GoesOn::InLine));
        for goes_on in [READ, GoesOn::Repeated { is_read: false }, GoesOn::Elsewhere] {
            assert!(own_way(goes_on), "{goes_on:?}");
        }
    }
}
