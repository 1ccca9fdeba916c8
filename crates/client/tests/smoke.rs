#![allow(clippy::unwrap_used, missing_docs)]
use onetrip::Client;
use onetrip_lab::postgres::shared;

#[tokio::test]
async fn smoke() {
    let url = shared().url();
    let client = Client::connect(&url).await.unwrap();
    let row = client.query_one("select $1 + 1, $2 || 'x', null::int", &[&41, &"a"]).await.unwrap();
    assert_eq!(row.get::<i32>(0), 42);
    assert_eq!(row.get::<&str>(1), "ax");
    assert_eq!(row.get::<Option<i32>>(2), None);
    let replies: Vec<_> = (0..5000).map(|i| client.query_one("select $1", &[&i])).collect();
    for (i, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.await.unwrap().get::<i32>(0), i as i32);
    }
    let e = client.query("select 1/0", &[]).await.unwrap_err();
    println!("{e} {e:?}");
    let e = client.query("begin", &[]).await.unwrap_err();
    println!("{e} {e:?}");
    let mut session = client.session().await.unwrap();
    session
        .batch(
            "create temp table t (id int, v text); insert into t values (1,'x'); select * from t",
        )
        .await
        .unwrap();
    let tx = session.begin().await.unwrap();
    assert_eq!(tx.execute("update t set v = $1 where id = $2", &[&"y", &1]).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let tx = session.begin().await.unwrap();
    tx.execute("update t set v = $1", &[&"z"]).await.unwrap();
    drop(tx);
    assert_eq!(session.query_one("select v from t", &[]).await.unwrap().get::<String>(0), "y");
    let st = session.prepare("select v from t where id = $1").await.unwrap();
    assert_eq!(session.query_one(&st, &[&1]).await.unwrap().get::<String>(0), "y");
    session.batch("discard plans; deallocate all").await.unwrap();
    assert_eq!(session.query_one(&st, &[&1]).await.unwrap().get::<String>(0), "y");
    session.batch("alter table t alter v type varchar(10)").await.unwrap();
    assert_eq!(session.query_one(&st, &[&1]).await.unwrap().get::<String>(0), "y");
    let mut p = client.pipeline();
    let a = p.query_one("select 1", &[]);
    let b = p.query_one("select $1", &[&2]);
    p.finish().await.unwrap();
    assert_eq!(a.await.unwrap().get::<i32>(0) + b.await.unwrap().get::<i32>(0), 3);
    let mut p = client.pipeline();
    let a = p.query_one("select 1", &[]);
    let b = p.query_one("select 1/0", &[]);
    let c = p.query_one("select 3", &[]);
    println!("{}", p.finish().await.unwrap_err());
    println!("{:?}", a.await.unwrap_err());
    println!("{:?}", b.await.unwrap_err());
    println!("{:?}", c.await.unwrap_err());
    // long, awaited as it goes
    let mut p = client.pipeline();
    let mut q = std::collections::VecDeque::new();
    for i in 0..20000 {
        p.ready().await.unwrap();
        q.push_back((i, p.query_one("select $1, repeat('x', 2000)", &[&i])));
        if q.len() > 100 {
            let (i, r) = q.pop_front().unwrap();
            assert_eq!(r.await.unwrap().get::<i32>(0), i);
        }
    }
    p.finish().await.unwrap();
    for (i, r) in q {
        assert_eq!(r.await.unwrap().get::<i32>(0), i);
    }
    println!("{:?}", client.pending());
}
