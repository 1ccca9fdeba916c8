//! Broken promises of an engine, whatever the protocol: what it said, falsified.

use bytes::Bytes;
use onetrip_engine::{End, Output, Token};

/// Loses the first of these.
pub(crate) fn drop_first<E>(
    outputs: &mut Vec<Output<E>>,
    which: impl Fn(&Output<E>) -> bool,
) -> bool {
    let at = outputs.iter().position(which);
    at.map(|at| outputs.remove(at)).is_some()
}

/// Says an end twice.
pub(crate) fn duplicate_end<E>(outputs: &mut Vec<Output<E>>) -> bool {
    let end = outputs.iter().find_map(|output| match output {
        Output::Ended { token, block, end } => {
            Some(Output::Ended { token: *token, block: block.clone(), end: *end })
        }
        _ => None,
    });
    end.map(|end| outputs.push(end)).is_some()
}

/// Gives two requests one another's last part, where these differ.
pub(crate) fn swap_replies<E>(outputs: &mut [Output<E>]) -> bool {
    let mut blocks: Vec<&mut Bytes> = outputs
        .iter_mut()
        .filter_map(|output| match output {
            Output::Ended { block, end: End::Complete | End::Provisional, .. } => Some(block),
            _ => None,
        })
        .collect();
    let Some((first, rest)) = blocks.split_first_mut() else { return false };
    let other = rest.iter_mut().find(|block| ***block != **first);
    other.map(|other| std::mem::swap(*first, *other)).is_some()
}

/// Says another end than there was.
pub(crate) fn replace_end<E>(
    outputs: &mut [Output<E>],
    lie: impl Fn(Token, End) -> Option<End>,
) -> bool {
    outputs.iter_mut().any(|output| match output {
        Output::Ended { token, end, .. } => lie(*token, *end).map(|lie| *end = lie).is_some(),
        _ => false,
    })
}
