//! The name under which programs look for the shared library, and its major version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libonetrip.so.0");
}
