//! The examples of docs/guide/redis.md, run.

use onetrip::redis::{Client, Command, Script, commands::*};
use onetrip::{Error, Outcome};

use crate::support::server;

async fn visit(client: &Client) -> Result<(i64, Option<String>), Error> {
    let visits = client.incr("visits");
    let name = client.get::<Option<String>>("name");
    Ok((visits.await?, name.await?))
}

async fn encoding(client: &Client) -> Result<String, Error> {
    client.cmd("OBJECT ENCODING").arg("name").send().await
}

async fn tag(client: &Client) -> Result<(u64, u64), Error> {
    let pipeline = client.pipeline();
    let added = pipeline.sadd("tags", ["a", "b"]);
    let count = pipeline.scard("tags");
    let replies = pipeline.run().await?;
    Ok((replies.get(added)?, replies.get(count)?))
}

async fn transfer(client: &Client) -> Result<i64, Error> {
    let transfer = client.atomic();
    transfer.decrby("account:1", 5);
    let credited = transfer.incrby("account:2", 5);
    transfer.run().await?.get(credited)
}

async fn fill(client: &Client, count: usize) -> Result<(), Error> {
    let commands = (0..count).map(|n| Command::new("SET").arg(format!("key:{n}")).arg(n));
    let mut replies = client.stream::<(), _>(commands);
    while let Some(reply) = replies.next().await {
        reply?;
    }
    Ok(())
}

async fn add(client: &Client) -> Result<i64, Error> {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    client.script(script.call(["visits"], [7])).await
}

/// The outcomes of an error that a script returns, as the page states them: with EVAL, and with
/// EVAL_RO.
async fn refused_by_a_script(client: &Client) -> Result<[Outcome; 2], Error> {
    let text = "return redis.error_reply('NOSTOCK none left')";
    let none: [&str; 0] = [];
    let written = client.script::<()>(Script::new(text).call(none, none)).await;
    let read = client.cmd("EVAL_RO").arg(text).arg(0).send::<()>().await;
    Ok([written.unwrap_err().outcome(), read.unwrap_err().outcome()])
}

async fn all(url: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;
    assert_eq!(visit(&client).await?, (1, None));
    client.set("name", "ada").await?;
    assert_eq!(encoding(&client).await?, "embstr");
    assert_eq!(tag(&client).await?, (2, 2));
    assert_eq!(transfer(&client).await?, 5);
    fill(&client, 1_000).await?;
    assert_eq!(add(&client).await?, 8);
    assert_eq!(refused_by_a_script(&client).await?, [Outcome::Unknown, Outcome::Rejected]);
    Ok(())
}

#[tokio::test]
async fn the_examples_run() {
    let Some(server) = server(Default::default()) else { return };
    all(&server.url()).await.unwrap();
}
