//! Connections that the client lends without a session: to a transaction, a stream or a COPY. State
//! left in them must not reach other users either.

use onetrip::Error;

use super::SessionsWriter;
use super::states::State;

impl SessionsWriter {
    pub(crate) async fn lent(&mut self) {
        let state = State::any(&mut self.random);
        let key = self.number();
        let texts = state.statements(&mut self.random, key);
        // The result does not matter here; the state that is left in the connection does.
        let _: Result<(), Error> = match self.random.below(5) {
            0 => self.in_stream(state).await,
            1 => self.in_copy_out(state).await,
            2 => self.in_copy_in(state).await,
            3 => self.in_run(texts).await,
            _ => self.in_transaction(&texts).await,
        };
    }

    async fn in_stream(&self, state: State) -> Result<(), Error> {
        let sql = format!("select n from public.chaos_view_{}", state.word());
        let mut rows = self.client.query_stream(&sql, &[]).await?;
        rows.try_next().await?;
        Ok(())
    }

    async fn in_copy_out(&self, state: State) -> Result<(), Error> {
        let sql = format!("copy (select n from public.chaos_view_{}) to stdout", state.word());
        let mut copy = self.client.copy_out(&sql).await?;
        copy.try_next().await?;
        Ok(())
    }

    async fn in_copy_in(&self, state: State) -> Result<(), Error> {
        let mut copy = self.client.copy_in("copy public.chaos_trap (state) from stdin").await?;
        copy.send(format!("{}\n", state.word())).await?;
        copy.finish().await?;
        Ok(())
    }

    async fn in_run(&self, texts: Vec<String>) -> Result<(), Error> {
        let client = self.client.clone();
        let run = client.run(async move |tx| {
            for text in &texts {
                tx.execute(text, &[]).await?;
            }
            Ok::<_, Error>(())
        });
        run.await.map(drop)
    }

    async fn in_transaction(&mut self, texts: &[String]) -> Result<(), Error> {
        let tx = self.client.begin().await?;
        for text in texts {
            tx.execute(text, &[]).await?;
        }
        match self.random.below(3) {
            0 => tx.rollback().await,
            1 => {
                drop(tx);
                Ok(())
            }
            _ => tx.commit().await,
        }
    }
}
