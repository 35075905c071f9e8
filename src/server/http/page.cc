#include <string_view>

#include "core/strings.h"
#include "server/http/api.h"
#include "server/security/tokens.h"

namespace crema::server {
namespace {

constexpr std::string_view kStyle = R"css(
body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fafafa}
h1{font-size:1.4rem}
#drop{display:block;border:2px dashed #888;border-radius:8px;padding:2rem 1rem;text-align:center;background:#fff;cursor:pointer}
#drop.over{border-color:#06c;background:#eef5ff}
#picture:not([src]){display:none}
#picture{display:block;max-width:100%;max-height:16rem;margin:1rem auto;image-rendering:auto}
.row{display:grid;grid-template-columns:9rem 1fr 4.5rem;gap:.6rem;align-items:center;margin:.3rem 0}
.name{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.bar{background:#e4e4e4;border-radius:3px;height:1.1rem}
.fill{background:#2a7d4f;border-radius:3px;height:100%}
.score{text-align:right;font-variant-numeric:tabular-nums}
#message{min-height:1.5rem}
.bad{color:#b00}
input[type=text],input[type=password]{font:inherit;width:14rem}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}#drop{background:#222}.bar{background:#333}#drop.over{background:#123}}
)css";

constexpr std::string_view kScript = R"js(
const $ = id => document.getElementById(id);
const drop = $('drop'), message = $('message'), answer = $('answer');
function say(text, bad) { message.textContent = text; message.className = bad ? 'bad' : ''; }
function show(result) {
  answer.replaceChildren();
  for (const p of result.predictions) {
    const row = document.createElement('div'), name = document.createElement('div');
    const bar = document.createElement('div'), fill = document.createElement('div');
    const score = document.createElement('div');
    row.className = 'row'; name.className = 'name'; bar.className = 'bar';
    fill.className = 'fill'; score.className = 'score';
    name.textContent = p.label === undefined ? 'class ' + p.index : p.label;
    const part = Math.min(1, Math.max(0, p.score === null ? 0 : p.score));
    fill.style.width = (100 * part).toFixed(1) + '%';
    score.textContent = p.score === null ? '?' : p.score.toFixed(4);
    bar.append(fill); row.append(name, bar, score); answer.append(row);
  }
  say(result.model + ', version ' + result.version, false);
}
async function send(file) {
  answer.replaceChildren();
  if (!file) return;
  const picture = $('picture');
  if (picture.src) URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(file);
  say('Asking\u2026', false);
  const query = new URLSearchParams({ k: '5' }), model = $('model').value.trim();
  if (model) query.set('model', model);
  const headers = { 'Content-Type': file.type || 'application/octet-stream' };
  const token = $('token').value.trim();
  if (token) headers.Authorization = 'Bearer ' + token;
  try {
    const response = await fetch('/v1/classify?' + query, { method: 'POST', body: file, headers });
    const result = await response.json();
    if (!response.ok) { say(result.error, true); if (response.status === 401) $('more').open = true; return; }
    show(result);
  } catch (error) { say('The server does not answer.', true); }
}
$('file').addEventListener('change', e => send(e.target.files[0]));
for (const type of ['dragenter', 'dragover']) drop.addEventListener(type, e => { e.preventDefault(); drop.classList.add('over'); });
for (const type of ['dragleave', 'drop']) drop.addEventListener(type, () => drop.classList.remove('over'));
drop.addEventListener('drop', e => { e.preventDefault(); send(e.dataTransfer.files[0]); });
)js";

std::string SourceHash(std::string_view text) {
  const Digest digest = Sha256(text);
  return StrCat("'sha256-", Base64({reinterpret_cast<const char*>(digest.data()), digest.size()}),
                "'");
}

std::string PageText() {
  return StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>Crema</title><style>",
      kStyle,
      "</style></head><body><h1>What is in the picture?</h1>"
      "<label id=\"drop\" for=\"file\">Drop a picture here, or click to choose one"
      "<input id=\"file\" type=\"file\" accept=\"image/*\" hidden></label>"
      "<img id=\"picture\" alt=\"\"><p id=\"message\" role=\"status\"></p><div id=\"answer\"></div>"
      "<details id=\"more\"><summary>Options</summary>"
      "<p><label>Model <input id=\"model\" type=\"text\" autocomplete=\"off\"></label></p>"
      "<p><label>Token <input id=\"token\" type=\"password\" autocomplete=\"off\"></label></p>"
      "</details><script>",
      kScript, "</script></body></html>\n");
}

// Allows only this script and this style, in case of injected content.
std::string Policy() {
  return StrCat("default-src 'none'; script-src ", SourceHash(kScript), "; style-src ",
                SourceHash(kStyle),
                "; img-src blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                "frame-ancestors 'none'");
}

}  // namespace

HttpResponse PageResponse() {
  static const std::string text = PageText();
  static const std::string policy = Policy();
  HttpResponse response;
  response.content_type = "text/html; charset=utf-8";
  response.fields = {{"Content-Security-Policy", policy}, {"Referrer-Policy", "no-referrer"}};
  response.body = text;
  return response;
}

}  // namespace crema::server
