#!/usr/bin/env bash
# Measures the overhead of `serve`: requests per second and latency over loopback, beside the same model
# called in process (`deploy bench`) in the same rounds. Needs wrk and python3.
# Usage: bench/serve.sh MODEL.crema [ROUNDS [SECONDS]]   (BIN=build/bin)
# Prints Markdown; one sample a request, over HTTP in the binary-tensor extension and over gRPC
# (where grpc_load was built: -DCREMA_BUILD_BENCH=ON). Medians over the rounds.
# With ONNX=net.onnx, the same net, and PYTRITON=python (one with nvidia-pytriton and onnxruntime),
# NVIDIA's Triton has its turns too, with ONNX Runtime on one thread in each of two instances.
set -euo pipefail
cd "$(dirname "$0")/.."
model=$1
rounds=${2:-5}
seconds=${3:-3}
bin=${BIN:-build/bin}
batch=${BATCH:-8}
folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT

grpc_flag=-1
if [ -x "$bin/grpc_load" ]; then grpc_flag=0; fi

start() { # flags... : sets port and grpc_port
  log=$(mktemp "$folder/logXXXX")
  "$bin/serve" --model="$model" --name=m --port=0 --grpc_port="$grpc_flag" --access_log=none "$@" \
    >"$folder/out" 2>"$log" &
  pids+=($!)
  port=""
  while [ -z "$port" ]; do
    kill -0 "${pids[-1]}" || { cat "$log"; exit 1; }
    port=$(sed -n 's|.*ready: http://127.0.0.1:\([0-9]*\).*|\1|p' "$log")
    sleep 0.05
  done
  grpc_port=$(sed -n 's|.*ready: .*gRPC on port \([0-9]*\).*|\1|p' "$log")
}

start_triton() { # HTTP port, gRPC port, largest batch
  mkfifo "$folder/keep$1"
  "$PYTRITON" bench/serve/triton_peer.py "$ONNX" "$1" "$2" 2 "$3" <"$folder/keep$1" \
    >"$folder/triton$1" 2>&1 &
  pids+=($!)
  exec {keep}>"$folder/keep$1"
  until grep -q '^ready' "$folder/triton$1"; do
    kill -0 "${pids[-1]}" || { cat "$folder/triton$1"; exit 1; }
    sleep 0.2
  done
}

in_process() { # batch: p50 in ms, p99, samples a second
  "$bin/deploy" bench --model="$model" --threads=1 --instances=2 --batches="$1" \
    --seconds="$seconds" --json |
    sed 's/.*"p50_ms": \([0-9.]*\).*"p99_ms": \([0-9.]*\).*"samples_per_second": \([0-9.]*\).*/\1 \2 \3/'
}

load() { # port, connections: p50 in ms, p99, requests a second
  wrk -t1 -c"$2" -d"${seconds}s" --latency -s "$folder/post.lua" \
    "http://127.0.0.1:$1/v2/models/m/infer" >"$folder/wrk"
  if grep -q "Non-2xx\|Socket errors" "$folder/wrk"; then cat "$folder/wrk" >&2; exit 1; fi
  awk 'function ms(t) { return t ~ /us$/ ? t / 1000 : t ~ /ms$/ ? t + 0 : t * 1000 }
    /^ +50%/ { p50 = ms($2) } /^ +99%/ { p99 = ms($2) } /Requests\/sec/ { rate = $2 }
    END { print p50, p99, rate }' "$folder/wrk"
}

grpc_load() { # port, calls: as load
  "$bin/grpc_load" "127.0.0.1:$1" m "$2" "$seconds"
}

measure() { # name, HTTP port, gRPC port
  for connections in 1 8 64; do
    load "$2" "$connections" >>"$folder/$1, HTTP, $connections connections"
    if [ "$grpc_flag" = 0 ]; then
      sleep 2  # what waits for the connections that wrk has closed is computed, or given up
      grpc_load "$3" "$connections" >>"$folder/$1, gRPC, $connections calls"
    fi
  done
}

start --instances=2 --max_batch=1
alone=$port alone_grpc=$grpc_port
start --instances=2 --max_batch="$batch"
batching=$port batching_grpc=$grpc_port
triton=${ONNX:+${PYTRITON:-}}
if [ -n "$triton" ]; then
  start_triton 18731 18732 1
  start_triton 18741 18742 "$batch"
fi
python3 bench/serve/body.py "$alone" "$folder"
for ((round = 0; round < rounds; ++round)); do
  in_process 1 >>"$folder/in process, batch 1"
  in_process "$batch" >>"$folder/in process, batch $batch"
  measure "serve, each alone" "$alone" "$alone_grpc"
  measure "serve, batches of up to $batch" "$batching" "$batching_grpc"
  if [ -n "$triton" ]; then
    measure "triton, each alone" 18731 18732
    measure "triton, batches of up to $batch" 18741 18742
  fi
done

column() { sort -n -k"$2,$2" "$1" | awk -v c="$2" -v r="$rounds" 'NR == int((r + 1) / 2) { print $c }'; }
echo "| $(basename "$model" .crema) | p50, ms | p99, ms | samples a second (range) |"
echo "|---|---|---|---|"
for file in "$folder"/in\ * "$folder"/serve,* "$folder"/triton,*; do
  [ -e "$file" ] || continue
  range=$(awk '{ print $3 }' "$file" | sort -n | sed -n '1p;$p' | paste -sd' ' | sed 's/ / to /')
  echo "| $(basename "$file") | $(column "$file" 1) | $(column "$file" 2) | $(column "$file" 3) ($range) |"
done
