//! Results and their values.

use super::take_back_result;
use crate::ffi::OtText;
use crate::result::OtResult;
use crate::status;

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_result_free(result: *mut OtResult) {
    // SAFETY: C has promised what the header asks for.
    drop(unsafe { take_back_result(result) });
}

/// Reads a result.
///
/// # Safety
/// Both are null, or lead to what they say.
unsafe fn read<T>(
    of: *const OtResult,
    out: *mut T,
    read: impl FnOnce(&OtResult) -> Result<T, i32>,
) -> i32 {
    // SAFETY: as above.
    let (of, out) = unsafe { (of.as_ref(), out.as_mut()) };
    let (Some(of), Some(out)) = (of, out) else { return status::MISUSE };
    match read(of) {
        Ok(value) => {
            *out = value;
            status::OK
        }
        Err(status) => status,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_rows(of: *const OtResult) -> usize {
    // SAFETY: C has promised what the header asks for.
    unsafe { of.as_ref() }.map_or(0, |it| it.rows)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_columns(of: *const OtResult) -> usize {
    // SAFETY: C has promised what the header asks for.
    unsafe { of.as_ref() }.map_or(0, |it| it.columns.len())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_affected(of: *const OtResult) -> u64 {
    // SAFETY: C has promised what the header asks for.
    unsafe { of.as_ref() }.map_or(0, |it| it.affected)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_tag(of: *const OtResult, out: *mut OtText) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| Ok(OtText::of(it.tag.as_bytes()))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_copy_data(of: *const OtResult, out: *mut OtText) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| Ok(OtText::of(&it.data))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_parts(of: *const OtResult) -> usize {
    // SAFETY: C has promised what the header asks for.
    unsafe { of.as_ref() }.map_or(0, |it| it.parts.len())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_part(of: *const OtResult, at: usize, out: *mut *const OtResult) -> i32 {
    let part = |it: &OtResult| it.parts.get(at).map(|it| &raw const *it).ok_or(status::RANGE);
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, part) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_column_name(of: *const OtResult, column: usize, out: *mut OtText) -> i32 {
    let name = |it: &OtResult| {
        let column = it.columns.get(column).ok_or(status::RANGE)?;
        Ok(OtText::of(column.name.as_bytes()))
    };
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_column_type(of: *const OtResult, column: usize, out: *mut u32) -> i32 {
    let type_of = |it: &OtResult| Ok(it.columns.get(column).ok_or(status::RANGE)?.type_oid);
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, type_of) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_get_text(
    of: *const OtResult,
    row: usize,
    column: usize,
    out: *mut OtText,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| Ok(OtText::of(it.value(row, column)?.1))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_get_i64(
    of: *const OtResult,
    row: usize,
    column: usize,
    out: *mut i64,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| it.parsed((row, column), |text| text.parse().ok())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_get_f64(
    of: *const OtResult,
    row: usize,
    column: usize,
    out: *mut f64,
) -> i32 {
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| it.parsed((row, column), |text| text.parse().ok())) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_get_bool(
    of: *const OtResult,
    row: usize,
    column: usize,
    out: *mut i32,
) -> i32 {
    let truth = |text: &str| match text {
        "t" => Some(1),
        "f" => Some(0),
        _ => None,
    };
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, |it| it.parsed((row, column), truth)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ot_get_bytes(
    of: *const OtResult,
    row: usize,
    column: usize,
    out: *mut OtText,
) -> i32 {
    let bytes = |it: &OtResult| {
        let bytes = it.bytes(row, column)?;
        // SAFETY: they stay where they are until the result is freed.
        Ok(OtText::of(unsafe { &*bytes }))
    };
    // SAFETY: C has promised what the header asks for.
    unsafe { read(of, out, bytes) }
}
