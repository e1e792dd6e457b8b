#!/bin/sh
# generate.sh PROTOC SOURCE_DIR INPUT OUTDIR: runs protoc and leaves x.pb.cc and x.pb.h in OUTDIR, where Meson
# expects them, plus a forwarding header at ate/v1alpha1/x.pb.h, the name by which generated code includes it.
set -eu
protoc=$1 source=$2 input=$3 out=$4
name=$(basename "$input" .proto)
mkdir -p "$out/ate/v1alpha1"
"$protoc" -I"$source" --cpp_out="$out" "ate/v1alpha1/$name.proto"
mv "$out/ate/v1alpha1/$name.pb.cc" "$out/$name.pb.cc"
mv "$out/ate/v1alpha1/$name.pb.h" "$out/$name.pb.h"
printf '#include "../../%s.pb.h"\n' "$name" > "$out/ate/v1alpha1/$name.pb.h"
