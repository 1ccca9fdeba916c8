//! The three clients, each in its best documented mode, behind one trait.

use anyhow::{Context, Result};
use bytes::Bytes;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::Builder;
use fred::types::config::{Config, TcpConfig};
use onetrip::redis::Client;
use onetrip::redis::commands::*;
use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::io::tcp::TcpSettings;
use redis::{AsyncCommands, AsyncConnectionConfig, IntoConnectionInfo, ProtocolVersion};

use super::load::checksum;

/// A client with one connection, on which the commands of all clones are pipelined.
pub trait Commands: Clone + Send + Sync + 'static {
    /// Reads a value, and returns its checksum.
    fn get(&mut self, key: &'static str) -> impl Future<Output = Result<u64>> + Send;

    fn set(
        &mut self,
        key: &'static str,
        value: &'static Bytes,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// onetrip with its defaults.
#[derive(Clone)]
pub struct Ours(pub Client);

impl Ours {
    pub async fn connect(url: &str) -> Result<Ours> {
        Ok(Ours(Client::connect(url).await.context("onetrip cannot connect")?))
    }
}

impl Commands for Ours {
    async fn get(&mut self, key: &'static str) -> Result<u64> {
        let value = self.0.get::<Bytes>(key).await?;
        Ok(checksum(&value))
    }

    async fn set(&mut self, key: &'static str, value: &'static Bytes) -> Result<()> {
        Ok(self.0.set(key, value).await?)
    }
}

/// redis-rs: its multiplexed connection, without Nagle's delay and without a timer for each reply, as
/// ours has none.
#[derive(Clone)]
pub struct RedisRs(MultiplexedConnection);

/// The settings that its documentation proposes for many callers, or its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    Default,
    Large,
}

/// What `set_pipeline_buffer_size` (50) and `set_write_backpressure_boundary` (8 KiB) become.
const PIPELINE_BUFFER: usize = 1024;
const WRITE_BOUNDARY: usize = 64 << 10;

impl Buffers {
    pub const ALL: [Buffers; 2] = [Buffers::Default, Buffers::Large];

    pub fn name(self) -> &'static str {
        match self {
            Buffers::Default => "default buffers",
            Buffers::Large => "pipeline buffer 1,024, write boundary 64 KiB",
        }
    }

    fn config(self) -> AsyncConnectionConfig {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        match self {
            Buffers::Default => config,
            Buffers::Large => config
                .set_pipeline_buffer_size(PIPELINE_BUFFER)
                .set_write_backpressure_boundary(WRITE_BOUNDARY),
        }
    }
}

impl RedisRs {
    pub async fn connect(url: &str, buffers: Buffers) -> Result<RedisRs> {
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = redis::Client::open(url.into_connection_info()?.set_tcp_settings(tcp))?;
        let config = buffers.config();
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Ok(RedisRs(connection.await.context("redis-rs cannot connect")?))
    }
}

impl RedisRs {
    /// With client-side caching, which needs RESP3.
    pub async fn cached(url: &str, cache: CacheConfig) -> Result<RedisRs> {
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = url.into_connection_info()?.set_tcp_settings(tcp);
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = redis::Client::open(info.set_redis_settings(settings))?;
        let config = Buffers::Default.config().set_cache_config(cache);
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        Ok(RedisRs(connection.await.context("redis-rs cannot connect")?))
    }
}

impl Commands for RedisRs {
    async fn get(&mut self, key: &'static str) -> Result<u64> {
        // Its own buffer, moved: cheaper than any other type.
        let value: Vec<u8> = self.0.get(key).await?;
        Ok(checksum(&value))
    }

    async fn set(&mut self, key: &'static str, value: &'static Bytes) -> Result<()> {
        Ok(self.0.set(key, &value[..]).await?)
    }
}

/// fred, which pipelines by default; without Nagle's delay, as its documentation has it.
#[derive(Clone)]
pub struct Fred(fred::clients::Client);

impl Fred {
    pub async fn connect(url: &str) -> Result<Fred> {
        let mut builder = Builder::from_config(Config::from_url(url)?);
        builder.with_connection_config(|config| {
            config.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
        });
        let client = builder.build()?;
        client.init().await.context("fred cannot connect")?;
        Ok(Fred(client))
    }
}

impl Commands for Fred {
    async fn get(&mut self, key: &'static str) -> Result<u64> {
        let value: Bytes = self.0.get(key).await?;
        Ok(checksum(&value))
    }

    async fn set(&mut self, key: &'static str, value: &'static Bytes) -> Result<()> {
        Ok(self.0.set(key, value.clone(), None, None, false).await?)
    }
}
