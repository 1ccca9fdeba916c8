//! The words of an expression.

/// A word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Int(i64),
    /// One more than the greatest integer: right behind a minus only.
    IntMinNegated,
    Double(f64),
    /// Without its colon.
    Variable(&'a str),
    /// A keyword or the name of a function.
    Word(&'a str),
    Symbol(&'static str),
    End,
}

/// The longest first, so that a symbol is not mistaken for a shorter one that it begins with.
const SYMBOLS: [&str; 21] = [
    "<>", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "=", "<", ">", "|", "#", "&", "~",
    "(", ")", ",",
];

/// Reads the word at the beginning. Returns it and the rest of the text.
pub(super) fn next(text: &str) -> Result<(Token<'_>, &str), String> {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else { return Ok((Token::End, text)) };
    if first.is_ascii_digit() || first == '.' {
        return number(text);
    }
    if first == ':' {
        let (name, rest) = text[1..].split_at(word_len(&text[1..]));
        return match name {
            "" => Err("unexpected character (:)".into()),
            name => Ok((Token::Variable(name), rest)),
        };
    }
    if is_word(first) {
        let (word, rest) = text.split_at(word_len(text));
        return Ok((Token::Word(word), rest));
    }
    match SYMBOLS.iter().find(|symbol| text.starts_with(**symbol)) {
        Some(symbol) => Ok((Token::Symbol(symbol), &text[symbol.len()..])),
        None => Err(format!("unexpected character ({first})")),
    }
}

/// Whether a character belongs to names and words.
pub(in crate::script) fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii()
}

/// How many bytes at the beginning are a name.
pub(in crate::script) fn word_len(text: &str) -> usize {
    text.find(|character| !is_word(character)).unwrap_or(text.len())
}

fn number(text: &str) -> Result<(Token<'_>, &str), String> {
    let digits = digits(text);
    let mut len = digits;
    if text[len..].starts_with('.') {
        len += 1 + self::digits(&text[len + 1..]);
        if len == 1 {
            return Err("unexpected character (.)".into());
        }
    }
    len += exponent(&text[len..]);
    let (number, rest) = text.split_at(len);
    let token = if len == digits { integer(number)? } else { double(number)? };
    Ok((token, rest))
}

fn digits(text: &str) -> usize {
    text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len())
}

fn exponent(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else { return 0 };
    let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    match digits(unsigned) {
        0 => 0,
        digits => text.len() - unsigned.len() + digits,
    }
}

fn integer(number: &str) -> Result<Token<'static>, String> {
    match number.parse::<u64>() {
        Ok(number) if number == i64::MIN.unsigned_abs() => Ok(Token::IntMinNegated),
        Ok(number) if i64::try_from(number).is_ok() => Ok(Token::Int(number as i64)),
        _ => Err(format!("bigint constant overflow ({})", shortened(number))),
    }
}

fn double(number: &str) -> Result<Token<'static>, String> {
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Token::Double(number)),
        _ => Err(format!("double constant overflow ({})", shortened(number))),
    }
}

/// A text shortened for an error, which has one line.
pub(in crate::script) fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    match text.char_indices().nth(CHARACTERS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
