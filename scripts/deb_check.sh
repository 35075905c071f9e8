#!/usr/bin/env bash
# Installs the packages of BUILD/deb/ in a copy of an empty Debian 12 by apt, and there does what a
# user would: trains LeNet on drawn digits, classifies one, serves the model, compiles a C program,
# upgrades the server, and purges all.
# Usage: scripts/deb_check.sh BUILD ROOT  (as root; makes ROOT by debootstrap, or uses it)
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: scripts/deb_check.sh BUILD ROOT (make deb-check ROOT=FOLDER)"
build=${1:?$usage} root=${2:?$usage}
[ -d "$root/usr" ] || debootstrap --variant=minbase bookworm "$root"
copy=$root.check
rm -rf "$copy"
cp -a "$root" "$copy"
mkdir "$copy/work"
cp "$build"/deb/*.deb examples/run.c "$copy/work"
cat >"$copy/work/run.sh" <<'IN_ROOT'
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
cd /work
fail() { echo "FAILED: $*" >&2; exit 1; }
seconds() { echo "$1: $(($(date +%s) - $2)) s"; }
install() { apt-get install -y -q "$@" >apt.log 2>&1 || { tail apt.log; fail "apt-get install $*"; }; }
apt-get update -qq
apt-get clean

echo "== crema: from nothing to a classified picture"
start=$(date +%s)
install ./crema_*.deb ./libcrema[0-9]*.deb ./libcrema-images_*.deb
grep -E 'newly installed|Need to get|additional disk' apt.log
seconds "installed" "$start"
crema --version
cp -r /usr/share/crema/models . && mkdir -p build/demo
crema make_digits --count=5000 --seed=1 -q build/demo/digits_train_lmdb
crema make_digits --count=2000 --seed=2 -q --png=. --png_count=1 build/demo/digits_test_lmdb
crema train --solver=models/lenet_digits/solver.prototxt >train.log 2>&1 || fail "$(tail train.log)"
net="--model=models/lenet_digits/deploy.prototxt --weights=$(ls build/demo/*.caffemodel)"
crema deploy classify $net --scale=0.00390625 --top=1 0_*.png | tee classified
seconds "with training, to the first classified picture" "$start"
/usr/lib/crema/caffe-tools/build/tools/caffe 2>&1 | grep -q train || fail "caffe"
for file in man/man1/crema-train.1.gz bash-completion/completions/crema zsh/site-functions/_crema \
  fish/vendor_completions.d/crema.fish; do
  # dpkg of small images leaves manuals out; the package has them.
  dpkg -L crema | grep -qx "/usr/share/$file" || fail "$file"
done
install man-db
man -w crema-train && man crema-train | grep -q -- --solver || fail "man crema-train"

echo "== crema-serve"
install curl systemd
mkdir -p repository/digits/1
crema deploy export $net --scale=0.00390625 --output=repository/digits/1/model.crema
dpkg-deb -R crema-serve_*.deb old
sed -i 's/^Version:.*/Version: 0.0.1/' old/DEBIAN/control
dpkg-deb -b old crema-serve_old.deb >old.log
install ./crema-serve_old.deb
sed -i 's/8000/8611/' /etc/default/crema-serve
install ./crema-serve_[0-9]*.deb
[ "$(dpkg-query -W -f '${Version}' crema-serve)" != 0.0.1 ] || fail "it was not upgraded"
grep -q 8611 /etc/default/crema-serve || fail "the upgrade has lost /etc/default/crema-serve"
systemd-analyze verify /lib/systemd/system/crema-serve.service
systemctl is-enabled crema-serve || [ $? = 1 ] || fail "the server is enabled"
chmod 755 /work
as_server="setpriv --reuid=crema-serve --regid=crema-serve --clear-groups crema serve --port=0 --grpc_port=-1"
code=0
$as_server --repository=/srv/crema 2>missing.log || code=$?
[ "$code" = 2 ] && grep /srv/crema missing.log || fail "a missing repository: code $code, $(cat missing.log)"
unit=/lib/systemd/system/crema-serve.service
grep -qx 'RestartPreventExitStatus=2' $unit || fail "$unit starts it again after this code"
start=$(date +%s.%N)
$as_server --repository=/work/repository 2>serve.log &
until grep -q 'ready: http' serve.log; do
  kill -0 $! || fail "$(cat serve.log)"
  sleep 0.05
done
curl -sSf --data-binary "@$(ls 0_*.png)" \
  "$(sed -n 's/.*ready: http/http/p' serve.log)/v1/classify?model=digits&k=1" >answer
echo "$start $(date +%s.%N)" | awk '{ printf "first answer: %.2f s\n", $2 - $1 }'
cat answer && echo
kill $! && wait $! || fail "the server ended with $?"

echo "== libcrema-deploy-dev"
install gcc libc6-dev pkg-config ./libcrema-deploy*.deb
gcc run.c $(pkg-config --cflags --libs crema_deploy) -o run
./run repository/digits/1/model.crema

if ls python3-crema_*.deb 2>/dev/null; then
  echo "== python3-crema"
  install ./python3-crema_*.deb
  python3 -c 'import crema, numpy
model = crema.Model.from_file("repository/digits/1/model.crema")
print(model.run(numpy.zeros((1, 1, 28, 28), numpy.float32))["prob"].shape)'
fi

echo "== purge"
start=$(date +%s)
install ./libcrema-dev_*.deb ./libcrema-video_*.deb
seconds "the others installed" "$start"
apt-get purge -y -q '*crema*' >apt.log 2>&1 || fail "$(tail apt.log)"
find / -xdev -iname '*crema*' -not -path '/work/*' -not -path '/proc/*' \
  -not -path '/var/cache/man/*' >left
[ ! -s left ] || fail "purge leaves: $(cat left)"
echo "passed"
IN_ROOT
unshare --mount --pid --fork sh -c \
  'mount -t proc proc "$0/proc" && exec chroot "$0" /bin/sh /work/run.sh' "$copy"
