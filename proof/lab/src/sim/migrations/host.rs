//! The host: it sends calls as the client's memory says, and takes what comes back.

use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_engine::{Cause, End, Outcome, Output, Request, SyncPoint, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::exact::Parameters;
use onetrip_postgres::client::named::Plan;
use onetrip_postgres::client::retry::{GoesOn, Setting, permit};
use onetrip_postgres::client::statements::{
    Closing, Fault, Scope, Wanted, Way, fault_of, is_preparable,
};
use onetrip_postgres::client::texts::text_key;
use onetrip_postgres::client::types::catalog::{Description, Kind};
use onetrip_postgres::client::types::fit::{Fit, fit};
use onetrip_postgres::client::{first_use, migrated};
use onetrip_postgres::message::bind::{self, IsNull};
use onetrip_postgres::message::{
    Close, Describe, EncodeError, Format, Formats, Header, SYNC, Target, parse,
};

use super::plan::{Call, Ended, Face, Place, What};
use super::read::{self, Error};
use super::remembered::{Columns, Described, Learned};
use super::{OfMigrations, World};
use crate::model::{LABELS, Type};

/// Parameters as a Bind has them, and the types that a Parse names.
pub(super) struct Written {
    pub(super) oids: Vec<u32>,
    pub(super) types_id: u32,
    pub(super) are_learned: bool,
    /// Formats and values; the data of a COPY.
    pub(super) values: Vec<u8>,
}

/// The question for what the text of a call takes has this bit in its token.
const QUESTION: u64 = 1 << 40;

impl World {
    /// Begins a call: asks what its text takes, if that is to be known, and sends it.
    pub(super) fn begin(&mut self, mut call: Call) {
        call.sent.described = self.described.get(&call.text).cloned();
        let asks = call.face == Face::Learns && call.sent.described.is_none();
        let (id, line) = (call.id, call.line);
        let (text, value) = (&call.text, &call.value);
        self.say(&format!("{id} on {line}: {text} {value:?} {:?}", call.name));
        self.lines[line].open.insert(id);
        self.calls.insert(id, call);
        match self.calls[&id].what {
            What::Sync => self.sync(id),
            _ if asks => self.ask(id),
            _ => self.send(id),
        }
    }

    /// Ends a segment.
    fn sync(&mut self, id: u64) {
        let line = &mut self.lines[self.calls[&id].line];
        let request = Request {
            sync: SyncPoint::Only,
            in_order: true,
            pinned: true,
            ..Request::isolated(Token(id), Expect::sync())
        };
        let sent = line.engine.submit(self.now, request, |out| {
            out.put_slice(&SYNC);
            Ok::<_, EncodeError>(())
        });
        if sent.is_err() {
            self.refuse(id);
        }
    }

    /// Nothing of a call was sent.
    fn refuse(&mut self, id: u64) {
        self.report.count("refused");
        if let Some(call) = self.calls.get_mut(&id) {
            call.end = Some(Ended::Refused);
            self.lines[call.line].open.remove(&id);
        }
    }

    /// Asks what a text takes and returns.
    fn ask(&mut self, id: u64) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.sent.is_asking = true;
        let line = &mut self.lines[call.line];
        let expect = Expect::sync().parse().describe_statement().leaves_nothing();
        let request = Request {
            in_order: line.is_lent,
            pinned: line.block.is_some(),
            ..Request::isolated(Token(id | QUESTION), expect)
        };
        let sent = line.engine.submit(now, request, |out| {
            parse::write(out, "", &call.text, &[])?;
            Describe { target: Target::Statement("") }.encode(out)?;
            out.put_slice(&SYNC);
            Ok::<_, EncodeError>(())
        });
        if sent.is_err() {
            self.refuse(id);
        }
    }

    /// Sends a call as what is remembered of its text says.
    fn send(&mut self, id: u64) {
        let Some(mut call) = self.calls.remove(&id) else { return };
        let is_copy = call.what == What::Copy;
        let written = if is_copy { self.copied(&call) } else { self.written(&call) };
        let sent = match written {
            Some(written) if is_copy => self.send_copied(&mut call, &written),
            Some(written) => self.send_written(&mut call, written),
            // What does not fit what was learned is asked for anew.
            None if !call.sent.is_fresh && !matches!(call.place, Place::Member { .. }) => {
                self.described.remove(&call.text);
                self.calls.insert(id, call);
                return self.ask(id);
            }
            None => Err(()),
        };
        self.calls.insert(id, call);
        if sent.is_err() {
            self.refuse(id);
        }
    }

    /// The parameters of a call; none where a value does not fit the type that was learned.
    fn written(&self, call: &Call) -> Option<Written> {
        let op = call.id.to_string();
        let number = [Some(op.as_str()), call.value.as_deref()];
        let texts: Vec<&str> = match call.what {
            What::Insert | What::Select => number.into_iter().flatten().collect(),
            _ => Vec::new(),
        };
        let described = call.sent.described.as_ref().filter(|_| call.face == Face::Learns);
        let Some(described) = described else {
            let values = texts.iter().map(|it| (Format::Text, it.as_bytes().to_vec())).collect();
            let values = encoded(values);
            return Some(Written { oids: Vec::new(), types_id: 0, are_learned: false, values });
        };
        let typed = described.oids.iter().zip(&texts);
        let values: Option<Vec<_>> = typed.map(|(oid, text)| self.binary(*oid, text)).collect();
        let (oids, types_id) = (described.oids.clone(), described.id);
        Some(Written { oids, types_id, are_learned: true, values: encoded(values?) })
    }

    /// A caller's value in the form of a learned type, if that has room for all of it.
    pub(super) fn binary(&self, oid: u32, text: &str) -> Option<(Format, Vec<u8>)> {
        let Some(type_) = Type::of(oid) else {
            return LABELS.contains(&text).then(|| (Format::Text, text.as_bytes().to_vec()));
        };
        let value = type_.read(text, 0).ok().filter(|value| type_.write(value, 0) == text)?;
        match self.types.get(oid).format() {
            Format::Binary => Some((Format::Binary, type_.send(&value))),
            Format::Text => Some((Format::Text, text.as_bytes().to_vec())),
        }
    }

    fn send_written(&mut self, call: &mut Call, written: Written) -> Result<(), ()> {
        let is_utc = self.lines[call.line].engine.protocol().is_utc();
        let loose = World::parameters(&call.text, &written, is_utc).loosened();
        let loose = loose.filter(|_| !self.is(OfMigrations::NotLoosened));
        let is_loose = loose.is_some();
        let written = match loose {
            Some(loose) => {
                self.report.count("loosened");
                let (oids, values) = (loose.named, loose.first);
                Written { oids, types_id: 0, are_learned: false, values }
            }
            None => written,
        };
        let parameters = World::parameters(&call.text, &written, is_utc);
        let Plan { way, closes, traits } = self.plan(call, &written, parameters, is_loose)?;
        self.note_way(&way);
        let line = &mut self.lines[call.line];
        let is_member = matches!(call.place, Place::Member { .. });
        let stands_alone = !line.is_lent && !is_member;
        let has_path = self.mutation != Some(OfMigrations::NoPath);
        if line.is_lent && traits.renames() && has_path {
            line.statements.renamed(line.engine.protocol());
        }
        let may_close = !closes && way.parsed_as().is_some();
        let close = line.statements.take_close(line.engine.protocol_mut());
        let close = match may_close {
            true => close,
            false => {
                close.into_iter().for_each(|closing| line.statements.give_back(closing));
                None
            }
        };
        let key = text_key(&call.text, traits);
        let is_plain_read = migrated::is_plain_read(traits, key);
        let asked = asked(call, stands_alone, is_plain_read);
        let expect = way.expect(Expect::run(1));
        let expect = if closes || close.is_some() { expect.close() } else { expect };
        let expect = expect.of_traits(traits);
        let request = Request {
            sync: if is_member { SyncPoint::Member } else { SyncPoint::Own },
            pinned: call.place == Place::Block,
            in_order: !stands_alone,
            ..Request::isolated(Token(call.id), expect)
        };
        let setting = Setting { is_shared: stands_alone, is_outside: call.place == Place::Alone };
        let goes_on = match call.is_repeatable {
            true => GoesOn::Repeated { is_read: traits.read_only_select() },
            false => GoesOn::InLine,
        };
        let used = if let Way::Named(used) = &way { Some(used) } else { None };
        let mut request = permit(request, setting, used, expect.has_partial_effects(), goes_on);
        // Its columns may be others by now, which are to be asked for in other forms.
        let returns_rows = call.sent.described.as_ref().is_some_and(|it| !it.columns.is_empty());
        request.again &= !returns_rows || line.is_lent && is_plain_read;
        let (sync, text) = (request.sync, &call.text);
        let sent = line.engine.submit(self.now, request, |out| {
            if let (true, Some(name)) = (closes, &call.name) {
                Close { target: Target::Statement(name) }.encode(out)?;
            }
            close.as_ref().map_or(Ok(()), |closing: &Closing| closing.write(out))?;
            way.write(
                out,
                |out, name| parse::write(out, name, text, &written.oids),
                |out, name| {
                    let values = &written.values;
                    bind::write_encoded(out, "", name, values, formats(call.face, &asked))
                },
            )?;
            if sync == SyncPoint::Own {
                out.put_slice(&SYNC);
            }
            Ok::<_, EncodeError>(())
        });
        match sent {
            Ok(_) => {
                (call.sent.used, call.sent.closing, call.sent.asked) = (way.used(), close, asked);
                Ok(())
            }
            Err(_) => {
                close.into_iter().for_each(|closing| line.statements.give_back(closing));
                Err(())
            }
        }
    }

    fn parameters<'a>(text: &'a str, written: &'a Written, is_utc: bool) -> Parameters<'a> {
        let Written { oids, are_learned, values, .. } = written;
        let (are_learned, more) = (*are_learned, &[]);
        Parameters { named: oids, are_learned, first: values, more, moments: &[], is_utc, text }
    }

    /// How a text runs.
    fn plan(
        &mut self,
        call: &Call,
        written: &Written,
        parameters: Parameters<'_>,
        is_loose: bool,
    ) -> Result<Plan<Learned>, ()> {
        // Parameters of which nothing is said are exact.
        let parameters = match self.is(OfMigrations::AllExact) {
            true => Parameters::default(),
            false => parameters,
        };
        let line = &mut self.lines[call.line];
        let (protocol, text) = (line.engine.protocol_mut(), &call.text[..]);
        let parse = |out: &mut BytesMut, name: &str| parse::write(out, name, text, &written.oids);
        let mut wanted = Wanted {
            key: 0,
            parse: &parse,
            data: &Learned::default,
            is_explicit: false,
            parameters,
            now: self.now,
        };
        if let Some(name) = &call.name {
            let plan = line.named.way(&line.statements, protocol, (name, text), &wanted);
            let plan = plan.map_err(drop)?;
            return plan.map_err(|_| self.report.count("a name that was taken"));
        }
        if is_loose || !matches!(call.what, What::Insert | What::Select) {
            let traits = self.texts.traits(text);
            return Ok(Plan { way: Way::Unnamed, closes: false, traits });
        }
        let counted = self.texts.count(text);
        if counted.is_due {
            // It has the protocol find out what is on the other end.
            let _ = protocol.names();
        }
        let segment = (line.segments, 1);
        let scope = match call.place {
            Place::Alone if !line.is_lent => Scope::Heals,
            Place::Member { names: true } => Scope::Segment { segment, timed: false },
            _ => Scope::Fixed,
        };
        let way = match counted.key.filter(|_| is_preparable(counted.traits)) {
            None => Way::Unnamed,
            Some(key) => {
                wanted.key = key | u64::from(written.types_id) << 32;
                line.statements.way(protocol, &wanted, scope).map_err(drop)?
            }
        };
        Ok(Plan { way, closes: false, traits: counted.traits })
    }

    fn note_way(&mut self, way: &Way<Learned>) {
        self.report.count(match way {
            Way::Unnamed => "by its text",
            Way::Named(used) if used.parses() => "parsed under a name",
            Way::Named(_) => "by its name",
        });
    }

    // --- what comes back ---

    /// Takes what the connections say.
    pub(super) fn drain(&mut self) {
        for at in 0..self.lines.len() {
            self.finish_copy(at);
            while let Some(output) = self.lines[at].engine.poll_output() {
                self.take(at, output);
            }
            let line = &mut self.lines[at];
            if line.engine.protocol_mut().take_statements_lost() {
                line.statements.lost();
                line.named.lost();
            }
        }
    }

    fn take(&mut self, at: usize, output: Output<onetrip_postgres::Event>) {
        match output {
            Output::Data { token, block } => self.came(token.0, &block),
            Output::Ended { token, block, end, .. } if token.0 & QUESTION != 0 => {
                self.answered(token.0 & !QUESTION, &block, end);
            }
            Output::Ended { token, block, end, .. } => self.ended(token.0, &block, end),
            Output::Restarted { token } => {
                self.report.count("restarted");
                if let Some(call) = self.calls.get_mut(&(token.0 & !QUESTION)) {
                    (call.sent.seen, call.sent.reply) = Default::default();
                    call.sent.restarts += 1;
                }
            }
            Output::Closed(reason) => {
                self.lines[at].is_closed = true;
                self.lines[at].link.hang_up(0);
                let is_cut = self.settings.cut.is_some_and(|(of, _)| of == at);
                self.report.count("connections cut");
                if !is_cut {
                    self.find(format!("connection {at} was lost: {reason:?}"));
                }
            }
            _ => {}
        }
    }

    fn came(&mut self, token: u64, block: &[u8]) {
        if let Some(call) = self.calls.get_mut(&(token & !QUESTION)) {
            call.sent.seen.look(block);
            call.sent.reply.put_slice(block);
        }
    }

    /// The question for what a text takes was answered.
    fn answered(&mut self, id: u64, block: &Bytes, end: End) {
        let Some(mut call) = self.calls.remove(&id) else { return };
        let (before, held) = (call.sent.described.take(), call.sent.held.take());
        call.sent.is_asking = false;
        if matches!(end, End::Failed(_)) {
            let error = read::error(block.get(Header::LEN..).unwrap_or_default());
            return self.is_over(call, Ended::Told(end, held.or(error)));
        }
        call.sent.reply.put_slice(block);
        let reply = std::mem::take(&mut call.sent.reply);
        call.sent.seen = Default::default();
        let oids = read::parameters(&reply);
        let columns = read::columns(&reply).unwrap_or_default();
        let all: Vec<u32> = oids.iter().copied().chain(columns.iter().map(|it| it.1)).collect();
        self.learn_types(&all);
        self.descriptions += 1;
        let described = Rc::new(Described::new(self.descriptions, oids, columns, &self.types));
        if self.described.get(&call.text).is_some_and(|old| !old.is_same(&described)) {
            self.described.clear();
        }
        self.described.insert(call.text.clone(), described.clone());
        let is_same = before.is_some_and(|before| before.is_same(&described));
        if let (Some(error), true) = (held, is_same) {
            // The server says of it what it has said before: it has failed for its own reason.
            let failure =
                onetrip_engine::Failure { outcome: Outcome::Rejected, cause: Cause::Server };
            return self.is_over(call, Ended::Told(End::Failed(failure), Some(error)));
        }
        (call.sent.described, call.sent.is_fresh) = (Some(described), true);
        self.calls.insert(id, call);
        self.send(id);
    }

    /// Learns the types of these numbers, as the server's catalogue has them by now.
    fn learn_types(&mut self, oids: &[u32]) {
        let missing = self.types.missing(oids);
        let found = missing.into_iter().map(|oid| Description {
            oid,
            schema: "public".to_owned(),
            name: format!("enum {oid}"),
            kind: Kind::Enum(LABELS.map(str::to_owned).to_vec()),
            delimiter: b',',
        });
        self.types.learn(self.now, found.collect());
    }

    fn ended(&mut self, id: u64, block: &Bytes, end: End) {
        let Some(mut call) = self.calls.remove(&id) else { return };
        if call.end.is_some() {
            self.find(format!("{id} ended twice"));
        }
        let failure = if let End::Failed(failure) = end { Some(failure) } else { None };
        let body = block.get(Header::LEN..).unwrap_or_default();
        if failure.is_none() {
            call.sent.seen.look(block);
            call.sent.reply.put_slice(block);
        }
        self.remember(&call);
        let fault = failure.map(|_| fault_of(body));
        let told = match self.is(OfMigrations::NoFault) {
            true => fault.map(|_| Fault::Other),
            false => fault,
        };
        match (&call.sent.used, told) {
            (Some(used), _) => used.ended(&call.sent.seen, told),
            (None, Some(told)) => self.lines[call.line].statements.failed_unnamed(told),
            (None, None) => {}
        }
        if call.what == What::Copy {
            self.lines[call.line].copying = None;
        }
        let closing = call.sent.closing.take();
        if failure.is_some_and(|it| it.outcome == Outcome::NotSent) {
            let line = &mut self.lines[call.line];
            closing.into_iter().for_each(|closing| line.statements.give_back(closing));
        }
        match (failure, fault) {
            (Some(failure), Some(fault)) => {
                let error = read::error(body).filter(|_| failure.cause == Cause::Server);
                self.failed(call, end, error, fault);
            }
            _ => self.completed(call, end),
        }
    }

    /// Keeps the columns that a reply describes with the statement. It may have failed behind that.
    fn remember(&self, call: &Call) {
        let columns = read::columns(&call.sent.reply);
        if let (Some(columns), Some(used)) = (columns, &call.sent.used) {
            let remembered = &mut *used.prepared().data.columns.borrow_mut();
            if !(self.is(OfMigrations::FirstColumns) && remembered.is_some()) {
                *remembered = Some(columns);
            }
        }
    }

    /// It has failed. If its text may be something else by now, the server is asked anew.
    fn failed(&mut self, mut call: Call, end: End, error: Option<Error>, fault: Fault) {
        let End::Failed(failure) = end else { return };
        let said = error.clone().unwrap_or_default();
        let (code, routine) = (Some(&said.code[..]), said.routine.as_deref());
        if fault == Fault::Meaningless || migrated::columns_changed(code, routine) {
            self.described.clear();
        }
        if call.what == What::Copy {
            return self.copy_failed(call, end, error);
        }
        let learned = call.sent.described.is_some() && call.face == Face::Learns;
        if error.is_none() || !learned {
            return self.is_over(call, Ended::Told(end, error));
        }
        let may_be_old = !call.sent.is_fresh && first_use::may_be_outdated(code, routine);
        if !(fault.is_stale() || may_be_old) {
            return self.is_over(call, Ended::Told(end, error));
        }
        self.described.remove(&call.text);
        if !self.goes_again(&call, failure.outcome) {
            return self.is_over(call, Ended::Told(end, error));
        }
        call.sent.held = Some(said).filter(|_| !fault.is_stale());
        self.send_again(call);
    }

    fn goes_again(&self, call: &Call, outcome: Outcome) -> bool {
        let traits = self.texts.traits(&call.text);
        let is_plain_read = migrated::is_plain_read(traits, text_key(&call.text, traits));
        let stands_alone = call.place == Place::Alone
            && (!self.lines[call.line].is_lent || !self.has_company(call));
        let again = call.sent.again;
        migrated::goes_again(migrated::Sent { stands_alone, outcome, is_plain_read, again })
    }

    pub(super) fn send_again(&mut self, mut call: Call) {
        self.report.count("sent again, as its text is by now");
        let sent = std::mem::take(&mut call.sent);
        call.sent.again = sent.again + 1;
        (call.sent.held, call.sent.described) = (sent.held, sent.described);
        call.sent.restarts = sent.restarts;
        let id = call.id;
        self.calls.insert(id, call);
        self.ask(id);
    }

    /// It was answered: its rows are read.
    fn completed(&mut self, call: Call, end: End) {
        if call.what == What::Copy {
            return self.is_over(call, Ended::Told(end, None));
        }
        let described = read::columns(&call.sent.reply);
        let remembered = call.sent.used.as_ref().map(|used| &used.prepared().data.columns);
        let known = remembered.and_then(|it| it.borrow().clone());
        let known = if self.is(OfMigrations::FirstColumns) { known } else { described.or(known) };
        let columns: Columns = known.unwrap_or_default();
        if call.face == Face::Learns && !columns.is_empty() {
            let oids: Vec<u32> = columns.iter().map(|it| it.1).collect();
            self.learn_types(&oids);
            let form = onetrip_postgres::client::types::kinds::Type::format;
            let looked = fit(&self.types, (&oids, &call.sent.asked), true, form);
            if looked != Fit::Fits && !self.is(OfMigrations::NoFit) {
                return self.misfit(call);
            }
        }
        self.check_rows(&call, &columns);
        self.is_over(call, Ended::Told(end, None));
    }

    /// A column came in a form in which its type is not read.
    fn misfit(&mut self, call: Call) {
        self.report.count("misfits");
        self.described.remove(&call.text);
        if self.goes_again(&call, Outcome::Applied) {
            return self.send_again(call);
        }
        self.described.clear();
        self.is_over(call, Ended::Misread);
    }

    /// A call has ended.
    pub(super) fn is_over(&mut self, mut call: Call, ended: Ended) {
        let id = call.id;
        self.say(&format!("{id} ended: {ended:?}"));
        // Its use ends with it.
        call.sent.used = None;
        self.judge(&call, &ended);
        self.lines[call.line].open.remove(&id);
        call.end = Some(ended);
        self.calls.insert(id, call);
    }

    /// Calls that have not ended.
    pub(super) fn open_calls(&self) -> Vec<u64> {
        self.lines.iter().flat_map(|line| line.open.iter().copied()).collect()
    }

    /// Whether another call of its connection has not ended.
    fn has_company(&self, call: &Call) -> bool {
        self.lines[call.line].open.iter().any(|id| *id != call.id)
    }
}

/// Formats and values as a Bind has them.
fn encoded(values: Vec<(Format, Vec<u8>)>) -> Vec<u8> {
    let mut out = BytesMut::new();
    let formats: Vec<Format> = values.iter().map(|(format, _)| *format).collect();
    let write = |at: usize, out: &mut BytesMut| {
        out.put_slice(&values[at].1);
        Ok::<_, EncodeError>(IsNull::No)
    };
    let count = values.len();
    bind::write_values(&mut out, Formats::Each(&formats), count, write, Formats::AllText)
        .expect("a few short values");
    // Without the formats of results.
    out[..out.len() - bind::NO_RESULT_FORMATS.len()].to_vec()
}

/// In which forms the columns are asked for; none where all are in one.
fn asked(call: &Call, stands_alone: bool, is_plain_read: bool) -> Vec<Format> {
    let described = call.sent.described.as_ref().filter(|_| call.face == Face::Learns);
    let Some(described) = described else { return Vec::new() };
    let counts = migrated::counts_columns(stands_alone, is_plain_read);
    let counts = counts && described.counted.len() > 1;
    if counts { described.counted.clone() } else { described.formats.clone() }
}

fn formats(face: Face, asked: &[Format]) -> Formats<'_> {
    match (face, asked) {
        (Face::Texts, _) => Formats::AllText,
        (Face::Learns, []) => Formats::AllBinary,
        (Face::Learns, each) => Formats::Each(each),
    }
}
