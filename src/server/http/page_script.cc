#include "server/http/page_script.h"

namespace crema::server {
namespace {

constexpr std::string_view kScript = R"js(
'use strict';
const $ = id => document.getElementById(id);
const drop = $('drop'), picture = $('picture'), over = $('over');
const tasks = { classify: 'classifies images', detect: 'detects objects', segment: 'segments images' };
let models = [], file = null, paint = null, turn = 0, locked = false;

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}
function say(text, bad) { $('message').textContent = text; $('message').className = bad ? 'bad' : ''; }
function percent(share) {
  if (share === null) return '?';
  if (share >= 0.9995) return '100 %';
  if (share <= 0) return '0 %';
  return share < 0.001 ? '<0.1 %' : (100 * share).toFixed(1) + ' %';
}
function nameOf(item) { return item.label === undefined ? 'class ' + item.index : item.label; }
function hue(index) { return 'hsl(' + (index * 137.5 + 210) % 360 + ' 85% 45%)'; }
// The colors of label maps, those of Pascal VOC.
function color(index) {
  const rgb = [0, 0, 0];
  for (let shift = 7, c = index; c > 0; c >>= 3, --shift) {
    for (let k = 0; k < 3; ++k) rgb[k] |= (c >> k & 1) << shift;
  }
  return 'rgb(' + rgb + ')';
}
function headers(extra) {
  const token = $('token').value.trim();
  return token ? { ...extra, Authorization: 'Bearer ' + token } : extra;
}

function chosen() { return models[$('model').selectedIndex]; }
function isTask(model) { return model && Object.hasOwn(tasks, model.task) && model.image && !model.problem; }
function pathOf(model) {
  const twins = models.filter(m => m.name === model.name).length > 1;
  return '/v1/' + model.task + '?model=' + model.name + (twins ? '&version=' + model.version : '');
}
function facts(model) {
  const parts = [isTask(model) ? tasks[model.task] : 'takes tensors'];
  if (model.image) {
    const colors = model.image.colors === 'gray' ? 'gray' : 'color (' + model.image.colors + ')';
    const fits = { stretch: 'images are resized', crop: 'images are resized and cropped',
                   letterbox: 'images are resized, with bars' };
    const any = model.image.fit === 'reshape';
    parts.push('input ' + (any ? '' : model.image.width + ' \u00d7 ' + model.image.height + ', ') + colors,
               any ? 'images keep their aspect' : fits[model.image.fit] + ' to fit');
  } else {
    for (const input of model.inputs) parts.push('input ' + input.name + ' [' + input.shape.join(', ') + ']');
  }
  parts.push('version ' + model.version);
  return parts.join(' \u00b7 ') + (model.problem ? '. ' + model.problem : '');
}

const quoted = JSON.stringify;  // names come from files; Python reads the strings of JSON
function programs(model) {
  const base = location.origin, secret = locked ? " -H 'Authorization: Bearer TOKEN'" : '';
  const field = locked ? ", {'Authorization': 'Bearer TOKEN'}" : '';
  const triton = locked ? ", headers={'Authorization': 'Bearer TOKEN'}" : '';
  const tls = location.protocol === 'https:' ? ', ssl=True' : '';
  const all = {}, infer = '/v2/models/' + model.name + '/infer';
  const shapeOf = input => input.shape.map(n => n < 0 ? 1 : n);
  const countOf = input => shapeOf(input).reduce((a, b) => a * b, 1);
  const opens = 'import numpy, tritonclient.http as triton\n\n' +
      "client = triton.InferenceServerClient('" + location.host + "'" + tls + ')\n';
  const asks = "answer = client.infer('" + model.name + "', tensors" + triton + ')\n' +
      'print(answer.as_numpy(' + quoted(model.outputs[0].name) + '))';
  const sends = "print(json.load(urllib.request.urlopen(request)))";
  const title = 'tritonclient (pip install tritonclient[http])';
  if (isTask(model)) {
    all.curl = 'curl -F file=@image.jpg' + secret + " '" + base + pathOf(model) + "'";
    all.Python = "import json, urllib.request\n\nimage = open('image.jpg', 'rb').read()\n" +
        "request = urllib.request.Request('" + base + pathOf(model) + "', image" + field + ')\n' + sends;
    if (model.inputs.length > 1) return all;
    all[title] = opens + "image = numpy.array([open('image.jpg', 'rb').read()], dtype=object)\n" +
        'tensors = [triton.InferInput(' + quoted(model.inputs[0].name) + ", image.shape, 'BYTES')]\n" +
        'tensors[0].set_data_from_numpy(image)\n' + asks;
    return all;
  }
  const inputs = model.inputs.map(input => "    {'name': " + quoted(input.name) + ", 'datatype': 'FP32', 'shape': [" +
      shapeOf(input).join(', ') + "], 'data': [0.0] * " + countOf(input) + '},\n');
  all.curl = 'curl --data-binary @request.json' + secret + " '" + base + infer + "'";
  all.Python = "import json, urllib.request\n\nbody = json.dumps({'inputs': [\n" + inputs.join('') +
      "]}).encode()\nrequest = urllib.request.Request('" + base + infer + "', body" + field + ')\n' + sends;
  all[title] = opens + 'tensors = []\n' + model.inputs.map(input =>
      'value = numpy.zeros([' + shapeOf(input).join(', ') + '], dtype=numpy.float32)\n' +
      'tensors.append(triton.InferInput(' + quoted(input.name) + ", value.shape, 'FP32'))\n" +
      'tensors[-1].set_data_from_numpy(value)\n').join('') + asks;
  return all;
}
function showPrograms(model) {
  $('programs').replaceChildren();
  for (const [title, text] of Object.entries(programs(model))) {
    const head = make('div', 'head'), copy = make('button', '', 'Copy'), code = make('pre', '', text);
    copy.type = 'button';
    copy.addEventListener('click', async () => {
      try { await navigator.clipboard.writeText(text); copy.textContent = 'Copied'; }
      catch (error) { getSelection().selectAllChildren(code); }
    });
    head.append(make('span', '', title), copy);
    $('programs').append(head, code);
  }
}
function choose() {
  const model = chosen();
  $('facts').textContent = facts(model);
  drop.hidden = !isTask(model);
  showPrograms(model);
  ++turn;  // an answer under way belongs to another model
  say('');
  clear();
  if (file && isTask(model)) ask();
}
async function load() {
  try {
    const response = await fetch('/v1/models', { headers: headers({}) });
    const result = await response.json();
    if (!response.ok) {
      locked = locked || response.status === 401;
      if (locked) $('more').open = true;
      return say(result.error, true);
    }
    models = result.models;
  } catch (error) { return say('The server does not answer.', true); }
  $('model').replaceChildren();
  for (const m of models) $('model').append(new Option(m.name + ' \u2013 ' + (isTask(m) ? tasks[m.task] : 'tensors')));
  $('models').hidden = $('use').hidden = models.length === 0;
  if (models.length === 0) return say('No model is ready.', true);
  const first = models.findIndex(isTask);
  $('model').selectedIndex = Math.max(0, first);
  say('');
  choose();
}

// Small pictures are enlarged, and their pixels stay squares.
function layout() {
  if (!picture.naturalWidth) return;
  const w = picture.naturalWidth, h = picture.naturalHeight;
  const room = $('view').parentElement.clientWidth;
  const times = Math.max(1, Math.floor(280 / Math.max(w, h)));
  const width = Math.max(1, Math.min(room, w * times, 0.7 * innerHeight * w / h));
  picture.style.width = width + 'px';
  picture.classList.toggle('pixels', width > w);
  const scale = devicePixelRatio || 1;
  over.width = Math.round(width * scale);
  over.height = Math.round(width * h / w * scale);
  const context = over.getContext('2d');
  if (paint) paint(context, over.width, over.height, scale);
}
function clear() {
  paint = null;
  $('answer').replaceChildren();
  layout();
}
function row(item, score, share, fill) {
  const line = make('div', 'row'), name = make('div', 'name', nameOf(item));
  const bar = make('div', 'bar'), part = make('div', 'fill');
  name.title = nameOf(item);
  part.style.width = (100 * Math.min(1, Math.max(0, share || 0))).toFixed(1) + '%';
  if (fill) part.style.background = fill;
  bar.append(part);
  line.append(name, bar, make('div', 'score', score));
  $('answer').append(line);
}
function showClasses(result) {
  const shares = result.predictions.every(p => p.score === null || (p.score >= 0 && p.score <= 1));
  for (const p of result.predictions) {
    row(p, shares ? percent(p.score) : String(p.score), shares ? p.score : 0);
  }
  return '';
}
function showBoxes(result) {
  const found = result.detections, most = 10;
  for (const d of found.slice(0, most)) row(d, percent(d.score), d.score, hue(d.index));
  if (found.length > most) $('answer').append(make('p', '', 'and ' + (found.length - most) + ' more'));
  paint = (c, width, height, scale) => {
    const sx = width / result.width, sy = height / result.height;
    c.lineWidth = 2 * scale;
    c.font = 12 * scale + 'px system-ui, sans-serif';
    c.textBaseline = 'top';
    const boxes = found.map(d => [d.box[0] * sx, d.box[1] * sy, d.box[2] * sx, d.box[3] * sy]);
    const meet = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    for (let i = found.length - 1; i >= 0; --i) {
      const [x0, y0, x1, y1] = boxes[i];
      c.strokeStyle = hue(found[i].index);
      c.strokeRect(x0, y0, x1 - x0, y1 - y0);
      c.fillStyle = c.strokeStyle;
      for (const [x, y] of found[i].keypoints || []) {
        c.beginPath();
        c.arc(x * sx, y * sy, 2.5 * scale, 0, 2 * Math.PI);
        c.fill();
      }
    }
    const taken = [];
    for (let i = 0; i < found.length; ++i) {  // no text hides a better one or another box
      const text = nameOf(found[i]) + ' ' + percent(found[i].score);
      const w = c.measureText(text).width + 6 * scale, h = 16 * scale;
      const left = Math.max(0, Math.min(boxes[i][0], width - w)), top = Math.max(0, boxes[i][1] - h);
      const place = [left, top, left + w, top + h];
      if (taken.some(other => meet(other, place))) continue;
      if (boxes.some((other, k) => k !== i && meet(other, place))) continue;
      taken.push(place);
      c.fillStyle = hue(found[i].index);
      c.fillRect(left, top, w, h);
      c.fillStyle = '#fff';
      c.fillText(text, left + 3 * scale, top + 2 * scale);
    }
  };
  return found.length === 1 ? '1 object, ' : found.length + ' objects, ';
}
async function showMap(result, mine) {
  for (const item of result.classes) row(item, percent(item.share), item.share, color(item.index));
  const map = new Image();
  map.src = 'data:image/png;base64,' + result.mask;
  await map.decode();
  if (mine !== turn) return '';
  const layer = make('canvas');
  layer.width = result.width;
  layer.height = result.height;
  const c = layer.getContext('2d');
  c.drawImage(map, 0, 0);
  const pixels = c.getImageData(0, 0, layer.width, layer.height), data = pixels.data;
  for (let i = 0; i < data.length; i += 4) {  // class 0, the background, stays clear
    data[i + 3] = data[i] || data[i + 1] || data[i + 2] ? 150 : 0;
  }
  c.putImageData(pixels, 0, 0);
  paint = (context, width, height) => {
    context.imageSmoothingEnabled = false;
    context.drawImage(layer, 0, 0, width, height);
  };
  return '';
}

async function ask() {
  const model = chosen(), mine = ++turn;
  clear();
  say('Asking\u2026');
  const start = performance.now();
  try {
    const response = await fetch(pathOf(model),
        { method: 'POST', body: file, headers: headers({ 'Content-Type': file.type || 'application/octet-stream' }) });
    const result = await response.json(), time = Math.round(performance.now() - start);
    if (mine !== turn) return;
    if (!response.ok) {
      if (response.status === 401) $('more').open = true;
      return say(result.error, true);
    }
    const shows = { classify: showClasses, detect: showBoxes, segment: showMap };
    const text = await shows[model.task](result, mine);
    if (mine !== turn) return;
    layout();
    say(text + result.model + ', version ' + result.version + ', ' + time + ' ms');
  } catch (error) { if (mine === turn) say('The server does not answer.', true); }
}
function take(next) {
  if (!next || !isTask(chosen())) return;
  file = next;
  if (picture.src) URL.revokeObjectURL(picture.src);
  paint = null;
  picture.src = URL.createObjectURL(file);
  $('view').hidden = false;
  ask();
}

$('model').addEventListener('change', choose);
$('token').addEventListener('change', load);
picture.addEventListener('load', layout);
addEventListener('resize', layout);
$('file').addEventListener('change', e => take(e.target.files[0]));
for (const type of ['dragenter', 'dragover']) drop.addEventListener(type, e => { e.preventDefault(); drop.classList.add('over'); });
for (const type of ['dragleave', 'drop']) drop.addEventListener(type, () => drop.classList.remove('over'));
drop.addEventListener('drop', e => { e.preventDefault(); take(e.dataTransfer.files[0]); });
load();
)js";

}  // namespace

std::string_view PageScript() { return kScript; }

}  // namespace crema::server
