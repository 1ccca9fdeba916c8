//! The commands of a list that is being built.

use std::borrow::Cow;
use std::cell::RefCell;
use std::marker::PhantomData;

use onetrip_redis::{Command, Place, Spec};

use super::Position;
use crate::Error;
use crate::redis::call::Item;
use crate::redis::client::{check, misplaced, name_of};
use crate::redis::config::Config;
use crate::redis::script::ScriptCall;

/// The commands that were added so far.
pub(super) struct List(RefCell<Added>);

#[derive(Default)]
struct Added {
    items: Vec<Item>,
    names: Vec<Cow<'static, str>>,
    /// Whether a command blocks if MULTI is refused.
    may_block: bool,
    /// Why the list can't be sent.
    fault: Option<Error>,
}

impl List {
    pub(super) fn new() -> List {
        List(RefCell::default())
    }

    fn add<T>(&self, item: Item, name: Cow<'static, str>) -> Position<T> {
        let mut added = self.0.borrow_mut();
        added.items.push(item);
        added.names.push(name);
        Position { at: added.items.len() - 1, result: PhantomData }
    }

    pub(super) fn add_command<T>(
        &self,
        command: Command,
        config: &Config,
        atomic: bool,
    ) -> Position<T> {
        let spec = Spec::of(&command);
        let name = name_of(spec, &command);
        let place = spec.map_or(Place::Shared, |spec| spec.place(&command));
        let fault = check(&command, config).err().or_else(|| match place {
            Place::Shared => None,
            // Within MULTI a blocking command does not block; but the user may not be allowed to
            // send MULTI.
            Place::Own if atomic => {
                self.0.borrow_mut().may_block = true;
                None
            }
            Place::Own => Some(misplaced(
                &name,
                "it may block those behind it; send it with the client, which gives it a connection of its \
                 own",
            )),
            Place::Session(advice) | Place::Refused(advice) => Some(misplaced(&name, advice)),
        });
        if let Some(error) = fault {
            self.refuse(error);
        }
        self.add(Item::new(command, spec), name)
    }

    pub(super) fn add_script<T>(&self, call: ScriptCall, config: &Config) -> Position<T> {
        let name = Cow::Borrowed("EVAL");
        match call.into_item(config) {
            Ok(item) => self.add(item, name),
            Err(error) => {
                self.refuse(error);
                self.add(Item::new(Command::new("EVAL"), None), name)
            }
        }
    }

    pub(super) fn refuse(&self, error: Error) {
        self.0.borrow_mut().fault.get_or_insert(error);
    }

    pub(super) fn take(self) -> Result<(Vec<Item>, Vec<Cow<'static, str>>), Error> {
        let added = self.0.into_inner();
        match added.fault {
            Some(error) => Err(error),
            None => Ok((added.items, added.names)),
        }
    }

    pub(super) fn may_block(&self) -> bool {
        self.0.borrow().may_block
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().items.len()
    }
}

/// How many commands, and how many bytes, share a slot of the engine and a reply at most. More
/// would save little; and if the connection is lost, the outcome of a whole slot is unknown.
const SHARE_MAX: usize = 64;
const SHARE_BYTES_MAX: usize = 16 << 10;

/// The commands in order, divided into lists that share a slot each.
pub(super) fn shares(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut shares: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let len = item.len_max();
        match shares.last_mut() {
            Some(share) if share.len() < SHARE_MAX && bytes + len <= SHARE_BYTES_MAX => {
                share.push(item);
                bytes += len;
            }
            _ => {
                shares.push(vec![item]);
                bytes = len;
            }
        }
    }
    shares
}
