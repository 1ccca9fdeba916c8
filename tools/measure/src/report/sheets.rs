//! `results.xlsx`: a sheet for each table of medians, the settings, and one with all cells.

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::flat::{self, FIELDS, Value};
use super::grid::Grid;
use super::setting;
use super::tables::{self, Titled, presets};
use crate::error::{Error, Result};
use crate::results::Results;

/// As it stands in the file.
pub(super) fn bytes(results: &Results) -> Result<Vec<u8>> {
    workbook(results)
        .and_then(|mut book| book.save_to_buffer())
        .map_err(|error| Error::new(format!("can't write the results as a spreadsheet: {error}")))
}

fn workbook(results: &Results) -> std::result::Result<Workbook, XlsxError> {
    let mut book = Workbook::new();
    let mut names = Vec::new();
    for titled in presets(results).iter().flat_map(|it| tables::tables(results, *it)) {
        let sheet = book.add_worksheet();
        sheet.set_name(free_name(&titled.title, &mut names))?;
        write_grid(sheet, &titled)?;
    }
    let sheet = book.add_worksheet();
    sheet.set_name(free_name("all cells", &mut names))?;
    write_cells(sheet, results)?;
    let sheet = book.add_worksheet();
    sheet.set_name(free_name("settings", &mut names))?;
    write_settings(sheet, results)?;
    Ok(book)
}

/// A name that a spreadsheet allows and that no other sheet has.
fn free_name(title: &str, taken: &mut Vec<String>) -> String {
    let allowed = |c: char| !matches!(c, '[' | ']' | ':' | '*' | '?' | '/' | '\\' | '\'');
    let base: String = title.chars().filter(|it| allowed(*it) && !it.is_control()).collect();
    let cut = |length: usize| base.chars().take(length).collect::<String>().trim().to_owned();
    let numbered = (1..).map(|i| match i {
        1 => cut(NAME_CHARS),
        i => format!("{} {i}", cut(NAME_CHARS - 5)),
    });
    let is_free = |name: &String| {
        !name.is_empty() && taken.iter().all(|it| it.to_lowercase() != name.to_lowercase())
    };
    let name = numbered.take(10_000).find(is_free).unwrap_or_default();
    taken.push(name.clone());
    name
}

/// The most that spreadsheet programs take.
const NAME_CHARS: usize = 31;

/// Medians alone, so that they can be reckoned with: rows down, columns across.
fn write_grid(sheet: &mut Worksheet, titled: &Titled) -> std::result::Result<(), XlsxError> {
    let grid: &Grid = &titled.grid;
    let bold = Format::new().set_bold();
    let corner = format!("{} ({}, medians)", grid.corner, grid.what);
    sheet.write_string_with_format(0, 0, &corner, &bold)?;
    for (i, column) in (1..).zip(&grid.columns) {
        match column.label == format!("{} tasks", column.at) {
            true => sheet.write_number_with_format(0, i, column.at, &bold)?,
            false => sheet.write_string_with_format(0, i, &column.label, &bold)?,
        };
    }
    for (i, row) in (1..).zip(&grid.rows) {
        sheet.write_string(i, 0, &row.label)?;
        for (column, figure) in row.known() {
            sheet.write_number(i, column as u16 + 1, figure.spread.median)?;
        }
    }
    finish(sheet, 40.0)
}

fn write_cells(sheet: &mut Worksheet, results: &Results) -> std::result::Result<(), XlsxError> {
    let bold = Format::new().set_bold();
    for (i, name) in (0..).zip(FIELDS) {
        sheet.write_string_with_format(0, i, name, &bold)?;
        sheet.set_column_width(i, name.len().max(9) as f64 + 1.0)?;
    }
    for (row, cell) in (1..).zip(&results.cells) {
        for (column, value) in (0..).zip(flat::values(cell)) {
            match value {
                Value::Text(text) => sheet.write_string(row, column, cut(&text))?,
                Value::Number(number) => sheet.write_number(row, column, number)?,
                Value::Whole(number) => sheet.write_number(row, column, number as f64)?,
                Value::Nothing => sheet,
            };
        }
    }
    finish(sheet, 16.0)
}

fn write_settings(sheet: &mut Worksheet, results: &Results) -> std::result::Result<(), XlsxError> {
    let facts = setting::facts(results).into_iter().map(|(name, value)| (name.to_owned(), value));
    let servers = setting::servers(results).into_iter();
    let settings = servers.flat_map(|it| it.settings.clone());
    for (row, (name, value)) in (0..).zip(facts.chain(settings)) {
        sheet.write_string(row, 0, cut(&name))?;
        sheet.write_string(row, 1, cut(&value))?;
    }
    sheet.set_column_width(0, 32)?;
    sheet.set_column_width(1, 60)?;
    Ok(())
}

/// The first column as wide as this; the header stays in sight.
fn finish(sheet: &mut Worksheet, width: f64) -> std::result::Result<(), XlsxError> {
    sheet.set_column_width(0, width)?;
    sheet.set_freeze_panes(1, 1)?;
    Ok(())
}

/// No longer than a spreadsheet's cell takes.
fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS).collect()
}

const TEXT_CHARS: usize = 32_767;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheets_have_names_that_are_allowed_and_differ() {
        let mut taken = Vec::new();
        let long = "select_for_update_skip_locked_many: by/depth?";
        let names: Vec<String> =
            [long, long, "", "A", "a"].iter().map(|it| free_name(it, &mut taken)).collect();
        assert_eq!(names[0], "select_for_update_skip_locked_m");
        assert_eq!(names[1], "select_for_update_skip_loc 2");
        assert_eq!(names[2..], [" 2", "A", "a 2"]);
    }
}
