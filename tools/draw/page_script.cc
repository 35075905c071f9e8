#include "draw/page.h"

namespace crema::tools {

// Text from files reaches the page through textContent and setAttribute only.
const std::string_view kDrawingScript = R"JS('use strict';
(() => {
const {layers, arrows} = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const view = $('view'), list = $('list'), details = $('details'), search = $('search');
const svg = view.querySelector('svg');
const SVG = 'http://www.w3.org/2000/svg';

function add(name, text, parent, className) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

// The part of the drawing that is shown, in its own units.
const page = svg.viewBox.baseVal;
const full = {x: page.x, y: page.y, width: page.width, height: page.height};
let shown = {...full};
let unit = 1;  // of the drawing in a pixel
svg.removeAttribute('width');
svg.removeAttribute('height');
svg.setAttribute('preserveAspectRatio', 'xMidYMin meet');

function show(part) {
  shown = part;
  unit = part.width / view.clientWidth;
  svg.setAttribute('viewBox', `${part.x} ${part.y} ${part.width} ${part.height}`);
}

function showAt(scale, x, y) {  // pixels a unit; the middle of the upper edge
  const width = view.clientWidth / scale, height = view.clientHeight / scale;
  show({x: x - width / 2, y, width, height});
}

function showAll() {
  const scale = Math.min(view.clientWidth / full.width, view.clientHeight / full.height);
  showAt(scale, full.x + full.width / 2, full.y);
}

// Readable text at the beginning of the net.
function showStart() {
  const scale = 4 / 3;
  const first = layers.length && $(layers[0].box);
  const at = first ? middleOf(first).x : full.x + full.width / 2;
  showAt(scale, full.width * scale <= view.clientWidth ? full.x + full.width / 2 : at, full.y);
}

// Zooms around a pixel of the view.
function zoom(factor, px, py) {
  const scale = Math.min(8, Math.max(0.02, factor / unit));
  const x = shown.x + px * unit, y = shown.y + py * unit;
  const width = view.clientWidth / scale, height = view.clientHeight / scale;
  show({x: x - px / scale, y: y - py / scale, width, height});
}

function move(dx, dy) {
  show({...shown, x: shown.x - dx * unit, y: shown.y - dy * unit});
}

// The middle of an element in units of the drawing.
function middleOf(element) {
  const box = element.getBBox(), own = element.getCTM(), root = svg.getCTM();
  const point = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2)
    .matrixTransform(root.inverse().multiply(own));
  return {x: point.x, y: point.y};
}

function center(element) {
  const {x, y} = middleOf(element), scale = Math.max(1 / unit, 0.9);
  showAt(scale, x, y - view.clientHeight / scale / 2);
}

// Pointers: one moves, two zoom; a press without a move chooses.
const pointers = new Map();
let travelled = 0;
view.addEventListener('pointerdown', event => {
  if (event.button !== 0 || event.target.closest('#tools')) return;
  pointers.set(event.pointerId, event);
  travelled = 0;
});
addEventListener('pointermove', event => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  pointers.set(event.pointerId, event);
  const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
  travelled += Math.abs(dx) + Math.abs(dy);
  view.classList.add('moving');
  if (pointers.size === 1) return move(dx, dy);
  const other = [...pointers.values()].find(one => one.pointerId !== event.pointerId);
  const bounds = view.getBoundingClientRect();
  const distance = one => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
  zoom(distance(event) / distance(before), (event.clientX + other.clientX) / 2 - bounds.left,
       (event.clientY + other.clientY) / 2 - bounds.top);
});
for (const kind of ['pointerup', 'pointercancel']) {
  addEventListener(kind, event => {
    pointers.delete(event.pointerId);
    view.classList.remove('moving');
  });
}
view.addEventListener('click', event => {
  const node = event.target.closest('.node');
  if (node && travelled < 6) choose(layers.find(layer => layer.box === node.id), false);
});
view.addEventListener('wheel', event => {
  event.preventDefault();
  const bounds = view.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.clientX - bounds.left,
       event.clientY - bounds.top);
}, {passive: false});

const actions = {
  in: () => zoom(1.4, view.clientWidth / 2, view.clientHeight / 2),
  out: () => zoom(1 / 1.4, view.clientWidth / 2, view.clientHeight / 2),
  all: showAll,
  start: showStart,
};
for (const button of view.querySelectorAll('[data-do]')) {
  button.addEventListener('click', () => actions[button.dataset.do]());
}
view.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = event.shiftKey ? 240 : 60;
  const key = {ArrowLeft: () => move(step, 0), ArrowRight: () => move(-step, 0),
               ArrowUp: () => move(0, step), ArrowDown: () => move(0, -step),
               PageUp: () => move(0, view.clientHeight * 0.8),
               PageDown: () => move(0, -view.clientHeight * 0.8),
               '+': actions.in, '=': actions.in, '-': actions.out, '0': showAll, '1': showStart,
               Home: showStart}[event.key];
  if (!key) return;
  key();
  event.preventDefault();
});

// Shapes of inputs and outputs; the blobs lead to the layers that make or read them.
function blobs(title, own, find, parent) {
  if (!own.length) return;
  add('h3', title, parent);
  const table = add('table', undefined, parent);
  for (const blob of own) {
    const row = add('tr', undefined, table);
    const name = add('td', undefined, row);
    const others = find(blob);
    add('span', blob.name + ' ', name);
    for (const other of others) {
      const button = add('button', other.name, name);
      button.type = 'button';
      button.addEventListener('click', () => choose(other, true));
    }
    add('td', blob.shape, row);
  }
}

const number = value => String(+value.toPrecision(4));

function histogram(values, parent) {
  const {counts} = values, most = Math.max(...counts), width = counts.length * 4;
  const bars = document.createElementNS(SVG, 'svg');
  bars.setAttribute('viewBox', `0 0 ${width} 56`);
  bars.setAttribute('preserveAspectRatio', 'none');
  bars.setAttribute('class', 'bars');
  bars.setAttribute('role', 'img');
  bars.setAttribute('aria-label', `histogram from ${number(values.low)} to ${number(values.high)}`);
  counts.forEach((count, i) => {
    const height = count ? Math.max(1, count / most * 56) : 0;
    const bar = document.createElementNS(SVG, 'rect');
    const place = {x: i * 4, y: 56 - height, width: 3.4, height};
    for (const key in place) bar.setAttribute(key, place[key]);
    bars.appendChild(bar);
  });
  parent.appendChild(bars);
  const ends = add('div', undefined, parent, 'ends soft');
  add('span', number(values.low), ends);
  add('span', number(values.high), ends);
  const notes = [`mean ${number(values.mean)}, deviation ${number(values.deviation)}`];
  if (values.zeros) notes.push(`${values.zeros} zeros`);
  if (values.not_finite) notes.push(`${values.not_finite} not finite`);
  add('p', notes.join(', '), parent, 'soft');
}

function weights(layer, parent) {
  for (const one of layer.weights) {
    add('h3', `${one.role}, ${one.shape}`, parent);
    if (one.histogram && one.histogram.counts.length) histogram(one.histogram, parent);
    else if (one.histogram) add('p', 'no finite value', parent, 'soft');
    else add('p', `${one.count.toLocaleString('en')} values`, parent, 'soft');
  }
}

function run(layer, parent) {
  if (layer.implementation !== undefined) {
    add('h3', 'Implementation', parent);
    add('p', layer.implementation, parent);
    if (layer.skipped.length) {
      const others = add('details', undefined, parent);
      add('summary', `${layer.skipped.length} not chosen`, others);
      for (const [name, reason] of layer.skipped) add('p', `${name}: ${reason}`, others);
    }
  }
  if (!layer.times) return;
  const {forward, backward, share} = layer.times;
  add('h3', 'Time', parent);
  add('p', `${number(forward)} ms forward` + (backward ? `, ${number(backward)} ms backward` : '') +
      `: ${(share * 100).toFixed(1)}\u00a0% of an iteration`, parent);
}

function describe(layer) {
  const article = add('article', undefined, details);
  add('h2', layer.name, article);
  add('p', layer.type + (layer.brief ? ', ' + layer.brief : ''), article, 'soft');
  run(layer, article);
  const at = layers.indexOf(layer);
  const makes = blob => layers.slice(0, at).reverse()
    .filter(other => other.outputs.some(output => output.name === blob.name)).slice(0, 1);
  const reads = blob => {
    const next = layers.findIndex((other, i) => i > at &&
        other.outputs.some(output => output.name === blob.name));
    return layers.slice(at + 1, next < 0 ? undefined : next + 1)
      .filter(other => other.inputs.some(input => input.name === blob.name));
  };
  blobs('Inputs', layer.inputs, makes, article);
  blobs('Outputs', layer.outputs, reads, article);
  weights(layer, article);
  if (layer.text) {
    add('h3', 'Parameters', article);
    add('pre', layer.text.trimEnd(), article);
  }
}

function choose(layer, moves) {
  if (!layer) return;
  for (const old of svg.querySelectorAll('.chosen,.near')) old.classList.remove('chosen', 'near');
  const box = $(layer.box);
  box.classList.add('chosen');
  for (const [id, from, to] of arrows) {
    if (from === layer.box || to === layer.box) $(id).classList.add('near');
  }
  const together = layers.filter(other => other.box === layer.box);
  details.textContent = '';
  for (const one of together) describe(one);
  details.scrollTop = 0;
  for (const button of list.querySelectorAll('button')) {
    const current = layers[+button.dataset.layer] === layer;
    button.setAttribute('aria-current', current);
    if (current) button.scrollIntoView({block: 'nearest'});
  }
  if (moves) center(box);
}

function fill() {
  const words = search.value.trim().toLowerCase();
  const found = layers.filter(layer => !words || layer.name.toLowerCase().includes(words) ||
                                       layer.type.toLowerCase().includes(words));
  const timed = layers.some(layer => layer.times);
  const time = layer => layer.times ? layer.times.forward + layer.times.backward : 0;
  const most = Math.max(...layers.map(time), 1e-9);
  list.textContent = '';
  if (timed) found.sort((a, b) => time(b) - time(a));
  for (const layer of found) {
    const button = add('button', undefined, add('li', undefined, list));
    button.type = 'button';
    button.dataset.layer = layers.indexOf(layer);
    add('b', layer.name, button);
    add('span', timed ? (layer.times ? number(time(layer)) + ' ms' : '') : layer.type, button);
    if (timed) button.style.setProperty('--time', time(layer) / most * 100 + '%');
    button.addEventListener('click', () => choose(layer, true));
  }
  $('found').textContent = words ? `${found.length} of ${layers.length} layers`
    : timed ? 'the slowest first' : '';
  svg.classList.toggle('searching', words !== '');
  const boxes = new Set(found.map(layer => layer.box));
  for (const node of svg.querySelectorAll('.node')) {
    node.classList.toggle('match', boxes.has(node.id));
  }
}

search.addEventListener('input', fill);
search.addEventListener('keydown', event => {
  const first = list.querySelector('button');
  if (event.key === 'Enter' && first) first.click();
  if (event.key === 'ArrowDown' && first) {
    first.focus();
    event.preventDefault();
  }
  if (event.key === 'Escape') {
    search.value = '';
    fill();
  }
});
list.addEventListener('keydown', event => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!step) return;
  const buttons = [...list.querySelectorAll('button')];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  (next || search).focus();
  event.preventDefault();
});
addEventListener('keydown', event => {
  if (event.key !== '/' || event.target === search || event.ctrlKey || event.metaKey) return;
  search.focus();
  search.select();
  event.preventDefault();
});

// Colours of the kinds of layers come with the drawing; dark pages darken them, and times replace
// them.
for (const shape of svg.querySelectorAll('.node path, .node ellipse')) {
  shape.style.setProperty('--fill', shape.getAttribute('fill'));
}
if (layers.some(layer => layer.times)) {
  svg.classList.add('times');
  const shares = {};
  for (const {box, times} of layers) shares[box] = (shares[box] || 0) + (times ? times.share : 0);
  const most = Math.max(...Object.values(shares), 1e-9);
  for (const box in shares) $(box).style.setProperty('--heat', shares[box] / most * 80 + '%');
}
fill();
showStart();
new ResizeObserver(() => {  // keeps the scale and the upper left corner
  if (view.clientWidth < 10) return;
  show({...shown, width: view.clientWidth * unit, height: view.clientHeight * unit});
}).observe(view);
})();
)JS";

}  // namespace crema::tools
