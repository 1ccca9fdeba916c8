//! The hash slot of a list that has to run as a whole.

use bytes::Bytes;
use onetrip_redis::Spec;
use onetrip_redis::client::router::slot_of_keys;

use super::super::call::Item;
use super::errors::refusal;
use crate::Error;

/// The hash slot that all keys of a list share; 0 if the list has no keys.
pub(super) fn keys_slot(items: &[Item]) -> Result<u16, Error> {
    let mut keys: Vec<Bytes> = Vec::new();
    for item in items {
        match &item.script {
            Some(_) => {
                let mut args = item.command.iter();
                let count =
                    args.next().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
                keys.extend(args.take(count.unwrap_or(0)).map(Bytes::copy_from_slice));
            }
            None => {
                let spec = Spec::of(&item.command);
                let all = spec.into_iter().flat_map(|spec| spec.keys(&item.command));
                keys.extend(all.map(Bytes::copy_from_slice));
            }
        }
    }
    let slot = slot_of_keys(&mut keys.iter().map(|key| &key[..])).map_err(|it| refusal(&it))?;
    Ok(slot.unwrap_or(0))
}
