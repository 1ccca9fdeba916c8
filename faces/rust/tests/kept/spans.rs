//! Records the spans and events of `tracing` on a thread, for the tests of both protocols.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Metadata, Subscriber};

pub(crate) type Fields = BTreeMap<String, String>;

/// Records the spans and events of this thread.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    next: Arc<AtomicU64>,
    /// Each span, and whether it is closed.
    spans: Arc<Mutex<BTreeMap<u64, (Fields, bool)>>>,
    events: Arc<Mutex<Vec<Fields>>>,
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "onetrip"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.spans.lock().unwrap().insert(id, (fields, false));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.spans.lock().unwrap();
        values.record(&mut Reader(&mut spans.get_mut(&span.into_u64()).unwrap().0));
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        self.events.lock().unwrap().push(fields);
    }

    fn try_close(&self, id: Id) -> bool {
        self.spans.lock().unwrap().get_mut(&id.into_u64()).unwrap().1 = true;
        true
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Kept {
    pub(crate) fn start() -> (Kept, DefaultGuard) {
        // While there is only one dispatcher, `tracing` asks the dispatcher of the thread that
        // first comes to a place whether anybody wants the event. If that thread has none, the
        // answer is no, for all threads. With two dispatchers it asks both
        // (`Dispatchers::rebuilder` in tracing-core/src/callsite.rs).
        static OTHERS: OnceLock<[Dispatch; 2]> = OnceLock::new();
        OTHERS.get_or_init(|| [Kept::default(), Kept::default()].map(Dispatch::new));
        let kept = Kept::default();
        (kept.clone(), tracing::subscriber::set_default(kept))
    }

    /// All spans, none of which may be open.
    pub(crate) fn spans(&self) -> Vec<Fields> {
        let spans = self.spans.lock().unwrap();
        assert!(spans.values().all(|(_, closed)| *closed));
        spans.values().map(|(fields, _)| fields.clone()).collect()
    }

    pub(crate) fn events(&self, message: &str) -> Vec<Fields> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|event| event["message"] == message).cloned().collect()
    }

    /// Everything that was recorded, as one text.
    pub(crate) fn everything(&self) -> String {
        format!("{:?} {:?}", self.spans.lock().unwrap(), self.events.lock().unwrap())
    }
}
