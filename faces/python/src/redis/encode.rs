//! Arguments of commands.

use onetrip_redis::{Command, ToArg};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PyMemoryView, PySet,
    PyString, PyTuple,
};

/// How deep lists may be nested, since they are unfolded.
const DEPTH_MAX: u32 = 8;

/// Adds these arguments. The error says what is wrong.
pub(super) fn arguments(
    command: &mut Command,
    name: &str,
    args: &Bound<'_, PyTuple>,
) -> Result<(), String> {
    for (number, arg) in args.iter().enumerate() {
        argument(command, &arg, 0)
            .map_err(|why| format!("argument {} of {name} {why}", number + 1))?;
    }
    command.limit_passed().map_or(Ok(()), |limit| Err(format!("{name} has {limit}")))
}

fn argument(command: &mut Command, arg: &Bound<'_, PyAny>, depth: u32) -> Result<(), String> {
    if let Ok(text) = arg.cast::<PyString>() {
        let text = text.to_str().map_err(|_| "has a surrogate, which is no text in UTF-8")?;
        command.push(text.as_bytes());
    } else if let Ok(bytes) = arg.cast::<PyBytes>() {
        command.push(bytes.as_bytes());
    } else if arg.is_instance_of::<PyBool>() {
        return Err("is a bool: give an int or a str".to_owned());
    } else if arg.is_instance_of::<PyInt>() {
        match arg.extract::<i64>() {
            Ok(number) => number.write_to(command),
            Err(_) => {
                let text = arg.str().map_err(|_| "is an int with too many digits")?;
                command.push(text.to_str().unwrap_or_default().as_bytes());
            }
        }
    } else if let Ok(number) = arg.cast::<PyFloat>() {
        number.value().write_to(command);
    } else if arg.is_instance_of::<PyByteArray>() || arg.is_instance_of::<PyMemoryView>() {
        let bytes = arg.py().get_type::<PyBytes>().call1((arg,)).map_err(|it| it.to_string())?;
        command.push(bytes.cast::<PyBytes>().map_or(&[][..], |bytes| bytes.as_bytes()));
    } else {
        return unfold(command, arg, depth);
    }
    Ok(())
}

/// The items of a list, or the pairs of a dict.
fn unfold(command: &mut Command, arg: &Bound<'_, PyAny>, depth: u32) -> Result<(), String> {
    if depth >= DEPTH_MAX {
        return Err(format!("is nested deeper than {DEPTH_MAX} lists"));
    }
    if let Ok(pairs) = arg.cast::<PyDict>() {
        // A copy: `str` of a key may be code of Python's, which may change the dict.
        for pair in pairs.items() {
            unfold(command, &pair, depth)?;
        }
        return Ok(());
    }
    let is_list = arg.is_instance_of::<PyList>()
        || arg.is_instance_of::<PyTuple>()
        || arg.is_instance_of::<PySet>()
        || arg.is_instance_of::<PyFrozenSet>();
    if !is_list {
        let kind = arg.get_type();
        return Err(format!(
            "is a {}: give str, bytes, int, float, or a list or dict of these",
            kind.name().map_or_else(|_| String::new(), |name| name.to_string())
        ));
    }
    let items = arg.try_iter().map_err(|error| error.to_string())?;
    for item in items {
        argument(command, &item.map_err(|error| error.to_string())?, depth + 1)?;
    }
    Ok(())
}
