//! The target that the environment variable `ONETRIP_TARGET` names: one program for all of them, since
//! building one takes longer than a run. `scripts/fuzz` sets it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use onetrip_fuzz_targets::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("ONETRIP_TARGET").unwrap_or_default();
    let target = Target::find(&name);
    target.unwrap_or_else(|| panic!("ONETRIP_TARGET={name} names no target"))
});

fuzz_target!(|data: &[u8]| TARGET.check(data));
