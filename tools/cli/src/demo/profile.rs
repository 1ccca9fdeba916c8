//! The demo's part on profiling: a program that asks for the rows of a result one by one, what the
//! profiler predicts of it, and what it takes once it is mended.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use comfy_table::Cell as Field;
use onetrip::{Client, Error};
use onetrip_lab::postgres::{Options, PrivatePostgres};
use onetrip_lab::proxy::{Proxy, ProxyConfig, Upstream};
use onetrip_measure::results::{Form, Profiled};
use onetrip_profile::Profile;

use super::story::{bar, right, table};
use crate::profile::{Analysis, Front, Settings};

/// Between two orders, so that the profiler tells them apart.
const REST: Duration = Duration::from_millis(30);

/// The end of the connection takes no more than this, unless it hangs.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Orders that are shown. The first has ten products, and each one more than that before it.
const ORDERS: i32 = 8;

/// The round trip, unless the user says another.
pub(super) const RTT_MS: f64 = 10.0;

/// Profiles the program and measures it mended, on a private server.
///
/// # Errors
/// One line: what failed.
pub(super) async fn tell(rtt_ms: f64) -> Result<Profiled, String> {
    let rtt = Duration::from_secs_f64(rtt_ms / 1e3);
    let server = PrivatePostgres::start(Options::default()).map_err(|it| it.to_string())?;
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let line = ProxyConfig::new(address).with_rtt(rtt);
    let line = Proxy::start(line).map_err(|error| format!("can't start a proxy: {error}"))?;
    let analysis = Analysis::start(Settings::default())?;
    let splice = Front::free().proxy(Upstream::Tcp(line.addr()), analysis.tap(0))?;

    let before = program(&server, splice.addr().port(), Way::OneByOne).await;
    drop(splice);
    let profile = analysis.finish()?;
    let after = program(&server, line.addr().port(), Way::Together).await;
    drop(line);
    server.stop().map_err(|it| it.to_string())?;
    let failed = |error: Error| error.to_string();
    found(&profile, before.map_err(failed)?, after.map_err(failed)?)
        .ok_or_else(|| "the profiler found no statement in a loop".to_owned())
}

/// How the products of an order are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Each is awaited before the next.
    OneByOne,
    /// All are submitted, and then awaited.
    Together,
}

/// Shows all orders, and returns the milliseconds of one.
async fn program(server: &PrivatePostgres, port: u16, way: Way) -> Result<f64, Error> {
    let (user, password) = (server.user(), server.password());
    let url = format!(
        "postgres://{user}:{password}@127.0.0.1:{port}/postgres?connections_max=1&sslmode=disable"
    );
    let client = Client::connect(&url).await?;
    for text in TABLES {
        client.execute(text, &[]).await?;
    }
    // The profiler takes how far the server is from what costs that next to nothing.
    for _ in 0..10 {
        client.query("select 1", &[]).await?;
    }
    // Once before all others: the client prepares a statement at its fifth use.
    show(&client, 0, way).await?;
    let mut elapsed = Duration::ZERO;
    for order in 0..ORDERS {
        tokio::time::sleep(REST).await;
        let begin = Instant::now();
        show(&client, order, way).await?;
        elapsed += begin.elapsed();
    }
    client.close(CLOSE_MAX).await?;
    Ok(elapsed.as_secs_f64() * 1e3 / f64::from(ORDERS))
}

async fn show(client: &Client, order: i32, way: Way) -> Result<(), Error> {
    let items = client.query("select product from item where sale = $1", &[&order]).await?;
    let name = |id: i64| client.query_one("select name from product where id = $1", &[&id]);
    let ids = items.iter().map(|it| it.get::<i64>(0));
    match way {
        Way::OneByOne => {
            for id in ids {
                name(id).await?;
            }
        }
        Way::Together => {
            for name in ids.map(name).collect::<Vec<_>>() {
                name.await?;
            }
        }
    }
    Ok(())
}

/// Products have numbers that are in no other column, as those of a program in use have.
const TABLES: [&str; 5] = [
    "create table if not exists product (id bigint primary key, name text)",
    "create table if not exists item (sale int, product bigint)",
    "truncate product, item",
    "insert into product select 3000000000 + n * 7919, (array['nail', 'saw', 'file'])[1 + n % 3] \
     from generate_series(1, 200) n",
    "insert into item select sale, 3000000000 + (sale * 17 + n) * 7919 \
     from generate_series(0, 7) sale, generate_series(1, 10 + sale) n",
];

/// What is shown: as it is, as it was predicted, and as it was measured once it was mended.
fn found(profile: &Profile, before: f64, after: f64) -> Option<Profiled> {
    let finding = profile.findings.iter().find(|it| it.kind == "n+1")?;
    let shape = profile.shapes.iter().find(|it| Some(it.id) == finding.shape)?;
    let saved = shape.trips.now - shape.trips.proven;
    let predicted = before - saved * profile.rtt_ms?;
    let forms = [
        ("each product awaited before the next", Some(shape.trips.now), before),
        ("predicted, if none waits for another", Some(shape.trips.proven), predicted),
        ("measured, once none does", None, after),
    ];
    let form = |(name, trips, ms): (&str, _, _)| Form { name: name.to_owned(), trips, ms };
    Some(Profiled {
        title: format!(
            "A program under onetrip profile, {:.1} ms away: an order, and a statement for each of \
             its products",
            profile.rtt_ms?
        ),
        forms: forms.map(form).into(),
        says: format!("It says: {}; {}.", finding.title, finding.evidence),
    })
}

/// The same as a table with a title.
pub(super) fn told(profiled: &Profiled) -> String {
    let longest = profiled.forms.iter().map(|it| it.ms).fold(0.0, f64::max);
    let mut table = table(&["", "trips", "ms", ""]);
    for form in &profiled.forms {
        table.add_row([
            Field::new(&form.name),
            right(form.trips.map_or(String::new(), |it| format!("{it:.1}"))),
            right(format!("{:.1}", form.ms)),
            Field::new(bar(form.ms / longest)),
        ]);
    }
    format!("{}\n{table}\n{}", profiled.title, profiled.says)
}
