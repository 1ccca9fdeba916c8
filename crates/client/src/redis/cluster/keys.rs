//! The one hash slot of what has to run as a whole.

use bytes::Bytes;
use onetrip_redis::Spec;
use onetrip_redis::client::router::Refused;
use onetrip_redis::slots::slot_of;

use super::super::call::Item;
use super::errors::refusal;
use crate::Error;

/// The one hash slot of all keys of a list; 0 where it has none.
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
    Ok(slot_of_keys(keys.iter().map(|key| &key[..]))?.unwrap_or(0))
}

pub(super) fn slot_of_keys<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Result<Option<u16>, Error> {
    let mut first: Option<(&[u8], u16)> = None;
    for key in keys {
        let slot = slot_of(key);
        match first {
            Some(first) if first.1 != slot => {
                return Err(refusal(&Refused::cross_slot(first, (key, slot))));
            }
            Some(_) => {}
            None => first = Some((key, slot)),
        }
    }
    Ok(first.map(|(_, slot)| slot))
}
