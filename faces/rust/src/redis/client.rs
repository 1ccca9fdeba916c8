//! A client: one shared connection, and others that are lent.

mod checks;
mod cmd;
mod inner;

use std::borrow::Cow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_redis::client::repeat::Repeats;
use onetrip_redis::client::sentinel::Role;
use onetrip_redis::{Command, Place, Spec, ToArg};

pub(crate) use self::checks::{check, check_length, misplaced, name_of};
pub use self::cmd::Cmd;
pub(crate) use self::inner::Inner;
#[cfg(feature = "metrics")]
use self::inner::publish_now_and_then;
use super::FromReply;
use super::cached::{Cached, Lookup};
use super::call::{Call, Item};
use super::cluster::Cluster;
use super::commands_from::{FromIter, FromStream};
use super::config::Config;
use super::sentinel::Sentinel;

use super::link::Shared;
use super::node::{Lease, Node, Sent};
use super::pipeline::{Atomic, On, Pipeline};
use super::reply::{Again, Reply, Unsent};
use super::script::ScriptCall;
use super::sends::Sends;
use super::session::Session;
use super::stream::CommandStream;
use super::subscription::Subscription;
use crate::Error;
use crate::metrics::Metrics;

/// A client of Redis or Valkey. Its clones share one connection, on which the commands of all
/// callers are pipelined automatically.
///
/// A call *sends when it is made*, not when it is first polled; awaiting the returned [`Reply`]
/// yields the result. So calls made before the first is awaited share a trip:
///
/// ```no_run
/// use onetrip::redis::{Client, commands::*};
///
/// # async fn f() -> Result<(), onetrip::Error> {
/// let client = Client::connect("redis://localhost").await?;
/// let visits = client.incr("visits");
/// let name = client.get::<Option<String>>("name");
/// let (visits, name) = (visits.await?, name.await?); // One trip for both.
/// # Ok(()) }
/// ```
///
/// The commands of one client run in the order in which the calls were made.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    timeout: Option<Duration>,
    repeats: bool,
    alone: bool,
    /// Whether it gets replies from the cache, if there is one.
    caches: bool,
}

impl Client {
    /// Connects as a URL says; see [`Config`].
    ///
    /// # Errors
    /// The URL can't be read, no server answered, or it refused the login. The password is never
    /// shown.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::connect_with(&url.parse().map_err(Error::config)?).await
    }

    /// Connects as the configuration says.
    ///
    /// # Errors
    /// As [`connect`](Client::connect), or settings contradict each other. Dropping the future gives
    /// the connection up.
    pub async fn connect_with(config: &Config) -> Result<Client, Error> {
        config.check().map_err(Error::config)?;
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)
            .map_err(|error| Error::misuse("random", format!("no random numbers: {error}")))?;
        let config = Arc::new(config.clone());
        let seed = u64::from_le_bytes(seed);
        let (limits, in_cluster) = (config.limits.clone(), config.is_cluster);
        let cached = Cached::new(config.cache_bytes);
        let context =
            Shared::new(limits.clone(), in_cluster, Arc::default(), Arc::default(), cached);
        let mut sentinel = Sentinel::start(&config, &context, seed)?;
        let node = Arc::new(Node::new(&config, &sentinel.master, seed, context));
        let home: Weak<Node> = Arc::downgrade(&node);
        node.context.set_home(home);
        node.shared.open_first().await?;
        let replica = sentinel.replica.as_ref().map(|target| {
            let totals = node.context.totals.clone();
            let context = Shared::new(limits, false, totals, Arc::default(), None);
            Arc::new(Node::new(&config, target, seed.rotate_left(8), context))
        });
        if let Some(replica) = &replica {
            replica.shared.watch();
        }
        let cluster = match config.is_cluster {
            true => Some(Cluster::open(&config, &node, seed).await?),
            false => None,
        };
        let inner = Arc::new(Inner {
            config,
            node,
            cluster,
            discovery: sentinel.discovery.take(),
            replica,
            #[cfg(feature = "metrics")]
            published: std::sync::Mutex::default(),
        });
        #[cfg(feature = "metrics")]
        tokio::spawn(publish_now_and_then(Arc::downgrade(&inner)));
        let timeout = inner.config.limits.request_timeout;
        Ok(Client { inner, timeout, repeats: false, alone: false, caches: true })
    }

    /// Any command, by its name: `client.cmd("OBJECT ENCODING").arg("key").send::<String>()`.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Client> {
        Cmd { sends: self, command: Command::new(name) }
    }

    /// The same client with another deadline for each command: from its call to its reply,
    /// including the time in the queue and for a connection. If it passes, the command fails with
    /// the kind `Timeout`: with `NotSent` if the command was still waiting, else with `Unknown`,
    /// since it may have run.
    #[must_use]
    pub fn timeout(&self, timeout: Duration) -> Client {
        Client { timeout: Some(timeout), ..self.clone() }
    }

    /// The same client for commands that the caller declares repeatable, since running them twice
    /// does no harm: they are sent again when their connection is lost, up to
    /// [`attempts_max`](super::Limits::attempts_max) times in all.
    #[must_use]
    pub fn repeatable(&self) -> Client {
        Client { repeats: true, ..self.clone() }
    }

    /// The same client for commands that take long or whose replies are large. Each goes to a
    /// connection of its own, as a blocking command does, so no other command waits for its reply
    /// to arrive. That helps with a reply of many megabytes; but while a server runs one command it
    /// runs no other, on any connection. These commands have no order among the others, and are not
    /// sent again. Pipelines are sent as before.
    #[must_use]
    pub fn alone(&self) -> Client {
        Client { alone: true, ..self.clone() }
    }

    /// The same client for commands whose replies are to come from the server, although the client
    /// has a [`cache`](Config::cache). Their replies are not kept either.
    #[must_use]
    pub fn uncached(&self) -> Client {
        Client { caches: false, ..self.clone() }
    }

    /// Makes a list of commands that are sent together; see [`Pipeline`].
    pub fn pipeline(&self) -> Pipeline<'static> {
        Pipeline::new(self.on(None))
    }

    /// Makes a list of commands that run all or not at all, with no other caller's commands between
    /// them; see [`Atomic`].
    pub fn atomic(&self) -> Atomic<'static> {
        Atomic::new(self.on(None))
    }

    /// Takes a connection of the caller's own: for WATCH, and for commands that change the state of
    /// a connection. An idle one is lent; otherwise one is opened, or the caller waits in line.
    ///
    /// # Errors
    /// No connection became free within `wait_timeout`, or none could be opened. Then nothing was
    /// sent.
    ///
    /// Dropping the future leaves the line.
    pub async fn session(&self) -> Result<Session, Error> {
        match &self.inner.cluster {
            None => self.session_on(&self.inner.node).await,
            Some(_) => Err(Error::misuse(
                "session_without_key",
                "a session is a connection to one node of the cluster: name a key that it is for \
                 (session_for)",
            )),
        }
    }

    /// The same for commands on this key: in a cluster, a connection to the node that has it.
    ///
    /// # Errors
    /// As [`session`](Self::session); or no node has the key's hash slot at the moment.
    pub async fn session_for(&self, key: impl ToArg) -> Result<Session, Error> {
        match &self.inner.cluster {
            None => self.session_on(&self.inner.node).await,
            Some(cluster) => {
                let key = Command::new("").arg(key);
                let node = cluster.node_of_key(key.iter().next().unwrap_or_default())?;
                self.session_on(&node).await
            }
        }
    }

    async fn session_on(&self, node: &Node) -> Result<Session, Error> {
        let waiting = node.wait_for_own(self.deadline());
        let lease = std::future::poll_fn(|cx| waiting.poll(cx)).await?;
        Ok(Session::new(self.clone(), lease))
    }

    /// Whether its commands may run twice.
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Sends any number of commands on a connection of its own, as many in flight as a window
    /// takes, and returns a stream of their replies; see [`CommandStream`].
    ///
    /// ```no_run
    /// # use onetrip::redis::{Client, Command};
    /// # async fn f(client: &Client) -> Result<(), onetrip::Error> {
    /// let commands = (0..10_000_000).map(|n| Command::new("SET").arg(format!("key:{n}")).arg(n));
    /// let mut replies = client.stream::<(), _>(commands);
    /// while let Some(reply) = replies.next().await {
    ///     reply?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream<T, I>(&self, commands: I) -> CommandStream<T, FromIter<I::IntoIter>>
    where
        T: FromReply,
        I: IntoIterator<Item = Command>,
    {
        CommandStream::new(self.clone(), FromIter(commands.into_iter()))
    }

    /// The same for commands that come as a stream: those that have come are sent, and the next are
    /// waited for.
    pub fn stream_of<T, S>(&self, commands: S) -> CommandStream<T, FromStream<S>>
    where
        T: FromReply,
        S: futures_core::Stream<Item = Command> + Unpin,
    {
        CommandStream::new(self.clone(), FromStream(commands))
    }

    /// Subscribes to channels, and returns a [`Subscription`]. On RESP3 it shares the connection
    /// with the commands; on RESP2 another one is opened.
    ///
    /// # Errors
    /// As [`Subscription::subscribe`].
    pub async fn subscribe<C>(&self, channels: C) -> Result<Subscription, Error>
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        let mut subscription = self.subscription();
        subscription.subscribe(channels).await?;
        Ok(subscription)
    }

    /// The same for channels that match patterns.
    ///
    /// # Errors
    /// As [`Subscription::subscribe`].
    pub async fn psubscribe<C>(&self, patterns: C) -> Result<Subscription, Error>
    where
        C: IntoIterator,
        C::Item: ToArg,
    {
        let mut subscription = self.subscription();
        subscription.psubscribe(patterns).await?;
        Ok(subscription)
    }

    /// Returns a [`Subscription`] without channels.
    pub fn subscription(&self) -> Subscription {
        Subscription::new(&self.inner)
    }

    /// Ends the client: commands that were submitted are still answered, also those that wait in
    /// line for a connection. Later calls, also those of clones, fail with `NotSent`. Dropping the
    /// last clone does the same.
    pub fn close(&self) {
        self.inner.close();
    }

    /// The counters of this client now.
    pub fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }

    /// Publishes the numbers through the facade of the `metrics` crate now, beside the publication
    /// every five seconds: before they are scraped, or before the program ends.
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self) {
        self.inner.publish(false);
    }

    /// Whether the shared connection has more to do than its window takes.
    pub fn is_full(&self) -> bool {
        self.inner.node.shared.current().is_some_and(|link| link.lock().is_full())
    }

    /// Resolves when the shared connection is not full any more: nothing waits, and the window is
    /// below three quarters. Cancel safe.
    pub async fn drained(&self) {
        let Some(link) = self.inner.node.shared.current() else { return };
        std::future::poll_fn(|cx| {
            let mut core = link.lock();
            if !core.is_full() {
                return std::task::Poll::Ready(());
            }
            core.on_drained(cx.waker());
            std::task::Poll::Pending
        })
        .await;
    }

    /// How a pipeline is sent: on the connection of a session, if there is one.
    pub(crate) fn on<'a>(&self, lease: Option<&'a Lease>) -> On<'a> {
        let Client { inner, timeout, repeats, .. } = self.clone();
        On { inner, timeout, repeats, lease }
    }

    /// The deadline of a command that is sent now.
    pub(crate) fn deadline(&self) -> Time {
        self.inner.node.context.deadline(self.timeout)
    }

    /// Calls a [`Script`](super::Script).
    pub fn script<T: FromReply>(&self, call: ScriptCall) -> Reply<T> {
        match call.into_item(&self.inner.config) {
            Ok(item) if self.alone => self.send_own(item, Cow::Borrowed("EVAL")),
            Ok(item) => self.send_item(item, Cow::Borrowed("EVAL"), None, Lookup::Nothing),
            Err(error) => Reply::refused(error, Cow::Borrowed("EVAL")),
        }
    }

    pub(crate) fn send_item<T: FromReply>(
        &self,
        item: Item,
        name: Cow<'static, str>,
        spec: Option<&Spec>,
        found: Lookup,
    ) -> Reply<T> {
        let config = &self.inner.config;
        let (deadline, leaves) = (self.deadline(), item.leaves);
        let (all, reads) = (self.repeats, config.repeat_reads);
        let attempts_max = config.limits.attempts_max;
        let repeats = Repeats { all, reads, attempts_max }.has(spec);
        if let Some(cluster) = &self.inner.cluster {
            return Reply::new(cluster.send(item, deadline, repeats), name, leaves, None);
        }
        let mut call = Call::one(item, deadline);
        let role = match &found {
            // Its connection tracks keys.
            Lookup::Fetch(_) | Lookup::Joined(_) => Role::Master,
            Lookup::Hit(_) | Lookup::Nothing => self.inner.role_for(spec),
        };
        let again = match repeats {
            true => Some(Again::new(&self.inner, &call, role, attempts_max)),
            false if self.inner.discovery.is_some() => {
                Some(Again::unsent(&self.inner, &call, role))
            }
            false => None,
        };
        match found {
            Lookup::Joined(joined) => {
                return Reply::joined(joined, Unsent::new(&self.inner, call), name, again);
            }
            Lookup::Fetch(fetch) => call.fetch = Some(fetch),
            Lookup::Hit(_) | Lookup::Nothing => {}
        }
        let fetch = call.fetch;
        let sent = self.inner.send_to(role, call);
        if let (Some(fetch), Sent::Refused(_) | Sent::Later(_)) = (fetch, &sent) {
            // It is not known when it is answered, if ever, so nobody waits for that.
            self.inner.not_fetched(fetch);
        }
        Reply::new(sent, name, leaves, again)
    }

    /// What the cache has of a command.
    fn look_up(&self, command: &Command, spec: Option<&'static Spec>) -> Lookup {
        match &self.inner.node.context.cached {
            Some(cached) if self.caches && !self.alone => cached.look_up(command, spec),
            _ => Lookup::Nothing,
        }
    }

    /// Sends a command on a connection of its own.
    fn send_own<T: FromReply>(&self, item: Item, name: Cow<'static, str>) -> Reply<T> {
        let deadline = self.deadline();
        let Some(cluster) = &self.inner.cluster else {
            let call = Call::one(item, deadline);
            return Reply::borrowing(self.inner.node.send_own(call), name, None);
        };
        match cluster.send_own(item, deadline) {
            Ok((cell, roaming)) => Reply::borrowing(cell, name, Some(roaming)),
            Err(error) => Reply::refused(error, name),
        }
    }
}

impl Sends for Client {
    type Answer<T: FromReply> = Reply<T>;

    fn send<T: FromReply>(&self, command: Command) -> Reply<T> {
        let spec = Spec::of(&command);
        let name = name_of(spec, &command);
        if let Err(error) = check(&command, &self.inner.config) {
            return Reply::refused(error, name);
        }
        let place = spec.map_or(Place::Shared, |spec| spec.place(&command));
        let found = match place {
            Place::Shared => self.look_up(&command, spec),
            _ => Lookup::Nothing,
        };
        if let Lookup::Hit(reply) = found {
            return Reply::cached(reply, name);
        }
        let item = Item::new(command, spec);
        match place {
            Place::Shared if !self.alone => self.send_item(item, name, spec, found),
            Place::Shared | Place::Own => self.send_own(item, name),
            Place::Session(advice) | Place::Refused(advice) => {
                Reply::refused(misplaced(&name, advice), name)
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.inner.config.redacted_url())
    }
}
