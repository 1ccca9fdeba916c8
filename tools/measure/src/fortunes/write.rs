//! The page as text.

use maud::{DOCTYPE, Markup, html};
use onetrip::Rows;

use super::rows::ADDED;

/// The page of these rows and the added one, sorted by the bytes of the message.
///
/// # Errors
/// A row isn't a number and a text.
pub(super) fn page(rows: &Rows) -> Result<String, onetrip::Error> {
    let mut fortunes = Vec::with_capacity(rows.len() + 1);
    fortunes.push(ADDED);
    for row in rows {
        fortunes.push((row.try_get(0)?, row.try_get(1)?));
    }
    fortunes.sort_unstable_by_key(|(_, message)| *message);
    Ok(markup(&fortunes).into_string())
}

/// The HTML. maud escapes markup in the messages.
fn markup(fortunes: &[(i32, &str)]) -> Markup {
    html! {
        (DOCTYPE)
        html {
            head { title { "Fortunes" } }
            body {
                table {
                    tr { th { "id" } th { "message" } }
                    @for (id, message) in fortunes {
                        tr { td { (id) } td { (message) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_markup_is_escaped_and_nothing_else() {
        let page = markup(&[(7, "a<b>&\"c\"é'の&amp;")]).into_string();
        let row = "<tr><td>7</td><td>a&lt;b&gt;&amp;&quot;c&quot;é'の&amp;amp;</td></tr>";
        assert!(page.contains(row), "{page}");
    }
}
