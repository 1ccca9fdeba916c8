//! The tasks of the load.

use std::sync::Arc;

use bytes::Bytes;
use onetrip::redis::commands::*;
use onetrip::redis::{Client, FromReply, Reply, Script, Session};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::keys::Keys;
use super::way::{PINGS, Update, Verb, Way};
use crate::error::{Error, Result};
use crate::load::{Operation, Tally};

/// One task of the load.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    way: Way,
    client: Client,
    /// For WATCH. Clones share it: as long as one is kept, the end of the session is not measured.
    session: Option<Arc<Session>>,
    keys: Arc<Keys>,
    script: Script,
    random: Xoshiro256PlusPlus,
}

impl Task {
    /// The task of this way, over this client.
    pub(crate) async fn new(
        way: Way,
        client: &Client,
        keys: &Arc<Keys>,
        seed: u64,
    ) -> Result<Task> {
        let session = match way.has_session() {
            true => Some(Arc::new(client.session().await?)),
            false => None,
        };
        let (client, keys, script) = (client.clone(), keys.clone(), Script::new(SCRIPT));
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Ok(Task { way, client, session, keys, script, random })
    }
}

impl Operation for Task {
    async fn run(&mut self, tally: &mut Tally) -> Result<()> {
        tally.operations(self.way.operations_per_call());
        match self.way {
            Way::Command(verb) => self.at_once(verb, 1).await,
            Way::Depth(verb, depth) => self.at_once(verb, depth).await,
            Way::Pings { is_pipeline: false } => Ok(self.client.ping().await?),
            Way::Pings { is_pipeline: true } => self.pings().await,
            Way::Update(Update::GetSet) => self.get_and_set().await,
            Way::Update(Update::Watch) => self.watch().await,
            Way::Update(Update::Script) => self.call().await,
            Way::Update(Update::Pipelines) => self.get_and_set_all().await,
            Way::Update(Update::Scripts) => self.call_all().await,
        }
    }
}

/// Commands.
impl Task {
    async fn at_once(&mut self, verb: Verb, depth: u32) -> Result<()> {
        let (client, keys, random) = (&self.client, &self.keys, &mut self.random);
        let mut key = || &keys.values[random.random_range(0..keys.values.len())];
        match verb {
            Verb::Ping => all(depth, || client.ping()).await,
            Verb::Get => all(depth, || client.get::<Bytes>(key())).await,
            Verb::Set => all(depth, || client.set(key(), Keys::value())).await,
            Verb::Incr => all(depth, || client.incr(&keys.counter)).await,
        }
    }

    async fn pings(&self) -> Result<()> {
        let pipeline = self.client.pipeline();
        let positions: Vec<_> = (0..PINGS).map(|_| pipeline.ping()).collect();
        let replies = pipeline.run().await?;
        positions.into_iter().try_for_each(|position| Ok(replies.get(position)?))
    }
}

/// Makes all calls before it awaits the first.
async fn all<T: FromReply>(depth: u32, mut call: impl FnMut() -> Reply<T>) -> Result<()> {
    if depth == 1 {
        std::hint::black_box(call().await?);
        return Ok(());
    }
    let replies: Vec<Reply<T>> = (0..depth).map(|_| call()).collect();
    for reply in replies {
        std::hint::black_box(reply.await?);
    }
    Ok(())
}

/// Reads, changes and writes a value.
const SCRIPT: &str = "local changed = (redis.call('GET', KEYS[1]) * 3 + 1) % 1000003 \
     redis.call('SET', KEYS[1], changed) \
     return changed";

/// The same change in the client.
fn changed(value: i64) -> i64 {
    (value * 3 + 1) % 1_000_003
}

/// Updates.
impl Task {
    fn number(&mut self) -> String {
        self.keys.numbers[self.random.random_range(0..self.keys.numbers.len())].clone()
    }

    async fn get_and_set(&mut self) -> Result<()> {
        let key = self.number();
        let value: i64 = self.client.get(&key).await?;
        Ok(self.client.set(&key, changed(value)).await?)
    }

    async fn watch(&mut self) -> Result<()> {
        let key = self.number();
        let session = self.session.as_ref();
        let session = session.ok_or_else(|| Error::new("this way needs a session and has none"))?;
        let (watch, value) = (session.watch([&key]), session.get::<i64>(&key));
        watch.await?;
        let value = value.await?;
        let change = session.atomic();
        let set = change.set(&key, changed(value));
        Ok(change.run().await?.get(set)?)
    }

    async fn call(&mut self) -> Result<()> {
        let key = self.number();
        let call = self.script.call([key], NOTHING);
        self.client.script::<i64>(call).await?;
        Ok(())
    }

    async fn get_and_set_all(&self) -> Result<()> {
        let keys = &self.keys.numbers;
        let pipeline = self.client.pipeline();
        let gets: Vec<_> = keys.iter().map(|key| pipeline.get::<i64>(key)).collect();
        let values = pipeline.run().await?;
        let pipeline = self.client.pipeline();
        let set = |(key, get)| Ok(pipeline.set(key, changed(values.get(get)?)));
        let sets: Vec<_> = keys.iter().zip(gets).map(set).collect::<Result<_>>()?;
        let done = pipeline.run().await?;
        sets.into_iter().try_for_each(|set| Ok(done.get(set)?))
    }

    async fn call_all(&self) -> Result<()> {
        let pipeline = self.client.pipeline();
        let call = |key| pipeline.script::<i64>(self.script.call([key], NOTHING));
        let calls: Vec<_> = self.keys.numbers.iter().map(call).collect();
        let replies = pipeline.run().await?;
        calls.into_iter().try_for_each(|call| replies.get(call).map(drop).map_err(Into::into))
    }
}

/// No arguments.
const NOTHING: [&str; 0] = [];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use onetrip_lab::redis::shared;

    use super::*;

    /// What becomes of the first number, and of the last, of which only lists of all are sure to
    /// touch both.
    async fn after(update: Update) -> (i64, i64) {
        let client = Client::connect(&shared().unwrap().url()).await.unwrap();
        let mut keys = Keys::new();
        if matches!(update, Update::GetSet | Update::Watch | Update::Script) {
            keys.keep_numbers(1);
        }
        let keys = Arc::new(keys);
        keys.fill(&client).await.unwrap();
        let mut task = Task::new(Way::Update(update), &client, &keys, 1).await.unwrap();
        let mut tally = Tally::default();
        task.run(&mut tally).await.unwrap();
        task.run(&mut tally).await.unwrap();
        let (first, last) = (keys.numbers.first().unwrap(), keys.numbers.last().unwrap());
        let values = (client.get(first).await.unwrap(), client.get(last).await.unwrap());
        keys.remove(&client).await.unwrap();
        values
    }

    #[tokio::test]
    async fn every_way_to_update_a_value_does_the_same() {
        if shared().is_none() {
            return;
        }
        for update in Update::ALL {
            let twice = changed(changed(1));
            assert_eq!(after(update).await, (twice, twice), "{update:?}");
        }
    }
}
