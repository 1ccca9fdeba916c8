//! How a state is sent: alone, in a pipeline, a transaction, a stream, a batch, or by COPY.

use onetrip::{Error, Session};

use super::SessionsWriter;
use super::states::State;

/// Where an insert of the owner goes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// To the common table.
    Other,
    /// To the other schema.
    Path,
    /// To a temporary table.
    Temporary,
    /// Not known.
    Unknown,
}

impl Kept {
    fn and(self, state: State) -> Kept {
        match (self, state) {
            (Kept::Unknown, _) => Kept::Unknown,
            // PostgreSQL looks for temporary tables first.
            (_, State::Temp) | (Kept::Temporary, _) => Kept::Temporary,
            (_, State::Path) => Kept::Path,
            (kept, _) => kept,
        }
    }
}

impl SessionsWriter {
    /// Sets one to three states.
    pub(crate) async fn keep(&mut self, session: &mut Session) -> Kept {
        let mut kept = Kept::Other;
        for _ in 0..self.some(1..4) {
            let state = State::any(&mut self.random);
            let key = self.number();
            let texts = state.statements(&mut self.random, key);
            kept = match self.send(session, state, &texts).await {
                Ok(true) => kept.and(state),
                _ => Kept::Unknown,
            };
        }
        kept
    }

    /// Sends a state. Returns whether it is in force, as far as that is known.
    async fn send(
        &mut self,
        session: &mut Session,
        state: State,
        texts: &[String],
    ) -> Result<bool, Error> {
        match self.random.below(16) {
            0 => {
                let mut pipeline = session.pipeline();
                texts.iter().for_each(|text| drop(pipeline.execute(text, &[])));
                pipeline.finish().await?;
                Ok(false)
            }
            1 | 2 => self.send_in_transaction(session, texts).await,
            3 => {
                let mut rows = session.query_stream(&texts[0], &[]).await?;
                rows.try_next().await?;
                Ok(false)
            }
            4 => {
                let hidden = "select public.chaos_hidden($1::text)";
                let rows = [(state.word(),)];
                let _ = session.batch(hidden, rows).isolated().await;
                Ok(false)
            }
            5 => {
                let sql =
                    format!("copy (select n from public.chaos_view_{}) to stdout", state.word());
                let mut copy = session.copy_out(&sql).await?;
                copy.try_next().await?;
                Ok(false)
            }
            6 => {
                let mut copy = session.copy_in("copy public.chaos_trap (state) from stdin").await?;
                copy.send(format!("{}\n", state.word())).await?;
                copy.finish().await?;
                Ok(false)
            }
            7 => {
                session.script(&texts.join(";")).await?;
                Ok(false)
            }
            8 => {
                // No one awaits these replies.
                texts.iter().for_each(|text| drop(session.execute(text, &[])));
                Ok(false)
            }
            _ => {
                for text in texts {
                    session.execute(text, &[]).await?;
                }
                Ok(true)
            }
        }
    }

    async fn send_in_transaction(
        &mut self,
        session: &mut Session,
        texts: &[String],
    ) -> Result<bool, Error> {
        let way = self.random.below(3);
        let mut tx = session.begin().await?;
        if way == 0 {
            let savepoint = tx.savepoint();
            for text in texts {
                savepoint.execute(text, &[]).await?;
            }
            savepoint.release().await?;
        } else {
            for text in texts {
                tx.execute(text, &[]).await?;
            }
        }
        match way {
            1 => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(false)
    }
}
