//! What a command may do to its connection, and what the commands of a session leave on theirs.

use crate::{Command, Place, Spec};

/// Where a command is about to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Wherever the client sends it.
    Client,
    /// The connection of a session.
    Session,
    /// A list that runs as one.
    List,
}

/// Why a command can't be sent there; `None` if it can.
#[must_use]
pub fn refusal(name: &str, place: Place, on: On) -> Option<String> {
    match (place, on) {
        (Place::Refused(advice), _) => Some(format!("{name} can't be sent as a command: {advice}")),
        (Place::Session(advice), On::Client | On::List) => {
            Some(format!("{name} can't go over the shared connection: {advice}"))
        }
        (Place::Own, On::List) => {
            Some(format!("{name} does not wait in a list that runs as one: send it by itself"))
        }
        _ => None,
    }
}

/// What the commands of a session leave on its connection.
///
/// A command that ends one of these may never leave, so a trace lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Keys may be watched.
    pub watches: bool,
    /// MULTI was sent by hand, and neither EXEC nor DISCARD behind it.
    pub in_multi: bool,
    /// Its state was changed, so nobody else may have it.
    pub is_changed: bool,
}

impl Traces {
    /// A command is sent. Whether scripts go as texts from now on, since it is MULTI.
    pub fn note(&mut self, spec: Option<&Spec>, command: &Command) -> bool {
        // It is not known what an unknown command does.
        let Some(spec) = spec else {
            self.is_changed = true;
            return false;
        };
        if !matches!(spec.place(command), Place::Session(_)) {
            return false;
        }
        match spec.name() {
            "WATCH" => self.watches = true,
            "MULTI" => (self.in_multi, self.is_changed) = (true, true),
            "EXEC" | "DISCARD" => self.in_multi = false,
            "UNWATCH" | "WAIT" | "WAITAOF" => {}
            _ => self.is_changed = true,
        }
        spec.name() == "MULTI"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(names: &[&str]) -> Traces {
        let mut traces = Traces::default();
        for name in names {
            let command = Command::new(name);
            traces.note(Spec::of(&command), &command);
        }
        traces
    }

    #[test]
    fn what_changes_a_connection_leaves_a_trace() {
        assert_eq!(after(&["GET", "WAIT", "UNWATCH", "BLPOP"]), Traces::default());
        assert!(after(&["WATCH", "UNWATCH"]).watches);
        assert!(after(&["SELECT"]).is_changed && after(&["NOSUCH"]).is_changed);
        let multi = after(&["MULTI"]);
        assert!(multi.in_multi && multi.is_changed);
        assert!(!after(&["MULTI", "DISCARD"]).in_multi);
    }

    #[test]
    fn a_command_is_refused_where_it_would_do_harm() {
        let refused = |name: &str, on| {
            let place = Spec::of(&Command::new(name))
                .map_or(Place::Shared, |it| it.place(&Command::new(name)));
            refusal(name, place, on).is_some()
        };
        for (name, client, session, list) in [
            ("GET", false, false, false),
            ("WATCH", true, false, true),
            ("MONITOR", true, true, true),
            ("BLPOP", false, false, true),
        ] {
            let on = [On::Client, On::Session, On::List].map(|on| refused(name, on));
            assert_eq!(on, [client, session, list], "{name}");
        }
    }
}
