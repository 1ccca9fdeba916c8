#!/bin/sh
# install.sh PREFIX [TARGET]: libraries, headers and onetrip.pc, from a build of this crate in TARGET
# (default: target/release of the repository).
set -e
here=$(cd "$(dirname "$0")" && pwd)
prefix=$1
target=${2:-$here/../../target/release}
if [ -z "$prefix" ]; then echo "usage: $0 PREFIX [TARGET]" >&2; exit 2; fi
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -1)
mkdir -p "$prefix/lib/pkgconfig" "$prefix/include/onetrip"
cp "$target/libonetrip_c.so" "$prefix/lib/libonetrip.so.0"
ln -sf libonetrip.so.0 "$prefix/lib/libonetrip.so"
cp "$target/libonetrip_c.a" "$prefix/lib/libonetrip.a"
cp "$here"/include/onetrip/* "$prefix/include/onetrip/"
sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "$here/onetrip.pc.in" \
  >"$prefix/lib/pkgconfig/onetrip.pc"
