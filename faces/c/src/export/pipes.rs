//! Pipelines: what is collected, and leaves together.

use std::rc::Rc;

use onetrip_engine::Time;
use onetrip_postgres::sql::Place;
use onetrip_redis::client::session::{On, refusal};
use onetrip_redis::{Command, Spec};

use onetrip_client::redis::Packed;

use super::calls::copies;
use super::{
    OtCall, OtClient, client_of, enter, flags_of, handle, options, place, request, take_back,
};
use crate::call::{Call, Request, Want};
use crate::client::Client;
use crate::failure::Failure;
use crate::ffi::{Handle, OtOptions, OtValue, guard, misuse, take, values};
use crate::state::{State, clock};
use crate::status;
use crate::values::Value;

/// What was collected.
#[derive(Default)]
pub(crate) struct Pipe {
    /// Statements since the last sync point, and the calls of those before.
    segment: Vec<Request>,
    calls: Vec<Rc<Call>>,
    commands: Vec<Packed>,
    is_atomic: bool,
    deadline: Option<Time>,
    /// Why nothing of it is sent.
    refused: Option<Failure>,
}

/// `ot_pipe`.
type OtPipe = Handle<std::cell::RefCell<Pipe>>;

impl Pipe {
    /// Ends a segment.
    fn sync(&mut self, state: &State) -> Rc<Call> {
        let requests = std::mem::take(&mut self.segment);
        let place = Place::Pipeline { alone: requests.len() == 1 };
        for (number, request) in requests.iter().enumerate() {
            let refused = state.refusal_of(&request.statement, place);
            if let Some(failure) = refused.or_else(|| copies(request.statement.traits)) {
                let failure = Failure { statement: number + 1, ..failure };
                self.refused.get_or_insert(failure);
            }
        }
        let parts = requests.len();
        let deadline = self.deadline.unwrap_or(Time::NEVER);
        let call = Call::new(Want::Segment, 0, deadline, requests, parts);
        self.calls.push(call.clone());
        call
    }

    /// Sends the segments, one behind the other.
    fn send(&mut self, state: &mut State) {
        let calls = std::mem::take(&mut self.calls);
        if let Some(failure) = self.refused.take() {
            return calls.iter().for_each(|call| state.fail(call, failure.clone()));
        }
        calls.windows(2).for_each(|pair| pair[0].lead(&pair[1]));
        if let Some(first) = calls.first() {
            calls.iter().skip(1).for_each(|call| state.time_out(call));
            state.begin(clock(), first);
        }
    }

    fn commands(&mut self, state: &mut State) -> Rc<Call> {
        let commands = std::mem::take(&mut self.commands);
        let deadline = self.deadline.unwrap_or(Time::NEVER);
        let parts = commands.len();
        let call = match self.is_atomic {
            true => {
                let leaves = commands.iter().map(Packed::leaves).collect();
                let want = Want::List(Packed::list(&commands), leaves);
                Call::new(want, 0, deadline, Vec::new(), 1)
            }
            false => Call::new(Want::Commands(commands), 0, deadline, Vec::new(), parts),
        };
        match self.refused.take() {
            Some(failure) => state.fail(&call, failure),
            None if parts == 0 => state.finish(&call, None),
            None => state.begin(clock(), &call),
        }
        call
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pipe_begin(
    client: *mut OtClient,
    options: *const OtOptions,
    pipe: *mut *mut OtPipe,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(client) };
    guard(of, std::ptr::null_mut(), || {
        place(pipe)?;
        // SAFETY: as above.
        let (client, options) = unsafe { (&handle(client)?.client, take(options)) };
        if flags_of(&options)? != 0 {
            return Err(misuse("a pipeline takes OT_ATOMIC alone"));
        }
        drop(enter(client)?);
        let deadline = Some(client.deadline(options.timeout_ms));
        let is_atomic = options.flags & options::ATOMIC != 0;
        let made = Pipe { is_atomic, deadline, ..Pipe::default() };
        Handle::give(client, made.into(), pipe);
        Ok(status::OK)
    })
}

/// Adds something to a pipeline. Why that can't be is said of all of it.
///
/// # Safety
/// As [`handle`].
unsafe fn add(
    pipe: *mut OtPipe,
    add: impl FnOnce(&mut State, &mut Pipe) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: as above.
    let of = unsafe { client_of(pipe) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(pipe) }?;
        let (mut state, mut pipe) = (enter(&it.client)?, it.of.borrow_mut());
        match add(&mut state, &mut pipe) {
            Err(failure) if failure.code != "misuse" => {
                let statement = pipe.segment.len().max(pipe.commands.len()) + 1;
                pipe.refused.get_or_insert(Failure { statement, ..failure });
                Ok(status::OK)
            }
            Err(failure) => Err(failure),
            Ok(()) => Ok(status::OK),
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pipe_query(
    pipe: *mut OtPipe,
    sql: *const u8,
    len: usize,
    args: *const OtValue,
    count: usize,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe {
        add(pipe, |state, pipe| {
            let request = request(state, (sql, len), (args, count))?;
            pipe.segment.push(request);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pipe_command(pipe: *mut OtPipe, args: *const OtValue, count: usize) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe {
        add(pipe, |_, pipe| {
            let on = if pipe.is_atomic { On::List } else { On::Client };
            let packed = command(&values(args, count)?, on)?;
            pipe.commands.push(packed);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pipe_sync(pipe: *mut OtPipe, call: *mut *mut OtCall) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe {
        let Ok(it) = handle(pipe) else { return status::MISUSE };
        add(pipe, |state, of| {
            let made = of.sync(state);
            if !call.is_null() {
                Handle::give(&it.client, made, call);
            }
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pipe_send(pipe: *mut OtPipe, call: *mut *mut OtCall) -> i32 {
    // SAFETY: C has promised what the header asks for.
    let of = unsafe { client_of(pipe) };
    guard(of, std::ptr::null_mut(), || {
        // SAFETY: as above.
        let it = unsafe { handle(pipe) }?;
        place(call)?;
        drop(enter(&it.client)?);
        // SAFETY: nobody uses it behind this.
        let Some(it) = (unsafe { take_back(pipe) }) else { return Ok(status::MISUSE) };
        let (client, mut pipe) = (&it.client, it.of.borrow_mut());
        let mut state = enter(client)?;
        let made = last(&mut state, &mut pipe, client);
        drop(state);
        Handle::give(client, made, call);
        Ok(status::OK)
    })
}

/// Sends all of it. Returns the call of its last part.
fn last(state: &mut State, pipe: &mut Pipe, client: &Client) -> Rc<Call> {
    if !is_of_postgres(state) {
        return pipe.commands(state);
    }
    if pipe.is_atomic || !pipe.commands.is_empty() {
        let why = "OT_ATOMIC and commands are for Redis: statements up to a sync point are atomic";
        pipe.refused.get_or_insert(misuse(why));
    }
    let made = pipe.sync(state);
    if made.look().requests.is_empty() && pipe.refused.is_none() {
        // Nothing is behind the last sync point: it is that of nothing.
        pipe.calls.pop();
        state.finish(&made, None);
    }
    pipe.send(state);
    debug_assert!(!client.is_forked());
    made
}

fn is_of_postgres(state: &State) -> bool {
    matches!(state.server, crate::state::Server::Postgres(_))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_pipe_free(pipe: *mut OtPipe) {
    // SAFETY: C has promised what the header asks for.
    let Some(it) = (unsafe { take_back(pipe) }) else { return };
    guard(Some(&it.client), std::ptr::null_mut(), || {
        let mut state = enter(&it.client)?;
        const WHY: &str = "its pipeline was left before it was sent";
        for call in std::mem::take(&mut it.of.borrow_mut().calls) {
            state.fail(&call, Failure::unsent("pipeline_left", WHY));
        }
        Ok(status::OK)
    });
}

/// A command as it is sent, where it may go.
pub(super) fn command(values: &[Value<'_>], on: On) -> Result<Packed, Failure> {
    let Some((name, arguments)) = values.split_first() else {
        return Err(misuse("a command has a name"));
    };
    let mut text = Vec::new();
    name.write_bare(&mut text);
    let name = String::from_utf8(text).map_err(|_| misuse("the name of a command is not text"))?;
    let mut words = name.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    words.for_each(|word| command.push(word.as_bytes()));
    for value in arguments {
        if matches!(value, Value::Null) {
            return Err(Failure::unsent("parameter", "Redis has no NULL"));
        }
        let mut bytes = Vec::new();
        value.write_bare(&mut bytes);
        command.push(&bytes);
    }
    if let Some(limit) = command.limit_passed() {
        return Err(Failure::unsent("parameter", format!("{name} has {limit}")));
    }
    let spec = Spec::of(&command);
    let place = spec.map_or(onetrip_redis::table::Place::Shared, |spec| spec.place(&command));
    if let Some(why) = refusal(&name.to_uppercase(), place, on) {
        return Err(Failure::unsent("refused_command", why));
    }
    if matches!(place, onetrip_redis::table::Place::Own) {
        let why = format!("{name} waits on a connection of its own, which this version has not");
        return Err(Failure::unsent("refused_command", why));
    }
    Ok(Packed::command(spec, &command))
}
