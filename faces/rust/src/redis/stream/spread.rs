//! A stream in a cluster: each command goes to the node that has its keys.

use std::task::{Context, Poll};

use bytes::Bytes;
use onetrip_redis::Spec;

use super::{CommandStream, Stage};
use crate::Error;
use crate::redis::call::Item;
use crate::redis::commands_from::CommandSource;
use crate::redis::pipeline::checked;
use crate::redis::sent::Pending;

impl<T, I: CommandSource> CommandStream<T, I> {
    /// Sends as many commands as the window takes, each to the node of its keys.
    fn fill_cluster(&mut self, cx: &mut Context<'_>) {
        let Some(cluster) = self.client.inner.cluster.clone() else { return };
        while !self.is_over
            && (self.in_flight == 0
                || self.in_flight < self.window && self.in_flight_bytes < self.window_bytes)
        {
            let command = match self.commands.poll_command(cx) {
                Poll::Ready(Some(command)) => command,
                Poll::Ready(None) => {
                    self.is_over = true;
                    break;
                }
                Poll::Pending => break,
            };
            let spec = Spec::of(&command);
            if let Err(error) = self.fits(&command, spec) {
                (self.is_over, self.fault) = (true, Some(error));
                break;
            }
            let len = command.len_max();
            let item = Item::new(command, spec);
            let leaves = item.leaves;
            let sent = cluster.send(item, self.client.deadline(), self.client.repeats());
            let Stage::Spread(spread) = &mut self.stage else { return };
            spread.push_back((Pending::of(sent), len, leaves));
            self.sent += 1;
            self.in_flight += 1;
            self.in_flight_bytes += len;
        }
    }

    pub(super) fn poll_cluster(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        self.fill_cluster(cx);
        let Stage::Spread(spread) = &mut self.stage else { return Poll::Ready(None) };
        let Some((pending, len, leaves)) = spread.front_mut() else {
            return self.poll_over();
        };
        let (block, result) = std::task::ready!(pending.poll(cx));
        let (len, leaves) = (*len, *leaves);
        spread.pop_front();
        self.in_flight -= 1;
        self.in_flight_bytes -= len;
        self.answered += 1;
        Poll::Ready(Some(result.and_then(|()| checked(block, leaves, true))))
    }
}
