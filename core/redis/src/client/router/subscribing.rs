//! Subscribes to sharded channels, and again wherever that ended; see [`sharded`](super::sharded).

use std::time::Duration;

use bytes::Bytes;
use onetrip_engine::{Retry, RetryLimits, Time, Token};

use super::failed::Refused;
use super::flight::Flight;
use super::nodes::NodeId;
use super::sharded::{At, Channel, SUBSCRIBES_AGAIN};
use super::{How, Output, Router};
use crate::command::Command;
use crate::slots::slot_of;

impl Router {
    /// Subscribes to a sharded channel, until it is [unsubscribed](Self::unsubscribe).
    /// [`Output::Send`] has an SSUBSCRIBE of this one channel, whose confirmation is its reply;
    /// [`Output::Finish`] ends the call. A failed call does not unsubscribe: the channel may have
    /// other readers.
    pub fn subscribe(
        &mut self,
        now: Time,
        token: Token,
        name: &[u8],
        deadline: Option<Time>,
    ) -> Result<(), Refused> {
        if let Err(at) = self.sharded.place(name) {
            let channel = Channel {
                name: Bytes::copy_from_slice(name),
                at: None,
                asked: 0,
                was_lost: false,
                pause: None,
                until: Time::NEVER,
                retry: None,
            };
            self.sharded.channels.insert(at, channel);
        }
        self.ask_for(now, token, name, deadline)
    }

    /// Nobody reads a sharded channel any more.
    pub fn unsubscribe(&mut self, name: &[u8]) {
        let Ok(at) = self.sharded.place(name) else { return };
        let Channel { at, name, .. } = self.sharded.channels.remove(at);
        if let Some(At { node, .. }) = at {
            self.outputs.push_back(Output::Unsubscribe { node, channel: name });
        }
    }

    /// A node has a new connection for the commands of all callers. A host reports it before
    /// anything is sent on that connection.
    pub fn handle_connected(&mut self, now: Time, node: NodeId) {
        let connection = self.nodes.connected(node);
        self.pump_all(now);
        self.lose_where(now, |at| at.node == node && at.connection < connection);
    }

    /// The connection of a node for the commands of all callers was lost, and with it what was
    /// subscribed there.
    pub fn handle_disconnected(&mut self, now: Time, node: NodeId) {
        self.nodes.disconnected(node);
        self.lose_where(now, |at| at.node == node);
    }

    fn lose_where(&mut self, now: Time, is_lost: impl Fn(At) -> bool) {
        for channel in &mut self.sharded.channels {
            if channel.at.is_some_and(&is_lost) {
                channel.lose();
                self.sharded.due = Time::ZERO;
                // Another node may have taken over.
                self.refresh.want(now);
            }
        }
        self.decide(now);
    }

    /// A node has ended the subscription of a sharded channel unasked (`sunsubscribe`): its hash
    /// slot has moved.
    pub fn handle_unsubscribed(&mut self, now: Time, node: NodeId, name: &[u8]) {
        if let Some(channel) = self.sharded.get(name)
            && channel.at.is_some_and(|at| at.node == node)
        {
            channel.lose();
            self.sharded.due = Time::ZERO;
            self.refresh.want(now);
        }
        self.decide(now);
    }

    fn ask_for(
        &mut self,
        now: Time,
        token: Token,
        name: &[u8],
        deadline: Option<Time>,
    ) -> Result<(), Refused> {
        let slot = Some(slot_of(name));
        let how = How { slot, repeatable: true, deadline, ..How::default() };
        if let Some(channel) = self.sharded.get(name) {
            channel.asked += 1;
        }
        let asked = self.submit(now, token, Command::new("SSUBSCRIBE").arg(name), how);
        if asked.is_err()
            && let Some(channel) = self.sharded.get(name)
        {
            channel.asked -= 1;
        }
        asked
    }

    /// A flight with a subscription has ended, with a confirmation or without.
    pub(super) fn subscribed(&mut self, flight: &Flight, is_confirmed: bool) {
        let Some(name) = flight.command.iter().nth(1) else { return };
        let at = flight.last.map(|sent| At { node: sent.node, connection: sent.connection });
        let at = at.filter(|_| is_confirmed);
        let Some(channel) = self.sharded.get(name) else {
            // Its last reader left meanwhile.
            if let Some(At { node, .. }) = at {
                let channel = Bytes::copy_from_slice(name);
                self.outputs.push_back(Output::Unsubscribe { node, channel });
            }
            return;
        };
        channel.asked = channel.asked.saturating_sub(1);
        let Some(at) = at else {
            if channel.asked == 0 && channel.at.is_none() {
                self.seed = self.seed.wrapping_add(1);
                let limits = RetryLimits { attempts_max: u32::MAX, ..self.limits.retry.clone() };
                let new = || Box::new(Retry::new(limits, self.seed));
                channel.pause = channel.retry.get_or_insert_with(new).failed();
                self.sharded.due = Time::ZERO;
            }
            return;
        };
        let earlier = channel.at.replace(at).filter(|earlier| earlier.node != at.node);
        (channel.retry, channel.until) = (None, Time::NEVER);
        let channel_name = channel.name.clone();
        if std::mem::take(&mut channel.was_lost) {
            self.outputs.push_back(Output::Resubscribed { channel: channel_name.clone() });
        }
        if at.connection < self.nodes.connection(at.node) {
            // The connection was lost meanwhile.
            channel.lose();
            self.sharded.due = Time::ZERO;
        }
        if let Some(At { node, .. }) = earlier {
            self.outputs.push_back(Output::Unsubscribe { node, channel: channel_name });
        }
    }

    /// The topology has changed: channels go to the nodes that have their slots now.
    pub(super) fn follow_channels(&mut self) {
        for channel in &mut self.sharded.channels {
            let Some(At { node, .. }) = channel.at else { continue };
            if self.lanes.route(slot_of(&channel.name)).is_some_and(|other| other != node) {
                channel.lose();
                self.sharded.due = Time::ZERO;
                // A node that lives and has become a replica would deliver, too.
                let channel = channel.name.clone();
                self.outputs.push_back(Output::Unsubscribe { node, channel });
            }
        }
    }

    /// Subscribes to the channels that are subscribed nowhere.
    pub(super) fn subscribe_again(&mut self, now: Time) {
        if now < self.sharded.due {
            return;
        }
        self.sharded.due = Time::NEVER;
        let (mut again, mut next) = (Vec::new(), Time::NEVER);
        for channel in &mut self.sharded.channels {
            if channel.at.is_some() || channel.asked > 0 {
                continue;
            }
            if let Some(pause) = channel.pause.take() {
                channel.until = now.after(pause);
            }
            match channel.until <= now {
                true => again.push(channel.name.clone()),
                false => next = next.min(channel.until),
            }
        }
        self.sharded.due = self.sharded.due.min(next);
        for name in again {
            if self.ask_for(now, SUBSCRIBES_AGAIN, &name, None).is_err() {
                // Too many commands wait: it is tried again after a pause.
                self.sharded.due = self.sharded.due.min(now.after(FULL_PAUSE));
            }
        }
    }
}

/// The pause before another attempt where too many commands wait.
const FULL_PAUSE: Duration = Duration::from_millis(100);
