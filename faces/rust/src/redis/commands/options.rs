//! Options of commands that have several. `new` makes one without options, and each method adds
//! one; if two exclude each other, the later one counts.

mod bits;
mod places;
mod ranges;
mod streams;
mod values;
mod words;

use onetrip_redis::{Command, ToArg};

pub use bits::{BitField, BitOp, Overflow};
pub use places::{GeoArea, GeoOptions, Unit};
pub use ranges::{Aggregate, ZAddOptions, ZCombine, ZRangeOptions};
pub use streams::{Trim, XAddOptions, XClaimOptions, XReadOptions};
pub use values::{Expiry, LPosOptions, ScanOptions, SetOptions, SortOptions};
pub use words::{End, ExpireIf, Side};

/// The arguments chosen so far: at most one choice for each question, in the order of the
/// questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Choices(Vec<(u8, Command)>);

impl Choices {
    /// Answers a question with a word.
    fn word(self, question: u8, word: &'static str) -> Choices {
        self.set(question, Command::new(word))
    }

    /// Answers a question with a word and a value.
    fn value(self, question: u8, word: &'static str, value: impl ToArg) -> Choices {
        self.set(question, Command::new(word).arg(value))
    }

    fn set(mut self, question: u8, answer: Command) -> Choices {
        self.0.retain(|(other, _)| *other != question);
        let at = self.0.partition_point(|(other, _)| *other < question);
        self.0.insert(at, (question, answer));
        self
    }

    /// Adds to the answer of a question.
    fn more(mut self, question: u8, answer: Command) -> Choices {
        match self.0.iter_mut().find(|(other, _)| *other == question) {
            Some((_, before)) => answer.iter().for_each(|arg| before.push(arg)),
            None => return self.set(question, answer),
        }
        self
    }

    fn add(&self, command: Command) -> Command {
        self.0.iter().fold(command, |command, (_, answer)| command.args(answer.iter()))
    }
}

/// Options that are `Choices` and nothing else.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name($crate::redis::commands::options::Choices);

        impl $name {
            /// None of the options.
            #[must_use]
            pub fn new() -> $name {
                $name::default()
            }

            pub(in crate::redis::commands) fn add(
                &self,
                command: onetrip_redis::Command,
            ) -> onetrip_redis::Command {
                self.0.add(command)
            }
        }
    )*};
}

use options;
