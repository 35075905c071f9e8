#include "report/page.h"

namespace crema::tools {

const std::string_view kPageStyle = R"(
:root{--bg:#f6f7f9;--card:#fff;--ink:#1c2128;--soft:#5c6773;--line:#dfe3e8;--grid:#eceff2;
--right:37,99,180;--wrong:214,84,20;
--k0:#2563b4;--k1:#d65414;--k2:#1d8a5a;--k3:#9b3fa8;--k4:#b8860b;--k5:#0d8f9c;--k6:#c2314b;--k7:#5b6472}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--card:#1b2027;--ink:#e4e8ed;--soft:#98a3af;
--line:#303843;--grid:#272e37;--right:88,150,240;--wrong:240,120,60;
--k0:#6aa5f2;--k1:#f58b52;--k2:#52c48f;--k3:#d183dd;--k4:#e0b548;--k5:#45c5d2;--k6:#f0748b;--k7:#a7b0bc}}
.c0{--k:var(--k0)}.c1{--k:var(--k1)}.c2{--k:var(--k2)}.c3{--k:var(--k3)}
.c4{--k:var(--k4)}.c5{--k:var(--k5)}.c6{--k:var(--k6)}.c7{--k:var(--k7)}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
header,main{max-width:1280px;margin:0 auto;padding:0 20px}
header{padding-top:24px}
h1{font-size:24px;line-height:1.25;margin:0 0 4px}
h2{font-size:18px;margin:32px 0 12px}
h3{font-size:15px;margin:0}
h4{font-size:13px;margin:16px 0 4px;color:var(--soft)}
main{padding-bottom:48px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;
margin:0 0 16px;min-width:0}
.scroll{overflow-x:auto}
.tables{display:grid;grid-template-columns:minmax(0,1fr);gap:0 16px}
.tables section{min-width:0}
.tables .bar{margin-top:20px;min-height:38px}.tables h2{margin:0}
@media(min-width:900px){.tables.beside{grid-template-columns:repeat(auto-fit,minmax(400px,1fr))}}
.differs th b{color:rgb(var(--wrong));font-weight:700;padding-left:2px}
.differs td{font-weight:600}
.differing tbody tr:not(.differs){display:none}
.stale{color:rgb(var(--wrong))}
i{display:inline-block;width:10px;height:10px;border-radius:50%;background:var(--k);
margin-right:7px;vertical-align:0}
.note{color:var(--soft);font-size:13px}
small{color:var(--soft);font-size:12px;font-weight:400}
table{border-collapse:collapse}
.results{width:100%}
.results th,.results td{text-align:left;padding:5px 20px 5px 0;vertical-align:baseline}
.results tbody tr{border-top:1px solid var(--grid)}
.results tbody th{position:sticky;left:0;background:var(--card);font-weight:400;color:var(--soft);min-width:120px;max-width:260px}
.results td{overflow-wrap:normal}
.results thead th{font-weight:600;min-width:104px;max-width:260px}
.results td{white-space:nowrap}
.best{font-weight:700}
.bar{display:flex;flex-wrap:wrap;align-items:baseline;justify-content:space-between;gap:4px 16px}
.bar h2{margin-bottom:8px}
button{font:inherit;font-size:13px;color:var(--soft);background:none;border:1px solid var(--line);
border-radius:6px;padding:4px 10px;cursor:pointer;min-height:30px}
button:disabled{opacity:.4;cursor:default}
:focus-visible{outline:2px solid var(--k0);outline-offset:1px}
button[aria-pressed=true]{color:var(--ink);background:var(--card);border-color:var(--soft)}
.smooth{font-size:13px;color:var(--soft);display:flex;align-items:center;gap:6px}
.smooth input{width:120px;accent-color:var(--k0)}.smooth output{min-width:30px}
.axis{display:flex}
.axis button{border-radius:0;margin-left:-1px}
.axis button:first-child{border-radius:6px 0 0 6px}
.axis button:last-child{border-radius:0 6px 6px 0}
.runs{display:flex;flex-wrap:wrap;gap:8px;margin-bottom:12px}
.run{max-width:100%;text-align:left}
.run[aria-pressed=false]{opacity:.5;text-decoration:line-through}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:16px}
.chart{margin:0;position:relative;padding:12px 12px 10px}
.chart figcaption{display:flex;align-items:center;gap:10px;padding:0 2px}
.chart h3{min-width:0}
.chart .log{margin-left:auto;flex:none}
.plot{position:relative;touch-action:pan-y;min-height:230px}
.plot svg{display:block;width:100%}
.grid{stroke:var(--grid)}.edge{stroke:var(--line)}
.tick{fill:var(--soft);font-size:11px}
.curve{fill:none;stroke:var(--k);stroke-width:1.8;stroke-linejoin:round}
.faint{stroke-width:1;opacity:.3}
.marked{stroke-dasharray:5 3}
.dot{fill:var(--card);stroke:var(--k);stroke-width:1.6}
.spot{fill:var(--k);stroke:var(--card);stroke-width:1.5}
.band{fill:var(--k0);opacity:.16}
.plot{cursor:crosshair;border-radius:4px}.plot svg{user-select:none;-webkit-user-select:none}
.cross{stroke:var(--soft);stroke-dasharray:2 3}
.key{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12px;color:var(--soft);padding:2px 4px}
.key svg{width:24px;height:8px;margin-right:6px;vertical-align:2px}
.key .curve{stroke:var(--soft)}.key .dot{stroke:var(--soft)}
.tip{position:absolute;top:4px;pointer-events:none;background:var(--card);color:var(--ink);
border:1px solid var(--line);border-radius:6px;padding:6px 9px;font-size:12px;line-height:1.45;
box-shadow:0 3px 12px rgba(0,0,0,.14);max-width:72%;z-index:2}
.tip div{display:flex;gap:10px;align-items:baseline}
.tip div b{margin-left:auto;padding-left:8px}
.tip i{width:8px;height:8px;margin-right:0;flex:none}
.empty{color:var(--soft);font-size:13px;padding:90px 0;text-align:center}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(128px,1fr));gap:10px;
margin-bottom:16px}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}
.tile b{display:block;font-size:19px;line-height:1.3;white-space:nowrap}
.tile span{font-size:12px;color:var(--soft)}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));gap:0 16px;
align-items:start}
.heat{font-size:12px;border-spacing:2px;border-collapse:separate;margin-top:8px}
.heat th{font-weight:400;color:var(--soft);white-space:nowrap;padding:2px 6px}
.heat tbody th{text-align:right;position:sticky;left:0;background:var(--card)}
.heat thead th{vertical-align:bottom;text-align:center}
.heat thead span{writing-mode:vertical-rl;transform:rotate(180deg);max-height:110px;overflow:hidden}
.heat .corner{text-align:right;font-size:11px}
.heat td{min-width:40px;height:34px;text-align:center;border-radius:3px;padding:0 3px}
.heat .right{background:rgba(var(--right),var(--v))}
.heat .wrong{background:rgba(var(--wrong),var(--v))}
.heat .deep{color:#fff}
@media(prefers-color-scheme:dark){.heat .deep{color:#0b0f14}}
.matrix{width:100%;max-width:720px;margin-top:10px;image-rendering:pixelated;background:#fff}
.pairs{margin:0;padding-left:22px;columns:2 260px;font-size:13px}
.as{color:var(--soft);font-size:12px;white-space:nowrap}
.classes{font-size:13px;margin-top:8px;min-width:min(100%,480px)}
.classes th,.classes td{text-align:right;padding:4px 12px;border-top:1px solid var(--grid);
overflow-wrap:normal}
.classes thead th{border:0;color:var(--soft);font-weight:400}
.classes tbody th,.classes thead th:first-child{text-align:left;padding-left:0;font-weight:400}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(112px,1fr));gap:16px 14px;
margin-top:12px}
.worst{margin:0;font-size:13px;line-height:1.35}
.worst img,.blank{width:100%;aspect-ratio:1;object-fit:contain;background:var(--grid);
border-radius:4px;image-rendering:pixelated;display:block}
.worst figcaption{margin-top:5px}
.worst small{display:block;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.truth{font-weight:600}.guess{color:rgb(var(--wrong));font-weight:600}
summary{cursor:pointer;font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;font-size:13px;margin:10px 0}
dt{color:var(--soft)}dd{margin:0;min-width:0}
pre{font:12px/1.5 ui-monospace,monospace;white-space:pre-wrap;background:var(--bg);padding:10px 12px;
border-radius:6px;margin:0}
@media(max-width:520px){header,main{padding-left:12px;padding-right:12px}h1{font-size:20px}
.card{padding:12px}.chart{padding:10px 8px}.gallery{grid-template-columns:repeat(3,1fr);gap:12px 10px}
.tiles{grid-template-columns:repeat(2,1fr)}.heat{font-size:11px;border-spacing:1px}
.heat td{min-width:22px;height:26px;padding:0 1px}.heat th{padding:2px 4px}
.heat .corner{white-space:normal;min-width:0;max-width:64px}
.results th,.results td{padding-right:14px}.results small{display:block}.results tbody th{min-width:92px;max-width:116px}}
)";

}  // namespace crema::tools
