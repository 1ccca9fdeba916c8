//! Settings as the layer below reads them.

/// Names and values, each ended by a zero byte. Of a text with one in it the rest is not told.
pub(crate) fn pairs(settings: &[(String, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in settings.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend(text.bytes().take_while(|byte| *byte != 0));
        bytes.push(0);
    }
    bytes
}
