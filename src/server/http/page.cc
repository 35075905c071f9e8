#include <string_view>

#include "core/strings.h"
#include "server/http/api.h"
#include "server/http/page_script.h"
#include "server/security/tokens.h"

namespace crema::server {
namespace {

constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--text:#222;--page:#fafafa;--card:#fff;--line:#bbb;--bar:#e4e4e4;--fill:#2a7d4f;--bad:#b00;--over:#eef5ff}
@media(prefers-color-scheme:dark){:root{--text:#ddd;--page:#181818;--card:#222;--line:#555;--bar:#333;--fill:#3fa56c;--bad:#ff7b72;--over:#123}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:1.5rem auto;padding:0 1rem;color:var(--text);background:var(--page)}
h1{font-size:1.4rem;margin:0 0 .8rem}
h2{font-size:1.1rem;margin:1.6rem 0 .4rem}
[hidden]{display:none!important}
select,input[type=password]{font:inherit;max-width:100%;padding:.2rem .4rem;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:4px}
#facts{margin:.4rem 0 1rem;font-size:.9rem}
#drop{display:block;border:2px dashed var(--line);border-radius:8px;padding:1.6rem 1rem;text-align:center;background:var(--card);cursor:pointer}
#drop.over{border-color:#06c;background:var(--over)}
#drop:focus-within{outline:2px solid #06c}
#file{position:absolute;opacity:0;width:1px;height:1px}
#view{position:relative;width:fit-content;max-width:100%;margin:1rem auto;line-height:0}
#picture{max-width:100%}
#picture.pixels{image-rendering:pixelated}
#over{position:absolute;left:0;top:0;width:100%;height:100%;pointer-events:none}
.row{display:grid;grid-template-columns:minmax(5rem,11rem) 1fr 4.5rem;gap:.6rem;align-items:center;margin:.3rem 0}
.name{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.bar{background:var(--bar);border-radius:3px;height:1.1rem}
.fill{background:var(--fill);border-radius:3px;height:100%;outline:1px solid var(--line);outline-offset:-1px}
.score{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
#message{min-height:1.5rem;text-align:center;font-size:.9rem}
.bad{color:var(--bad)}
.head{display:flex;justify-content:space-between;align-items:end;margin-top:.8rem;font-size:.9rem}
button{font:inherit;font-size:.85rem;padding:.1rem .6rem;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:4px;cursor:pointer}
pre{margin:.3rem 0;padding:.6rem;overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:4px;font-size:.8rem}
details{margin-top:1.2rem}
)css";

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
      "</style></head><body><h1>Crema</h1>"
      "<div id=\"models\" hidden><label>Model <select id=\"model\"></select></label>"
      "<p id=\"facts\"></p>"
      "<label id=\"drop\" hidden>Drop an image here, or click to choose one"
      "<input id=\"file\" type=\"file\" accept=\"image/*\"></label></div>"
      "<div><div id=\"view\" hidden><img id=\"picture\" alt=\"\"><canvas "
      "id=\"over\"></canvas></div></div>"
      "<p id=\"message\" role=\"status\"></p><div id=\"answer\"></div>"
      "<details id=\"more\"><summary>Token</summary><p><input id=\"token\" type=\"password\" "
      "autocomplete=\"off\" aria-label=\"Token\"></p></details>"
      "<div id=\"use\" hidden><h2>From a program</h2><div id=\"programs\"></div></div>"
      "<p><a href=\"/openapi.json\">OpenAPI description</a></p><script>",
      PageScript(), "</script></body></html>\n");
}

// Allows only this script and this style, in case of injected content.
std::string Policy() {
  return StrCat("default-src 'none'; script-src ", SourceHash(PageScript()), "; style-src ",
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
