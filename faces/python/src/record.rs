//! `Record`: a row, whose values are got at by place and by name. One allocation each.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice, PyString, PyTuple, PyType};

/// The names of the columns of a result, shared by its rows.
#[pyclass(frozen, module = "onetrip")]
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) names: Py<PyTuple>,
    places: Py<PyDict>,
}

impl Names {
    /// Of several columns of one name, the last is meant by it.
    pub(crate) fn new<'a>(
        py: Python<'_>,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> PyResult<Names> {
        let names: Vec<_> = names.map(|name| PyString::new(py, name)).collect();
        let places = PyDict::new(py);
        for (place, name) in names.iter().enumerate() {
            places.set_item(name, place)?;
        }
        Ok(Names { names: PyTuple::new(py, names)?.unbind(), places: places.unbind() })
    }
}

#[repr(C)]
struct Object {
    base: ffi::PyVarObject,
    /// A `Names`; it lives as long as the row.
    names: *mut ffi::PyObject,
    values: [*mut ffi::PyObject; 0],
}

/// A row that is being filled.
pub(crate) struct Filling<'py> {
    row: Bound<'py, PyAny>,
    at: usize,
    /// The collector knows it.
    is_tracked: bool,
}

impl<'py> Filling<'py> {
    /// A row of this type with so many places, which are all to be filled.
    pub(crate) fn new(
        type_: &Bound<'py, PyType>,
        names: &Bound<'py, Names>,
        len: usize,
    ) -> PyResult<Filling<'py>> {
        let py = names.py();
        let (type_, is_own) = (type_.as_type_ptr(), type_.is(record_type(py)?));
        // SAFETY: `type_` is Record or derived from it. All values are NULL at first, so
        // a row that stays half filled can be dropped.
        unsafe {
            let row = match is_own {
                true => {
                    let row = ffi::PyObject_GC_NewVar::<ffi::PyObject>(type_, len as isize);
                    if !row.is_null() {
                        std::ptr::write_bytes(values(row), 0, len);
                    }
                    row
                }
                false => ffi::PyType_GenericAlloc(type_, len as isize),
            };
            let row = Bound::from_owned_ptr_or_err(py, row)?;
            (*row.as_ptr().cast::<Object>()).names = names.clone().into_ptr();
            Ok(Filling { row, at: 0, is_tracked: !is_own })
        }
    }

    /// Fills the next place. Not more often than there are places.
    #[inline]
    pub(crate) fn push(&mut self, value: Bound<'py, PyAny>) {
        // SAFETY: the place is there, which is looked at, and was empty.
        unsafe {
            let row = self.row.as_ptr();
            assert!(self.at < ffi::Py_SIZE(row) as usize, "a row has no more places");
            *values(row).add(self.at) = value.into_ptr();
        }
        self.at += 1;
    }

    /// The row, of which nothing is to be found by the collector where its values are `plain`.
    pub(crate) fn done(self, plain: bool) -> Bound<'py, PyAny> {
        if !plain && !self.is_tracked {
            // SAFETY: it is complete, and not tracked yet.
            unsafe { ffi::PyObject_GC_Track(self.row.as_ptr().cast()) };
        }
        self.row
    }
}

/// A row that no server has sent, for tests of programs: the places of its names, and its values. A
/// place that is none, or has no value, is an error where it is looked at.
#[pyfunction]
pub(crate) fn record_of<'py>(
    places: &Bound<'py, PyDict>,
    values: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = values.py();
    let (names, places) = (places.keys().to_tuple().unbind(), places.copy()?.unbind());
    let names = Bound::new(py, Names { names, places })?;
    let mut row = Filling::new(record_type(py)?, &names, values.len())?;
    values.iter().for_each(|value| row.push(value));
    Ok(row.done(false))
}

/// The type `Record`.
pub(crate) fn record_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(TYPE.get_or_try_init(py, || make_type(py))?.bind(py))
}

fn make_type(py: Python<'_>) -> PyResult<Py<PyType>> {
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let method =
        |name: &'static std::ffi::CStr, meth: ffi::PyCFunction, flags: c_int| ffi::PyMethodDef {
            ml_name: name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: meth },
            ml_flags: flags,
            ml_doc: ptr::null(),
        };
    // They live as long as the type, which is for ever.
    let methods = Box::leak(Box::new([
        method(c"get", get, ffi::METH_VARARGS),
        method(c"keys", keys, ffi::METH_NOARGS),
        method(c"values", all_values, ffi::METH_NOARGS),
        method(c"items", items, ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ]));
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_hash, hash as *mut c_void),
        slot(ffi::Py_tp_richcompare, compare as *mut c_void),
        slot(ffi::Py_tp_iter, iter as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_sq_length, length as *mut c_void),
        slot(ffi::Py_sq_item, item as *mut c_void),
        slot(ffi::Py_sq_contains, contains as *mut c_void),
        slot(ffi::Py_mp_length, length as *mut c_void),
        slot(ffi::Py_mp_subscript, subscript as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, ptr::null_mut()),
    ];
    let flags = ffi::Py_TPFLAGS_DEFAULT
        | ffi::Py_TPFLAGS_HAVE_GC
        | ffi::Py_TPFLAGS_BASETYPE
        | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = ffi::PyType_Spec {
        name: c"onetrip.Record".as_ptr(),
        basicsize: offset_of!(Object, values) as c_int,
        itemsize: size_of::<*mut ffi::PyObject>() as c_int,
        flags: flags as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the slots have the signatures that CPython wants of them, and are copied.
    unsafe {
        let type_ = Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))?;
        Ok(type_.cast_into::<PyType>()?.unbind())
    }
}

// --- what CPython calls. Each gets a Record, and holds the GIL. ---

/// The values of a row: NULL where it was not filled.
///
/// SAFETY: `row` is a Record.
unsafe fn values(row: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
    // SAFETY: promised above.
    unsafe { (&raw mut (*row.cast::<Object>()).values).cast() }
}

unsafe extern "C" fn dealloc(row: *mut ffi::PyObject) {
    // SAFETY: nobody has it any more.
    unsafe {
        ffi::PyObject_GC_UnTrack(row.cast());
        for place in 0..ffi::Py_SIZE(row) {
            ffi::Py_XDECREF(*values(row).offset(place));
        }
        ffi::Py_XDECREF((*row.cast::<Object>()).names);
        let type_ = ffi::Py_TYPE(row);
        if let Some(free) = (*type_).tp_free {
            free(row.cast());
        }
        ffi::Py_DECREF(type_.cast());
    }
}

unsafe extern "C" fn traverse(
    row: *mut ffi::PyObject,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: as the collector wants it.
    unsafe {
        let own = [ffi::Py_TYPE(row).cast::<ffi::PyObject>(), (*row.cast::<Object>()).names];
        let values = (0..ffi::Py_SIZE(row)).map(|place| *values(row).offset(place));
        for object in own.into_iter().chain(values).filter(|object| !object.is_null()) {
            let stop = visit(object, arg);
            if stop != 0 {
                return stop;
            }
        }
        0
    }
}

/// A Record that CPython lends for a call.
#[derive(Clone, Copy)]
struct Row<'py>(Borrowed<'py, 'py, PyAny>);

impl<'py> Row<'py> {
    fn py(self) -> Python<'py> {
        self.0.py()
    }

    fn values(self) -> &'py [Py<PyAny>] {
        // SAFETY: it is a Record with as many as its size says, all of which were filled before
        // anybody but the collector saw it.
        unsafe {
            let row = self.0.as_ptr();
            std::slice::from_raw_parts(values(row).cast(), ffi::Py_SIZE(row) as usize)
        }
    }

    fn names(self) -> &'py Names {
        // SAFETY: they are a `Names`, and live as long as the row.
        let names = unsafe {
            Borrowed::from_ptr(self.py(), (*self.0.as_ptr().cast::<Object>()).names)
                .cast_unchecked::<Names>()
        };
        names.get()
    }

    fn tuple(self) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(self.py(), self.values())
    }

    fn value(self, place: isize) -> PyResult<Bound<'py, PyAny>> {
        let value = usize::try_from(place).ok().and_then(|place| self.values().get(place));
        let value = value.map(|value| value.bind(self.py()).clone());
        value.ok_or_else(|| PyIndexError::new_err("record index out of range"))
    }

    /// By the name of a column.
    fn named(self, name: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let place = self.names().places.bind(self.py()).get_item(name)?;
        let value = |place: Bound<'py, PyAny>| place.extract().and_then(|place| self.value(place));
        let wrong = |_| PyRuntimeError::new_err("invalid record descriptor");
        place.map(value).transpose().map_err(wrong)
    }

    /// By a name, a place, or a slice of places.
    fn at(self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let len = self.values().len() as isize;
        if let Ok(slice) = key.cast::<PySlice>() {
            let part = slice.indices(len)?;
            let places = (0..part.slicelength).map(|at| part.start + at as isize * part.step);
            let values = places.map(|place| self.value(place)).collect::<PyResult<Vec<_>>>()?;
            return Ok(PyTuple::new(self.py(), values)?.into_any());
        }
        // SAFETY: it looks at the type of a live object.
        let is_place = unsafe { ffi::PyIndex_Check(key.as_ptr()) } != 0;
        if !key.is_instance_of::<PyString>() && is_place {
            let place = key.extract::<isize>();
            let place = place.map_err(|_| PyIndexError::new_err("record index out of range"))?;
            return self.value(if place < 0 { place + len } else { place });
        }
        self.named(key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn repr(self) -> PyResult<Bound<'py, PyAny>> {
        let mut text = format!("<{}", self.0.get_type().name()?);
        let names = self.names().names.bind(self.py());
        if names.len() < self.values().len() {
            return Err(PyRuntimeError::new_err("invalid record mapping: a value has no name"));
        }
        for (name, value) in names.iter().zip(self.values()) {
            text += &format!(" {}={}", name.str()?, value.bind(self.py()).repr()?);
        }
        Ok(PyString::new(self.py(), &(text + ">")).into_any())
    }
}

/// What a slot gives: a new reference, or NULL and an error.
///
/// SAFETY: `row` is a Record that is lent for this call, in which the GIL is held.
unsafe fn given<'py>(
    row: *mut ffi::PyObject,
    act: impl FnOnce(Row<'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: promised above.
    let row = Row(unsafe { Borrowed::from_ptr(Python::assume_attached(), row) });
    match act(row) {
        Ok(value) => value.into_ptr(),
        Err(error) => {
            error.restore(row.py());
            ptr::null_mut()
        }
    }
}

/// The same where it gives a number; -1 for an error.
///
/// SAFETY: as above.
unsafe fn number<'py>(
    row: *mut ffi::PyObject,
    act: impl FnOnce(Row<'py>) -> PyResult<isize>,
) -> isize {
    // SAFETY: promised above.
    let row = Row(unsafe { Borrowed::from_ptr(Python::assume_attached(), row) });
    act(row).unwrap_or_else(|error| {
        error.restore(row.py());
        -1
    })
}

/// A slot with this name, and what it gives.
macro_rules! slots {
    ($($name:ident($($argument:ident: $type:ty),*) by $by:ident -> $gives:ty = $act:expr;)*) => {
        $(unsafe extern "C" fn $name(row: *mut ffi::PyObject, $($argument: $type),*) -> $gives {
            // SAFETY: CPython lends the row and the arguments, and holds the GIL.
            unsafe { $by(row, $act) as $gives }
        })*
    };
}

slots! {
    hash() by number -> ffi::Py_hash_t = |row| row.tuple()?.hash();
    iter() by given -> *mut ffi::PyObject = |row| Ok(row.tuple()?.try_iter()?.into_any());
    length() by number -> ffi::Py_ssize_t = |row| Ok(row.values().len() as isize);
    item(place: ffi::Py_ssize_t) by given -> *mut ffi::PyObject = |row| row.value(place);
    contains(name: *mut ffi::PyObject) by number -> c_int =
        |row| Ok(row.named(&Bound::from_borrowed_ptr(row.py(), name))?.is_some().into());
    subscript(key: *mut ffi::PyObject) by given -> *mut ffi::PyObject =
        |row| row.at(&Bound::from_borrowed_ptr(row.py(), key));
    keys(_none: *mut ffi::PyObject) by given -> *mut ffi::PyObject =
        |row| Ok(row.names().names.bind(row.py()).try_iter()?.into_any());
    all_values(_none: *mut ffi::PyObject) by given -> *mut ffi::PyObject =
        |row| Ok(row.tuple()?.try_iter()?.into_any());
    items(_none: *mut ffi::PyObject) by given -> *mut ffi::PyObject = |row| {
        let items = row.names().names.bind(row.py()).iter().zip(row.values());
        let items = items.map(|item| item.into_pyobject(row.py()));
        let items = items.collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(row.py(), items)?.try_iter()?.into_any())
    };
    repr() by given -> *mut ffi::PyObject = Row::repr;
    get(args: *mut ffi::PyObject) by given -> *mut ffi::PyObject = |row| {
        let args = Bound::from_borrowed_ptr(row.py(), args).cast_into_unchecked::<PyTuple>();
        let none = || Ok(row.py().None().into_bound(row.py()));
        match args.as_slice() {
            [name] => row.named(name)?.map_or_else(none, Ok),
            [name, otherwise] => Ok(row.named(name)?.unwrap_or_else(|| otherwise.clone())),
            _ => Err(PyTypeError::new_err("get takes a name, and what is given without it")),
        }
    };
    compare(other: *mut ffi::PyObject, how: c_int) by given -> *mut ffi::PyObject = |row| {
        let other = Bound::from_borrowed_ptr(row.py(), other);
        let own = record_type(row.py())?;
        let other = match other.is_instance(own)? {
            true => Row(Borrowed::from_ptr(row.py(), other.as_ptr())).tuple()?.into_any(),
            false => other,
        };
        match row.0.is_instance(own)? && other.is_instance_of::<PyTuple>() {
            true => row.tuple()?.rich_compare(&other, order(how)),
            false => Ok(row.py().NotImplemented().into_bound(row.py())),
        }
    };
}

fn order(how: c_int) -> CompareOp {
    CompareOp::from_raw(how).unwrap_or(CompareOp::Eq)
}
