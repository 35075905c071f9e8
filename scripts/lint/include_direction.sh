#!/usr/bin/env bash
# Checks the direction of includes between folders, and the folders that may include vendor headers.
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
    allowed["graph"] = "core format math graph crema"  # the interface of plugins
    allowed["plan"] = "core format math graph plan"
    allowed["data"] = "core format math data"
    allowed["metrics"] = "core math metrics"
    allowed["layers"] = "core format math graph plan data layers"
    allowed["runtime"] = "core format math graph plan runtime"
    allowed["parallel"] = "core math parallel"
    allowed["solvers"] = "core format math graph plan data metrics runtime parallel solvers"
    allowed["report"] = "core format math graph plan data runtime solvers report"
    allowed["quantization"] = "core format math graph plan runtime quantization"
    allowed["inference"] = "core format math graph plan data runtime quantization inference"
    allowed["onnx"] = "core format math graph plan layers runtime inference onnx"
    allowed["server"] = "core format math graph plan data runtime inference server"
    allowed["api"] = "core format math graph plan data runtime inference onnx crema"
    # The folders of src/data that each of them may include.
    data["image"] = "image"
    data["pipeline"] = "image pipeline"
    data["hdf5"] = "pipeline hdf5"
    data["lists"] = "image pipeline lists"
    data["transform"] = "image transform"
    data["augment"] = "image transform augment"
    data["records"] = "image pipeline hdf5 augment records"
    data["features"] = "hdf5 records features"
    data["batches"] = "image pipeline hdf5 lists transform augment records batches"
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
  quoted && folder == "data" && !tool && header ~ /^data\// {
    split(header, target, "/")
    if (index(" " data[part[3]] " ", " " target[2] " ") == 0)
      report("src/data/" part[3] " must not include \"" header "\" (it may: " data[part[3]] ")")
  }
  quoted && header ~ /^\.\.?\// { report("write includes relative to src/: \"" header "\"") }
  header ~ /^gflags\// && !tool { report("gflags belongs in tools/") }
  header ~ /^glog\// && FILENAME !~ /^tools\/common\// { report("glog belongs in tools/common") }
  header ~ /^opencv2?\// && !tool && folder !~ /^(data|modules)$/ { report("OpenCV belongs in src/data, src/modules and tools/") }
  header ~ /^boost\// && FILENAME !~ /^src\/server\/http\// { report("Boost belongs in src/server/http") }
  header ~ /^grpc/ && FILENAME !~ /^src\/server\/grpc\// { report("gRPC belongs in src/server/grpc") }
  header ~ /^prometheus\// && FILENAME !~ /^src\/server\/metrics\// { report("prometheus-cpp belongs in src/server/metrics") }
  header ~ /^rapidjson\// && FILENAME !~ /^src\/server\/protocol\// { report("RapidJSON belongs in src/server/protocol") }
  header == "lmdb.h" && FILENAME !~ /^src\/data\/records\/lmdb/ { report("lmdb.h belongs in src/data/records/lmdb*") }
  header ~ /^(dnnl|oneapi|cuda|cublas|cudnn|nccl|curand)/ && folder != "math" && !gpu {
    report("vendor header <" header "> belongs in src/math or a .cu file")
  }
  END { exit failed }
' "${files[@]}" /dev/null
