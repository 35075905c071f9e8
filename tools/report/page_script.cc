#include "report/page.h"

namespace crema::tools {

// Text from files reaches the page through textContent and setAttribute only.
const std::string_view kPageScript = R"JS('use strict';
(() => {
let data = JSON.parse(document.getElementById('data').textContent);
const hidden = new Set();  // names of runs
const logarithmic = new Set();  // titles of charts
let axis = 'iteration';
let zoom = null;  // [left, right] on the axis; null: all
let smoothing = 0;  // weight of the past, 0 to 0.99
let onlyDiffering = false;
const SVG = 'http://www.w3.org/2000/svg';
const colors = 8;

function node(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (parent) parent.appendChild(element);
  return element;
}

function html(name, className, text, parent) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

// Numbers for people.
function short(value) {
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 1e6) return +(value / 1e6).toPrecision(4) + 'M';
  if (size >= 1e4) return +(value / 1e3).toPrecision(4) + 'k';
  if (size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, 'e');
  return String(+value.toPrecision(4));
}

function duration(seconds) {
  if (seconds < 120) return +seconds.toFixed(1) + ' s';
  if (seconds < 7200) return +(seconds / 60).toFixed(1) + ' min';
  return +(seconds / 3600).toFixed(2) + ' h';
}

function place(value) {
  if (axis === 'seconds') return duration(value);
  return axis === 'epoch' ? String(+value.toFixed(2)) : short(value);
}

// Round positions within [low, high].
function ticks(low, high, about, units) {
  const raw = (high - low) / about || 1;
  let step = units && units.find(unit => unit >= raw);
  if (!step) {
    const power = 10 ** Math.floor(Math.log10(raw));
    step = power * [1, 2, 2.5, 5, 10].find(factor => factor * power >= raw * 0.999);
  }
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    found.push(i * step);
  }
  return found;
}

function logTicks(low, high) {
  const found = [];
  const factors = high / low > 1e3 ? [1] : high / low > 30 ? [1, 3] : [1, 2, 5];
  for (let e = Math.floor(Math.log10(low)); 10 ** e <= high; ++e) {
    for (const factor of factors) {
      const tick = factor * 10 ** e;
      if (tick >= low * 0.999 && tick <= high * 1.001) found.push(tick);
    }
  }
  if (found.length < 2) return ticks(low, high, 4).filter(tick => tick > 0);
  const every = Math.ceil(found.length / 7);
  return found.filter((tick, i) => i % every === 0);
}

// Exponential mean of the values so far; unknown values leave gaps.
function smooth(values) {
  let mean = 0, weight = 0;
  return values.map(value => {
    if (value === null) return null;
    mean = smoothing * mean + (1 - smoothing) * value;
    weight = smoothing * weight + 1 - smoothing;
    return mean / weight;
  });
}

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.plot = figure.querySelector('.plot');
    const button = figure.querySelector('.log');
    button.setAttribute('aria-pressed', this.log);
    button.addEventListener('click', () => {
      if (!logarithmic.delete(this.chart.title)) logarithmic.add(this.chart.title);
      button.setAttribute('aria-pressed', this.log);
      this.draw();
    });
    this.plot.tabIndex = 0;
    this.plot.setAttribute('role', 'group');
    this.plot.setAttribute('aria-label', this.chart.title +
        ': arrow keys read values, plus and minus zoom, 0 shows all');
    const move = event => this.drag ? this.select(event) : this.point(this.left(event));
    this.plot.addEventListener('pointermove', move);
    this.plot.addEventListener('pointerdown', event => {
      if (event.pointerType !== 'touch' && event.button === 0 && this.x) this.begin(event);
      move(event);
    });
    this.plot.addEventListener('pointerleave', () => this.unpoint());
    this.plot.addEventListener('blur', () => this.unpoint());
    this.plot.addEventListener('dblclick', () => setZoom(null));
    this.plot.addEventListener('keydown', event => this.key(event));
    this.drawKey();
    new ResizeObserver(() => {
      if (this.plot.clientWidth !== this.width) this.draw();
    }).observe(this.plot);
  }

  get chart() { return data.charts[+this.figure.dataset.chart]; }
  get log() { return logarithmic.has(this.chart.title); }
  shown() { return this.chart.series.filter(series => !hidden.has(data.runs[series.run])); }
  usable(value) { return value !== null && (!this.log || value > 0); }
  left(event) { return event.clientX - this.plot.getBoundingClientRect().left; }
  value(at) {  // on the axis, at a pixel
    const {left, right} = this.box, [low, high] = this.range;
    return low + (Math.min(right, Math.max(left, at)) - left) / (right - left) * (high - low);
  }
  smooths(series) { return smoothing > 0 && this.chart.smooth && series.style === 'line'; }
  // What is drawn as the curve.
  values(series) {
    if (!this.smooths(series)) return series.value;
    if (series.factor !== smoothing) {
      series.smoothed = smooth(series.value);
      series.factor = smoothing;
    }
    return series.smoothed;
  }

  // A drag with the mouse chooses the range to zoom to.
  begin(event) {
    this.drag = {from: this.left(event), to: this.left(event)};
    const move = other => this.select(other);
    addEventListener('pointermove', move);
    addEventListener('pointerup', other => {
      removeEventListener('pointermove', move);
      const drag = this.drag;
      this.drag = null;
      if (this.band) this.band.remove();
      this.band = null;
      drag.to = this.left(other);
      if (Math.abs(drag.to - drag.from) < 6) return;
      setZoom([this.value(drag.from), this.value(drag.to)].sort((a, b) => a - b));
    }, {once: true});
  }

  select(event) {
    if (!this.drag || !this.svg) return;
    this.unpoint();
    this.drag.to = this.left(event);
    if (!this.band) this.band = node('rect', {class: 'band'}, this.svg);
    const {left, right, top, bottom} = this.box;
    const [a, b] = [this.drag.from, this.drag.to].map(at => Math.min(right, Math.max(left, at)));
    const place = {x: Math.min(a, b), width: Math.abs(b - a), y: top, height: bottom - top};
    for (const name in place) this.band.setAttribute(name, place[name]);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.x) return;
    const {left, right} = this.box, step = (right - left) / (event.shiftKey ? 10 : 60);
    const at = this.reading === undefined ? (left + right) / 2 : this.reading;
    const to = {ArrowLeft: at - step, ArrowRight: at + step, Home: left, End: right}[event.key];
    if (to !== undefined) {
      if (zoom && (to < left || to > right)) {
        moveZoom(to < left ? -0.25 : 0.25);
        this.reading = at;
      } else {
        this.reading = Math.min(right, Math.max(left, to));
      }
      this.point(this.reading);
    } else if (event.key === '+' || event.key === '=') {
      scaleZoom(0.5, this.value(at));
    } else if (event.key === '-') {
      scaleZoom(2, this.value(at));
    } else if (event.key === '0' || event.key === 'Escape') {
      setZoom(null);
    } else {
      return;
    }
    event.preventDefault();
  }

  // A legend for the line styles; colors are runs.
  drawKey() {
    const key = this.figure.querySelector('.key');
    key.textContent = '';
    const told = new Set();
    for (const series of this.chart.series) {
      const word = series.label;
      if (told.has(word) || told.size > 11) continue;
      told.add(word);
      const item = html('span', '', undefined, key);
      const sample = node('svg', {viewBox: '0 0 24 8'}, item);
      node('path', {class: 'curve ' + series.style, d: 'M0 4H24'}, sample);
      if (series.style === 'marked') node('circle', {class: 'dot', cx: 12, cy: 4, r: 2.4}, sample);
      item.append(word);
    }
  }

  // Smallest and largest place on the axis.
  extent(series) {
    let low = Infinity, high = -Infinity;
    for (const one of series) {
      one[axis].forEach((value, i) => {
        if (value === null || !this.usable(one.value[i])) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    }
    return [low, high];
  }

  // Smallest and largest value between two places. Faint curves may leave them, so that a few wild
  // values do not flatten all others.
  valuesWithin(series, left, right) {
    let low = Infinity, high = -Infinity;
    for (const one of series) {
      const xs = one[axis];
      this.values(one).forEach((value, i) => {
        if (xs[i] === null || xs[i] < left || xs[i] > right || !this.usable(value)) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    }
    return [low, high];
  }

  draw() {
    this.unpoint();
    this.plot.textContent = '';
    const width = this.width = this.plot.clientWidth, height = 230;
    if (width < 40) return;
    const series = this.shown();
    const firm = series.filter(one => one.style !== 'faint');
    const [left, right] = zoom || this.extent(series);
    const visible = firm.length ? firm : series;
    let [low, high] = this.valuesWithin(visible, left, right);
    if (low > high) [low, high] = this.valuesWithin(visible, -Infinity, Infinity);
    this.range = [left, right];
    this.x = null;
    if (!(left <= right) || !(low <= high)) {
      html('div', 'empty', hidden.size ? 'nothing to show' : 'no values on this axis', this.plot);
      return;
    }
    if (this.log) {
      const room = Math.max(1.05, (high / low) ** 0.05);
      low /= room;
      high *= room;
    } else {
      const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
      if (low >= 0 && low - room < 0) low = 0; else low -= room;
      high += room;
    }
    this.rows = this.log ? logTicks(low, high) : ticks(low, high, 5);
    const letters = Math.max(...this.rows.map(tick => short(tick).length), 3);
    const box = {left: 12 + letters * 6.5, right: width - 12, top: 10, bottom: height - 26};
    const span = right - left || 1;
    this.x = value => box.left + (value - left) / span * (box.right - box.left);
    const scale = this.log ? Math.log : value => value;
    const bottom = scale(low), range = scale(high) - bottom || 1;
    this.y = value => box.bottom - (scale(value) - bottom) / range * (box.bottom - box.top);
    this.box = box;
    const svg = node('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img',
                             'aria-label': this.chart.title}, this.plot);
    this.svg = svg;
    this.drawAxes(left, right);
    const clip = 'clip' + this.figure.dataset.chart;
    node('rect', {x: box.left, y: box.top - 4, width: box.right - box.left + 6,
                  height: box.bottom - box.top + 8}, node('clipPath', {id: clip}, svg));
    const curves = node('g', {'clip-path': `url(#${clip})`}, svg);
    for (const one of series) {
      if (this.smooths(one)) this.drawCurve(one, one.value, 'faint', curves);
    }
    for (const style of ['faint', 'line', 'marked']) {
      for (const one of series) {
        if (one.style === style) this.drawCurve(one, this.values(one), style, curves);
      }
    }
  }

  drawAxes(left, right) {
    const {box, svg} = this;
    for (const tick of this.rows) {
      const y = this.y(tick);
      node('path', {class: 'grid', d: `M${box.left} ${y}H${box.right}`}, svg);
      node('text', {class: 'tick', x: box.left - 7, y: y + 4, 'text-anchor': 'end'}, svg)
        .textContent = short(tick);
    }
    node('path', {class: 'edge', d: `M${box.left} ${box.bottom}H${box.right}`}, svg);
    const units = axis === 'seconds'
      ? [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400] : null;
    const about = Math.max(3, Math.floor((box.right - box.left) / 75));
    for (const tick of ticks(left, right, about, units)) {
      const x = this.x(tick);
      const anchor = x > box.right - 20 ? 'end' : 'middle';
      node('text', {class: 'tick', x: anchor === 'end' ? box.right + 8 : x, y: box.bottom + 17,
                    'text-anchor': anchor}, svg).textContent = place(tick);
    }
  }

  drawCurve(series, ys, style, parent) {
    const xs = series[axis];
    let path = '', pen = 'M', drawn = 0;
    ys.forEach((value, i) => {
      if (!this.usable(value) || xs[i] === null) {
        pen = 'M';
        return;
      }
      path += `${pen}${this.x(xs[i]).toFixed(1)} ${this.y(value).toFixed(1)}`;
      pen = 'L';
      ++drawn;
    });
    const group = node('g', {class: 'c' + series.run % colors}, parent);
    node('path', {class: 'curve ' + style, d: path || 'M0 0'}, group);
    // Points of a test stand out, unless they would be a thick line; a lone point must be seen.
    if (drawn > 1 && (style !== 'marked' || drawn > (this.box.right - this.box.left) / 12)) {
      return;
    }
    ys.forEach((value, i) => {
      if (!this.usable(value) || xs[i] === null) return;
      node('circle', {class: 'dot', cx: this.x(xs[i]), cy: this.y(value), r: 2.6}, group);
    });
  }

  unpoint() {
    if (this.marks) this.marks.remove();
    if (this.tip) this.tip.remove();
    this.marks = this.tip = null;
  }

  // The values of every curve near this pixel.
  point(at) {
    if (!this.x || !this.svg || !this.svg.isConnected) return;
    this.unpoint();
    this.reading = at;
    const found = [];
    for (const series of this.shown()) {
      let best = null, distance = Infinity;
      series[axis].forEach((value, i) => {
        if (value === null || !this.usable(series.value[i])) return;
        if (value < this.range[0] || value > this.range[1]) return;
        const own = Math.abs(this.x(value) - at);
        if (own < distance) [best, distance] = [i, own];
      });
      if (best !== null && distance < 60) found.push({series, best, distance});
    }
    if (!found.length) return;
    const nearest = found.reduce((a, b) => b.distance < a.distance ? b : a);
    const x = this.x(nearest.series[axis][nearest.best]);
    this.marks = node('g', {}, this.svg);
    node('path', {class: 'cross', d: `M${x} ${this.box.top}V${this.box.bottom}`}, this.marks);
    this.tip = html('div', 'tip', undefined, this.plot);
    this.tip.setAttribute('role', 'status');
    html('div', 'note', {iteration: 'iteration ', epoch: 'epoch ', seconds: 'after '}[axis] +
         place(nearest.series[axis][nearest.best]), this.tip);
    for (const {series, best} of found) {
      if (series.style === 'faint' && found.length > 7) continue;
      const color = 'c' + series.run % colors;
      const value = this.values(series)[best];
      const y = this.y(value);
      if (y > this.box.top - 6 && y < this.box.bottom + 6) {
        const spot = node('g', {class: color}, this.marks);
        node('circle', {class: 'spot', cx: this.x(series[axis][best]), cy: y, r: 3.6}, spot);
      }
      const row = html('div', color, undefined, this.tip);
      html('i', '', undefined, row);
      const several = data.runs.length > 1 ? data.runs[series.run] + ', ' : '';
      html('span', '', several + series.label, row);
      if (this.smooths(series)) html('span', 'note', short(series.value[best]), row);
      html('b', '', short(value), row);
    }
    const room = this.plot.clientWidth - this.tip.offsetWidth;
    const beside = x < this.plot.clientWidth / 2 ? x + 14 : x - 14 - this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, Math.min(room, beside)) + 'px';
  }
}

let charts = [];
const redraw = () => charts.forEach(chart => chart.draw());

// The whole axis of all charts.
function whole() {
  const ends = charts.map(chart => chart.extent(chart.shown())).filter(([a, b]) => a <= b);
  return [Math.min(...ends.map(end => end[0])), Math.max(...ends.map(end => end[1]))];
}

function setZoom(range) {
  zoom = range;
  for (const button of document.querySelectorAll('[data-zoom]')) {
    button.disabled = !zoom && button.dataset.zoom !== 'in';
  }
  redraw();
}

// Scales the range around a place; a range beyond the data is all.
function scaleZoom(factor, center) {
  const [low, high] = whole();
  if (!(low < high)) return;
  const [left, right] = zoom || [low, high];
  const middle = center === undefined ? (left + right) / 2 : center;
  const range = [Math.max(low, middle - (middle - left) * factor),
                 Math.min(high, middle + (right - middle) * factor)];
  if (range[1] - range[0] < (high - low) * 1e-4) return;
  setZoom(range[0] <= low && range[1] >= high ? null : range);
}

function moveZoom(share) {
  const [low, high] = whole(), [left, right] = zoom;
  const by = Math.max(low - left, Math.min(high - right, share * (right - left)));
  setZoom([left + by, right + by]);
}

// Connects the controls of the curves, which a live page may replace.
function connect() {
  charts = [...document.querySelectorAll('.chart')].map(figure => new Chart(figure));
  for (const button of document.querySelectorAll('[data-axis]')) {
    button.setAttribute('aria-pressed', button.dataset.axis === axis);
    button.addEventListener('click', () => {
      axis = button.dataset.axis;
      for (const other of document.querySelectorAll('[data-axis]')) {
        other.setAttribute('aria-pressed', other === button);
      }
      setZoom(null);
    });
  }
  for (const button of document.querySelectorAll('[data-run]')) {
    const run = data.runs[+button.dataset.run];
    button.setAttribute('aria-pressed', !hidden.has(run));
    button.addEventListener('click', () => {
      if (!hidden.delete(run)) hidden.add(run);
      button.setAttribute('aria-pressed', !hidden.has(run));
      redraw();
    });
  }
  for (const button of document.querySelectorAll('[data-zoom]')) {
    button.addEventListener('click', () => {
      if (button.dataset.zoom === 'all') setZoom(null);
      else scaleZoom(button.dataset.zoom === 'in' ? 0.5 : 2);
    });
  }
  const slider = document.getElementById('smoothing');
  if (slider) {
    slider.value = Math.round(smoothing * 100);
    const show = () => {
      slider.nextElementSibling.textContent = smoothing ? smoothing.toFixed(2) : 'off';
    };
    slider.addEventListener('input', () => {
      smoothing = slider.value / 100;
      show();
      redraw();
    });
    show();
  }
  setZoom(zoom);  // draws now: observers wait for the next frame, which a busy browser may delay
}

function connectTables() {
  const button = document.getElementById('differing');
  if (!button) return;
  const show = () => {
    button.setAttribute('aria-pressed', onlyDiffering);
    document.getElementById('settings').classList.toggle('differing', onlyDiffering);
  };
  button.addEventListener('click', () => {
    onlyDiffering = !onlyDiffering;
    show();
  });
  show();
}

// A live page replaces the parts that have changed, and keeps zoom, selection and open details.
const sources = new Map();  // HTML of each part, as the server sent it
for (const part of document.querySelectorAll('main > [id]')) sources.set(part.id, part.outerHTML);

function update(next) {
  document.title = next.title;
  document.getElementById('made').textContent = next.getElementById('made').textContent;
  data = JSON.parse(next.getElementById('data').textContent);
  const main = document.querySelector('main');
  const open = [...document.querySelectorAll('details')]
    .map(one => [one.parentNode.id, one.dataset.of, one.open]);
  const changed = new Set();
  let last = null;
  const parts = [...next.querySelectorAll('main > [id]')];
  for (const id of [...sources.keys()]) {
    if (parts.some(part => part.id === id)) continue;
    document.getElementById(id).remove();
    sources.delete(id);
  }
  for (const part of parts) {
    const old = document.getElementById(part.id), source = part.outerHTML;
    if (sources.get(part.id) !== source) {
      sources.set(part.id, source);
      changed.add(part.id);
      if (old) old.replaceWith(document.adoptNode(part));
      else if (last) last.after(document.adoptNode(part));
      else main.prepend(document.adoptNode(part));
    }
    last = document.getElementById(part.id);
  }
  for (const one of document.querySelectorAll('details')) {
    const before = open.find(([id, of]) => id === one.parentNode.id && of === one.dataset.of);
    if (before) one.open = before[2];
  }
  if (changed.has('curves')) connect();
  else redraw();
  if (changed.has('tables')) connectTables();
}

let tag = '';
async function refresh() {
  const status = document.getElementById('live');
  try {
    const answer = await fetch(location.pathname,
                               {headers: tag ? {'If-None-Match': tag} : {}, cache: 'no-store'});
    if (answer.status === 200) {
      const text = await answer.text();
      tag = answer.headers.get('ETag') || '';
      // Not while a range is being dragged, which would be lost.
      if (charts.some(chart => chart.drag)) tag = '';
      else update(new DOMParser().parseFromString(text, 'text/html'));
    } else if (answer.status !== 304) {
      throw new Error((await answer.text()).trim() || answer.status);
    }
    status.textContent = ', live';
    status.className = '';
  } catch (error) {
    status.textContent = error instanceof TypeError
      ? ', no longer updated: the command has ended' : ', not updated: ' + error.message;
    status.className = 'stale';
  }
  setTimeout(refresh, document.hidden ? 10000 : 2000);
}

connect();
connectTables();
if ('live' in document.body.dataset) refresh();
})();
)JS";

}  // namespace crema::tools
