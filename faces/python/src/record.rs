//! `Record`: a row, whose values are got at by place and by name. One allocation each.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

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

/// SAFETY: `row` is a Record.
unsafe fn values(row: *mut ffi::PyObject) -> *mut *mut ffi::PyObject {
    // SAFETY: promised above.
    unsafe { (&raw mut (*row.cast::<Object>()).values).cast() }
}

/// The values of a row as a tuple.
///
/// SAFETY: `row` is a Record.
unsafe fn tuple(
    row: *mut ffi::PyObject,
    from: isize,
    step: isize,
    len: isize,
) -> *mut ffi::PyObject {
    // SAFETY: a new tuple is filled before anybody sees it; the places are of the row.
    unsafe {
        let tuple = ffi::PyTuple_New(len);
        if !tuple.is_null() {
            for place in 0..len {
                let value = *values(row).offset(from + place * step);
                ffi::PyTuple_SET_ITEM(tuple, place, ffi::Py_NewRef(value));
            }
        }
        tuple
    }
}

unsafe fn whole(row: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { tuple(row, 0, 1, ffi::Py_SIZE(row)) }
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

unsafe extern "C" fn hash(row: *mut ffi::PyObject) -> ffi::Py_hash_t {
    // SAFETY: a tuple of ours.
    unsafe {
        let tuple = whole(row);
        if tuple.is_null() {
            return -1;
        }
        let hash = ffi::PyObject_Hash(tuple);
        ffi::Py_DECREF(tuple);
        hash
    }
}

unsafe extern "C" fn compare(
    row: *mut ffi::PyObject,
    other: *mut ffi::PyObject,
    how: c_int,
) -> *mut ffi::PyObject {
    // SAFETY: which is a Record is looked at; tuples are ours.
    unsafe {
        let py = Python::assume_attached();
        let is_row = |it: *mut ffi::PyObject| {
            record_type(py).is_ok_and(|of| ffi::PyObject_TypeCheck(it, of.as_type_ptr()) != 0)
        };
        if !is_row(row) || !(is_row(other) || ffi::PyTuple_Check(other) != 0) {
            return ffi::Py_NewRef(ffi::Py_NotImplemented());
        }
        let left = whole(row);
        let right = if is_row(other) { whole(other) } else { ffi::Py_NewRef(other) };
        let result = match left.is_null() || right.is_null() {
            true => ptr::null_mut(),
            false => ffi::PyObject_RichCompare(left, right, how),
        };
        ffi::Py_XDECREF(left);
        ffi::Py_XDECREF(right);
        result
    }
}

unsafe extern "C" fn iter(row: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let tuple = whole(row);
        if tuple.is_null() {
            return tuple;
        }
        let iter = ffi::PyObject_GetIter(tuple);
        ffi::Py_DECREF(tuple);
        iter
    }
}

unsafe extern "C" fn length(row: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: it has a size.
    unsafe { ffi::Py_SIZE(row) }
}

unsafe extern "C" fn item(row: *mut ffi::PyObject, place: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: the place is looked at.
    unsafe {
        if place < 0 || place >= ffi::Py_SIZE(row) {
            ffi::PyErr_SetString(ffi::PyExc_IndexError, c"record index out of range".as_ptr());
            return ptr::null_mut();
        }
        ffi::Py_NewRef(*values(row).offset(place))
    }
}

/// The place of a column of this name: -1 for none, -2 for an error.
unsafe fn place_of(row: *mut ffi::PyObject, name: *mut ffi::PyObject) -> isize {
    // SAFETY: the names are a `Names`, and live as long as the row; they are borrowed.
    unsafe {
        let py = Python::assume_attached();
        let names = Borrowed::from_ptr(py, (*row.cast::<Object>()).names);
        let names = names.cast_unchecked::<Names>();
        let place = ffi::PyDict_GetItemWithError(names.get().places.as_ptr(), name);
        match place.is_null() {
            false => ffi::PyLong_AsSsize_t(place),
            true if ffi::PyErr_Occurred().is_null() => -1,
            true => -2,
        }
    }
}

unsafe extern "C" fn contains(row: *mut ffi::PyObject, name: *mut ffi::PyObject) -> c_int {
    // SAFETY: as above.
    match unsafe { place_of(row, name) } {
        -2 => -1,
        place => c_int::from(place >= 0),
    }
}

unsafe extern "C" fn subscript(
    row: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: places are looked at, and so is what the key is.
    unsafe {
        let len = ffi::Py_SIZE(row);
        if ffi::PyUnicode_Check(key) == 0 {
            if ffi::PyIndex_Check(key) != 0 {
                let place = ffi::PyNumber_AsSsize_t(key, ffi::PyExc_IndexError);
                if place == -1 && !ffi::PyErr_Occurred().is_null() {
                    return ptr::null_mut();
                }
                return item(row, if place < 0 { place + len } else { place });
            }
            if ffi::PySlice_Check(key) != 0 {
                let (mut from, mut to, mut step) = (0, 0, 0);
                if ffi::PySlice_Unpack(key, &raw mut from, &raw mut to, &raw mut step) < 0 {
                    return ptr::null_mut();
                }
                let count = ffi::PySlice_AdjustIndices(len, &raw mut from, &raw mut to, step);
                return tuple(row, from, step, count);
            }
        }
        match place_of(row, key) {
            place @ 0.. => item(row, place),
            -1 => {
                ffi::PyErr_SetObject(ffi::PyExc_KeyError, key);
                ptr::null_mut()
            }
            _ => ptr::null_mut(),
        }
    }
}

unsafe extern "C" fn get(row: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: CPython takes the arguments apart, and lends them.
    unsafe {
        let (mut name, mut otherwise) = (ptr::null_mut::<ffi::PyObject>(), ffi::Py_None());
        let form = c"O|O:get".as_ptr();
        if ffi::PyArg_ParseTuple(args, form, &raw mut name, &raw mut otherwise) == 0 {
            return ptr::null_mut();
        }
        match place_of(row, name) {
            place @ 0.. => item(row, place),
            -1 => ffi::Py_NewRef(otherwise),
            _ => ptr::null_mut(),
        }
    }
}

/// The names, as a new reference to a tuple.
unsafe fn names(row: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as in `place_of`.
    unsafe {
        let py = Python::assume_attached();
        let names = Borrowed::from_ptr(py, (*row.cast::<Object>()).names);
        ffi::Py_NewRef(names.cast_unchecked::<Names>().get().names.as_ptr())
    }
}

unsafe extern "C" fn keys(row: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe {
        let names = names(row);
        let iter = ffi::PyObject_GetIter(names);
        ffi::Py_DECREF(names);
        iter
    }
}

unsafe extern "C" fn all_values(
    row: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above.
    unsafe { iter(row) }
}

unsafe extern "C" fn items(row: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: names and values are tuples of one length, and ours.
    unsafe {
        let zip = (&raw mut ffi::PyZip_Type).cast();
        let (names, values) = (names(row), whole(row));
        let end = ptr::null_mut::<ffi::PyObject>();
        let items = match values.is_null() {
            true => end,
            false => ffi::PyObject_CallFunctionObjArgs(zip, names, values, end),
        };
        ffi::Py_DECREF(names);
        ffi::Py_XDECREF(values);
        items
    }
}

unsafe extern "C" fn repr(row: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the row is borrowed for this call.
    let text = unsafe {
        let py = Python::assume_attached();
        let row = Borrowed::from_ptr(py, row);
        let names = Bound::from_owned_ptr(py, names(row.as_ptr()));
        let values = Bound::from_owned_ptr_or_err(py, whole(row.as_ptr()));
        values.and_then(|values| written(&row, &names, &values))
    };
    match text {
        Ok(text) => text.into_ptr(),
        Err(error) => {
            // SAFETY: the GIL is held.
            error.restore(unsafe { Python::assume_attached() });
            ptr::null_mut()
        }
    }
}

fn written<'py>(
    row: &Bound<'py, PyAny>,
    names: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyString>> {
    let mut text = format!("<{}", row.get_type().name()?);
    for (name, value) in names.try_iter()?.zip(values.try_iter()?) {
        text += &format!(" {}={}", name?.str()?, value?.repr()?);
    }
    Ok(PyString::new(names.py(), &(text + ">")))
}
