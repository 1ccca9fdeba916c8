//! One case in which sessions of the client itself change what its texts mean.

use std::collections::HashSet;

use onetrip::Session;

use super::book::{End, failure, said};
use super::cases::Case;
use super::databases::Twin;
use super::migration::{Stage, givens};
use super::subject::{Subject, Use, in_session};

/// How often a text is used on each connection before anything changes.
const USES: usize = 7;

/// A use in a session, and what it came to.
struct Done {
    step: usize,
    one: Use,
    end: End,
}

pub(super) struct Sessions<'a>(pub(super) Stage<'a>);

impl Sessions<'_> {
    pub(super) async fn run(&self) {
        let Stage { found, connections, client, databases, .. } = &self.0;
        match connections {
            1 => self.warm().await,
            _ => drop(tokio::join!(self.warm(), self.warm(), self.warm())),
        }
        let before = databases.connections().await;
        // In one session, one setting after the other, and then the first again.
        let back = if found.chained { None } else { Some(0) };
        let steps: Vec<usize> = (0..found.sessions.len()).chain(back).collect();
        let theirs = self.expected(&steps, 10_000).await;
        let mut ours = Vec::new();
        let session = client.0.session().await.unwrap();
        for (at, step) in steps.iter().enumerate() {
            set(&session, &found.sessions[*step]).await;
            ours.extend(all_uses(&session, found, *step, 10_000 + 1000 * at as i32).await);
        }
        drop(session);
        self.same(&theirs, &ours).await;
        if !found.chained {
            self.apart().await;
        }
        self.0.none_lost(&before).await;
    }

    /// Uses every text under the first setting.
    async fn warm(&self) {
        let Stage { found, client, .. } = &self.0;
        let session = client.0.session().await.unwrap();
        set(&session, &found.sessions[0]).await;
        for _ in 0..USES {
            for statement in &found.statements {
                let given = found.before[self.0.below(found.before.len())].clone();
                let one = Use { statement: statement.clone(), given, id: 1 };
                if let Err(error) = in_session(&session, &one).await {
                    self.0.wrong(&format!(
                        "{} fails before anything has changed: {error}",
                        one.key()
                    ));
                }
            }
        }
    }

    /// What the steps come to where a new client makes each of them.
    async fn expected(&self, steps: &[usize], first: i32) -> Vec<Done> {
        let Stage { found, databases, .. } = &self.0;
        let mut all = Vec::new();
        for at in 0..steps.len() {
            let fresh = Subject::connect(&databases.url(Twin::Fresh), 1).await;
            let session = fresh.0.session().await.unwrap();
            for step in &steps[..at] {
                // What they have altered is altered.
                let is_setting = |text: &&String| !text.starts_with("alter");
                let texts: Vec<_> =
                    found.sessions[*step].iter().filter(is_setting).cloned().collect();
                set(&session, &texts).await;
            }
            set(&session, &found.sessions[steps[at]]).await;
            all.extend(all_uses(&session, found, steps[at], first + 1000 * at as i32).await);
        }
        all
    }

    /// Each setting in a session of its own, at the same time if there are connections for it.
    async fn apart(&self) {
        let Stage { found, client, connections, .. } = &self.0;
        let steps: Vec<usize> = (0..found.sessions.len()).collect();
        let theirs = self.expected(&steps, 50_000).await;
        let one = async |step: usize| {
            let session = client.0.session().await.unwrap();
            set(&session, &found.sessions[step]).await;
            all_uses(&session, found, step, 50_000 + 1000 * step as i32).await
        };
        let mut ours = Vec::new();
        if *connections > 1 && steps.len() == 2 {
            let (first, second) = tokio::join!(one(0), one(1));
            ours.extend(first.into_iter().chain(second));
        } else {
            for step in steps {
                ours.extend(one(step).await);
            }
        }
        self.same(&theirs, &ours).await;
    }

    async fn same(&self, theirs: &[Done], ours: &[Done]) {
        let Stage { found, databases, book, .. } = &self.0;
        book.borrow_mut().report.migrations += 1;
        book.borrow_mut().report.uses += ours.len() as u64;
        let mut gone = HashSet::new();
        for (Done { step, one, end }, wanted) in ours.iter().zip(theirs) {
            let what =
                format!("step {step}, {}: {} and not {}", one.key(), said(end), said(&wanted.end));
            match (end, &wanted.end) {
                (Err(error), Err(wanted)) if error.code == wanted.code => {}
                (Err(error), _) => {
                    gone.insert(one.id);
                    book.borrow_mut().cost(error);
                    self.0.wrong(&format!("errors: {what}"));
                }
                (Ok(rows), Ok(wanted)) if rows == wanted => {}
                (Ok(_), Ok(_)) => self.0.wrong(&format!("differs: {what}")),
                (Ok(_), Err(_)) => self.0.wrong(&format!("taken: {what}")),
            }
        }
        let here = databases.stored(Twin::Ours, &found.tables).await;
        let there = databases.stored(Twin::Fresh, &found.tables).await;
        for Done { step, one, .. } in theirs.iter().filter(|it| it.end.is_ok()) {
            let (mine, other) = (here.get(&one.id), there.get(&one.id));
            if !gone.contains(&one.id) && mine != other {
                self.0.wrong(&format!(
                    "stored: step {step}, {}: {mine:?} and not {other:?}",
                    one.key()
                ));
            }
        }
    }
}

async fn set(session: &Session, texts: &[String]) {
    for text in texts {
        session.execute(text, &[]).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

async fn all_uses(session: &Session, found: &Case, step: usize, first: i32) -> Vec<Done> {
    let mut all = Vec::new();
    for statement in &found.statements {
        for given in givens(found) {
            let id = first + 1 + all.len() as i32;
            let one = Use { statement: statement.clone(), given: given.clone(), id };
            let end = in_session(session, &one).await.map_err(|error| failure(&error));
            all.push(Done { step, one, end });
        }
    }
    all
}
