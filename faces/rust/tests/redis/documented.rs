//! The examples of README.md and docs/guide/redis.md, run.

use onetrip::redis::{Client, Command, Script, commands::*};

use crate::support::server;

async fn readme(url: &str) -> Result<(), onetrip::Error> {
    let client = Client::connect(url).await?;
    let (visits, name) = (client.incr("visits"), client.get::<Option<String>>("name"));
    let (visits, name) = (visits.await?, name.await?);
    assert_eq!((visits, name), (1, None));

    let transfer = client.atomic();
    transfer.decrby("account:1", 5);
    let credited = transfer.incrby("account:2", 5);
    let credited = transfer.run().await?.get(credited)?;
    assert_eq!(credited, 5);

    let double = Script::new("return redis.call('SET', KEYS[1], 2 * redis.call('GET', KEYS[1]))");
    client.script::<()>(double.call(["visits"], [0; 0])).await?;

    let commands = (0..1_000).map(|n| Command::new("SET").arg(format!("key:{n}")).arg(n));
    let mut replies = client.stream::<(), _>(commands);
    while let Some(reply) = replies.next().await {
        reply?;
    }
    assert_eq!(client.get::<i64>("visits").await?, 2);
    Ok(())
}

async fn guide(url: &str) -> Result<(), onetrip::Error> {
    let client = Client::connect(url).await?;
    client.set("name", "ada").await?;
    let encoding: String = client.cmd("OBJECT ENCODING").arg("name").send().await?;
    assert_eq!(encoding, "embstr");

    let pipeline = client.pipeline();
    let added = pipeline.sadd("tags", ["a", "b"]);
    let count = pipeline.scard("tags");
    let replies = pipeline.run().await?;
    let (added, count) = (replies.get(added)?, replies.get(count)?);
    assert_eq!((added, count), (2, 2));

    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let total: i64 = client.script(script.call(["visits"], [7])).await?;
    assert_eq!(total, 9);
    Ok(())
}

#[tokio::test]
async fn the_examples_run() {
    let Some(server) = server(Default::default()) else { return };
    readme(&server.url()).await.unwrap();
    guide(&server.url()).await.unwrap();
}
