//! Writes the seeds of the corpus anew: replies of real servers, and cases that went wrong before.
//!
//! `cargo run -p onetrip-fuzz-targets --example seeds`. Inputs that came otherwise stay where they
//! are; what a server says differs in its salt and the like, so that a second run changes some
//! files.

mod abi;
mod made;
mod recorded;
mod redis;
mod server;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut corpus = Corpus::default();
    recorded::write(&mut corpus)?;
    redis::write(&mut corpus)?;
    made::write(&mut corpus)?;
    abi::write(&mut corpus)?;
    println!("{} files, {} bytes", corpus.written.len(), corpus.bytes);
    Ok(())
}

/// The directory that the targets read, and what is new in it.
#[derive(Default)]
struct Corpus {
    written: BTreeSet<String>,
    bytes: usize,
}

impl Corpus {
    /// Writes one input.
    fn add(&mut self, target: &str, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&directory)?;
        let data = parts.concat();
        fs::write(directory.join(name), &data)?;
        self.bytes += data.len();
        assert!(self.written.insert(format!("{target}/{name}")), "{name} is there twice");
        Ok(())
    }
}
