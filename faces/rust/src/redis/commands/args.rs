//! Arguments in special orders.

use onetrip_redis::{Command, ToArg};

/// Keys with their values by turns.
pub(super) fn put_pairs<A: ToArg, B: ToArg>(
    command: Command,
    pairs: impl IntoIterator<Item = (A, B)>,
) -> Command {
    pairs.into_iter().fold(command, |command, (a, b)| command.arg(a).arg(b))
}

/// Three of a kind by turns.
pub(super) fn put_triples<A: ToArg, B: ToArg, C: ToArg>(
    command: Command,
    triples: impl IntoIterator<Item = (A, B, C)>,
) -> Command {
    triples.into_iter().fold(command, |command, (a, b, c)| command.arg(a).arg(b).arg(c))
}

/// The number of arguments, and then all of them.
pub(super) fn put_counted<A: ToArg>(
    command: Command,
    args: impl IntoIterator<Item = A>,
) -> Command {
    let args: Vec<A> = args.into_iter().collect();
    command.arg(args.len()).args(args)
}

/// All keys, and then the id of each.
pub(super) fn put_streams<K: ToArg, I: ToArg>(
    command: Command,
    streams: impl IntoIterator<Item = (K, I)>,
) -> Command {
    let (keys, ids): (Vec<K>, Vec<I>) = streams.into_iter().unzip();
    command.arg("STREAMS").args(keys).args(ids)
}
