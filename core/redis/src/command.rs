//! Commands as they are sent: arrays of length-prefixed strings, so that no byte of an argument has
//! a meaning for the protocol.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// The longest argument that a server accepts by default: 512 MiB (`proto-max-bulk-len` in
/// redis.conf). It closes the connection if an argument is longer.
pub const ARGUMENT_BYTES_MAX: usize = 512 << 20;

/// How many arguments a command may have, its name included: 1,048,576. Servers before 7.0 close
/// the connection if there are more (`processMultibulkBuffer` in networking.c).
pub const ARGUMENTS_MAX: usize = 1 << 20;

/// One command with its arguments.
///
/// ```
/// use onetrip_redis::Command;
///
/// let command = Command::new("SET").arg("greeting").arg("hello").arg("EX").arg(60);
/// assert_eq!(command.name(), b"SET");
/// assert_eq!(command.iter().count(), 5);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Command {
    /// The arguments as they are sent, without the length of the array.
    bytes: Vec<u8>,
    count: usize,
    /// The length of the longest argument.
    longest: usize,
}

impl Command {
    /// A command by its name. A subcommand follows after a space: `CLIENT GETNAME`.
    #[must_use]
    pub fn new(name: &str) -> Command {
        let mut command = Command { bytes: Vec::with_capacity(192), count: 0, longest: 0 };
        for word in name.split_ascii_whitespace() {
            command.push(word.as_bytes());
        }
        command
    }

    /// Adds an argument. One that is longer than [`ARGUMENT_BYTES_MAX`] is not kept, only its
    /// length; the command can't be sent then.
    #[must_use]
    pub fn arg(mut self, value: impl ToArg) -> Command {
        value.write_to(&mut self);
        self
    }

    /// Adds each of these as an argument.
    #[must_use]
    pub fn args<I>(mut self, values: I) -> Command
    where
        I: IntoIterator,
        I::Item: ToArg,
    {
        for value in values {
            value.write_to(&mut self);
        }
        self
    }

    /// Adds an argument in place.
    pub fn push(&mut self, bytes: &[u8]) {
        self.count += 1;
        self.longest = self.longest.max(bytes.len());
        if bytes.len() > ARGUMENT_BYTES_MAX {
            return;
        }
        self.bytes.reserve(bytes.len() + LENGTH_MAX + 2);
        match u8::try_from(bytes.len()) {
            // Names and short keys.
            Ok(len @ 0..10) => self.bytes.extend_from_slice(&[b'$', b'0' + len, b'\r', b'\n']),
            _ => put_length(&mut self.bytes, b'$', bytes.len()),
        }
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The first argument as it was given, in any case of letters; empty if there is none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.iter().next().unwrap_or_default()
    }

    /// The arguments, including the name.
    #[must_use]
    pub fn iter(&self) -> Args<'_> {
        Args { rest: &self.bytes }
    }

    /// The number of arguments, including the name.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The length of its longest argument, in bytes.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// What it has more of than servers take, in words; `None` if it can be sent.
    #[must_use]
    pub fn limit_passed(&self) -> Option<&'static str> {
        if self.longest > ARGUMENT_BYTES_MAX {
            return Some("an argument of more than 512 MiB");
        }
        (self.count > ARGUMENTS_MAX).then_some("more than 1,048,576 arguments")
    }

    /// The most bytes that it takes when it is sent.
    #[must_use]
    pub fn len_max(&self) -> usize {
        self.bytes.len() + LENGTH_MAX
    }

    /// The command as it is sent, in two parts.
    #[must_use]
    pub fn parts(&self) -> (Head, &[u8]) {
        let mut head = Head { bytes: [0; LENGTH_MAX], len: 0 };
        let mut rest = &mut head.bytes[..];
        put_length(&mut rest, b'*', self.count);
        head.len = LENGTH_MAX - rest.len();
        (head, &self.bytes)
    }

    /// Its arguments as they are sent.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the command as it is sent.
    pub fn encode(&self, out: &mut BytesMut) {
        self.encode_behind(&[], out);
    }

    /// The same, with further arguments in front.
    pub fn encode_behind(&self, front: &[&[u8]], out: &mut BytesMut) {
        out.reserve(self.len_max());
        put_length(out, b'*', front.len() + self.count);
        for argument in front {
            put_length(out, b'$', argument.len());
            out.extend_from_slice(argument);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(&self.bytes);
    }
}

/// Shows the name and the number of arguments: arguments may hold secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({}, {} arguments)", self.name().escape_ascii(), self.count)
    }
}

/// The arguments of a command, in order.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let digits = self.rest.get(1..)?;
        let end = digits.iter().position(|&byte| byte == b'\r')?;
        let len = digits[..end].iter().fold(0, |len, digit| len * 10 + usize::from(digit - b'0'));
        let (bytes, rest) = digits[end + 2..].split_at(len);
        self.rest = &rest[2..];
        Some(bytes)
    }
}

/// The line in front of the arguments of a command.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; LENGTH_MAX],
    len: usize,
}

impl std::ops::Deref for Head {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A type byte, the digits of a length, and a line end.
const LENGTH_MAX: usize = 23;

pub(crate) fn put_length(out: &mut impl BufMut, kind: u8, len: usize) {
    out.put_u8(kind);
    Digits::of(len as u64, |digits| out.put_slice(digits));
    out.put_slice(b"\r\n");
}

/// Formats decimal digits without an allocation.
pub(crate) struct Digits;

impl Digits {
    pub(crate) fn of<R>(mut value: u64, take: impl FnOnce(&[u8]) -> R) -> R {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                return take(&digits[at..]);
            }
        }
    }
}

/// A value that can be an argument of a command: strings and bytes unchanged, numbers in decimal.
pub trait ToArg {
    /// Adds it to a command, as exactly one argument.
    fn write_to(&self, command: &mut Command);
}

impl<T: ToArg + ?Sized> ToArg for &T {
    fn write_to(&self, command: &mut Command) {
        (**self).write_to(command);
    }
}

macro_rules! bytes_to_arg {
    ($($type:ty),*) => {$(
        impl ToArg for $type {
            fn write_to(&self, command: &mut Command) {
                command.push(self.as_ref());
            }
        }
    )*};
}

bytes_to_arg!(str, String, [u8], Vec<u8>, Bytes, BytesMut, std::borrow::Cow<'_, [u8]>);

impl ToArg for std::borrow::Cow<'_, str> {
    fn write_to(&self, command: &mut Command) {
        command.push(self.as_bytes());
    }
}

impl<const N: usize> ToArg for [u8; N] {
    fn write_to(&self, command: &mut Command) {
        command.push(self);
    }
}

macro_rules! unsigned_to_arg {
    ($($type:ty),*) => {$(
        impl ToArg for $type {
            fn write_to(&self, command: &mut Command) {
                Digits::of(*self as u64, |digits| command.push(digits));
            }
        }
    )*};
}

unsigned_to_arg!(u8, u16, u32, u64, usize);

macro_rules! signed_to_arg {
    ($($type:ty),*) => {$(
        impl ToArg for $type {
            fn write_to(&self, command: &mut Command) {
                if *self >= 0 {
                    return Digits::of(*self as u64, |digits| command.push(digits));
                }
                Digits::of(self.unsigned_abs() as u64, |digits| {
                    let mut text = [b'-'; 21];
                    text[1..=digits.len()].copy_from_slice(digits);
                    command.push(&text[..=digits.len()]);
                });
            }
        }
    )*};
}

signed_to_arg!(i8, i16, i32, i64, isize);

macro_rules! float_to_arg {
    ($($type:ty),*) => {$(
        /// In the shortest decimal form that reads back as the same number. Infinities and NaN are
        /// `inf`, `-inf` and `nan`, as Redis spells them.
        impl ToArg for $type {
            fn write_to(&self, command: &mut Command) {
                let text = if self.is_nan() { String::from("nan") } else { self.to_string() };
                command.push(text.as_bytes());
            }
        }
    )*};
}

float_to_arg!(f32, f64);
