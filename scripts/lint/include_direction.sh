#!/usr/bin/env bash
# Arrows between folders run one way, and vendor headers stay in their corners.
set -euo pipefail
. scripts/lint/files.sh

mapfile -t files < <(list_files 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' 'tools/*.h' 'tools/*.cc')
awk '
  function report(message) {
    printf "%s:%d: %s\n", FILENAME, FNR, message
    failed = 1
  }
  # Our own folders that each folder may include; tools may include all of them.
  BEGIN {
    allowed["core"] = "core"
    allowed["math"] = "core math"
    allowed["format"] = "core format"
    allowed["graph"] = "core format math graph"
    allowed["data"] = "core format math data"
    allowed["metrics"] = "core math metrics"
    allowed["layers"] = "core format math graph data layers"
    allowed["runtime"] = "core format math graph runtime"
    allowed["parallel"] = "core math parallel"
    allowed["solvers"] = "core format math graph data metrics runtime parallel solvers"
    allowed["report"] = "core format math graph data runtime solvers report"
    allowed["serving"] = "core format math graph data runtime serving"
  }
  FNR == 1 {
    split(FILENAME, part, "/")
    tool = part[1] == "tools"
    folder = tool ? "tools" : part[2]
    gpu = FILENAME ~ /\.cuh?$/
  }
  !/^[ \t]*#[ \t]*include/ { next }
  {
    header = $0
    sub(/^[^<"]*[<"]/, "", header); sub(/[>"].*/, "", header)
    quoted = $0 ~ /include[ \t]*"/
  }
  quoted && header ~ /\// && !tool && (folder in allowed) {
    split(header, target, "/")
    if (index(" " allowed[folder] " ", " " target[1] " ") == 0)
      report("src/" folder " must not include \"" header "\" (it may: " allowed[folder] ")")
  }
  quoted && header ~ /^\.\.?\// { report("write includes relative to src/: \"" header "\"") }
  header ~ /^gflags\// && !tool { report("gflags belongs in tools/") }
  header ~ /^glog\// && FILENAME !~ /^tools\/common\// { report("glog belongs in tools/common") }
  header ~ /^opencv2?\// && !tool && folder != "data" { report("OpenCV belongs in src/data and tools/") }
  header == "lmdb.h" && FILENAME !~ /^src\/data\/lmdb/ { report("lmdb.h belongs in src/data/lmdb*") }
  header ~ /^(cblas|openblas|dnnl|oneapi|cuda|cublas|cudnn|nccl|curand)/ && folder != "math" && !gpu {
    report("vendor header <" header "> belongs in src/math or a .cu file")
  }
  END { exit failed }
' "${files[@]}" /dev/null
