#include "report/page.h"

namespace crema::tools {

// Text from files reaches the page through textContent and setAttribute only.
const std::string_view kPageScript = R"JS('use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const hidden = new Set();
let axis = 'iteration';
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

class Chart {
  constructor(figure) {
    this.chart = data.charts[+figure.dataset.chart];
    this.figure = figure;
    this.plot = figure.querySelector('.plot');
    this.log = false;
    const button = figure.querySelector('.log');
    button.addEventListener('click', () => {
      this.log = !this.log;
      button.setAttribute('aria-pressed', this.log);
      this.draw();
    });
    const move = event => this.point(event);
    this.plot.addEventListener('pointermove', move);
    this.plot.addEventListener('pointerdown', move);
    this.plot.addEventListener('pointerleave', () => this.unpoint());
    this.drawKey();
    new ResizeObserver(() => {
      if (this.plot.clientWidth !== this.width) this.draw();
    }).observe(this.plot);
  }

  shown() { return this.chart.series.filter(series => !hidden.has(series.run)); }
  usable(value) { return value !== null && (!this.log || value > 0); }

  // A legend for the line styles; colors are runs.
  drawKey() {
    const key = this.figure.querySelector('.key');
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

  // Extents of what is shown. Faint curves may leave them, so that a few wild values do not
  // flatten all others.
  extent(series, column) {
    let low = Infinity, high = -Infinity;
    for (const one of series) {
      one[column].forEach((value, i) => {
        if (value === null || !this.usable(one.value[i])) return;
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
    const [left, right] = this.extent(series, axis);
    let [low, high] = this.extent(firm.length ? firm : series, 'value');
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
    const box = {left: 48, right: width - 12, top: 10, bottom: height - 26};
    const span = right - left || 1;
    this.x = value => box.left + (value - left) / span * (box.right - box.left);
    const scale = this.log ? Math.log : value => value;
    const bottom = scale(low), range = scale(high) - bottom || 1;
    this.y = value => box.bottom - (scale(value) - bottom) / range * (box.bottom - box.top);
    this.box = box;
    const svg = node('svg', {viewBox: `0 0 ${width} ${height}`, height, role: 'img',
                             'aria-label': this.chart.title}, this.plot);
    this.svg = svg;
    this.drawAxes(left, right, low, high);
    const clip = 'clip' + this.figure.dataset.chart;
    node('rect', {x: box.left, y: box.top - 4, width: box.right - box.left + 6,
                  height: box.bottom - box.top + 8}, node('clipPath', {id: clip}, svg));
    const curves = node('g', {'clip-path': `url(#${clip})`}, svg);
    for (const style of ['faint', 'line', 'marked']) {
      for (const one of series) if (one.style === style) this.drawCurve(one, curves);
    }
  }

  drawAxes(left, right, low, high) {
    const {box, svg} = this;
    const rows = this.log ? logTicks(low, high) : ticks(low, high, 5);
    for (const tick of rows) {
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

  drawCurve(series, parent) {
    const xs = series[axis], ys = series.value;
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
    node('path', {class: 'curve ' + series.style, d: path || 'M0 0'}, group);
    // Points of a test stand out, unless they would be a thick line; a lone point must be seen.
    if (drawn > 1 && (series.style !== 'marked' || drawn > (this.box.right - this.box.left) / 12)) {
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

  // The values of every curve near the pointer.
  point(event) {
    if (!this.svg || !this.svg.isConnected) return;
    const bounds = this.plot.getBoundingClientRect();
    const at = event.clientX - bounds.left;
    this.unpoint();
    const found = [];
    for (const series of this.shown()) {
      let best = null, distance = Infinity;
      series[axis].forEach((value, i) => {
        if (value === null || !this.usable(series.value[i])) return;
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
    html('div', 'note', {iteration: 'iteration ', epoch: 'epoch ', seconds: 'after '}[axis] +
         place(nearest.series[axis][nearest.best]), this.tip);
    for (const {series, best} of found) {
      if (series.style === 'faint' && found.length > 7) continue;
      const color = 'c' + series.run % colors;
      const y = this.y(series.value[best]);
      if (y > this.box.top - 6 && y < this.box.bottom + 6) {
        const spot = node('g', {class: color}, this.marks);
        node('circle', {class: 'spot', cx: this.x(series[axis][best]), cy: y, r: 3.6}, spot);
      }
      const row = html('div', color, undefined, this.tip);
      html('i', '', undefined, row);
      const several = data.runs.length > 1 ? data.runs[series.run] + ', ' : '';
      html('span', '', several + series.label, row);
      html('b', '', short(series.value[best]), row);
    }
    const room = this.plot.clientWidth - this.tip.offsetWidth;
    const beside = x < this.plot.clientWidth / 2 ? x + 14 : x - 14 - this.tip.offsetWidth;
    this.tip.style.left = Math.max(0, Math.min(room, beside)) + 'px';
  }
}

const charts = [...document.querySelectorAll('.chart')].map(figure => new Chart(figure));
const redraw = () => charts.forEach(chart => chart.draw());

for (const button of document.querySelectorAll('[data-axis]')) {
  button.addEventListener('click', () => {
    axis = button.dataset.axis;
    for (const other of document.querySelectorAll('[data-axis]')) {
      other.setAttribute('aria-pressed', other === button);
    }
    redraw();
  });
}
for (const button of document.querySelectorAll('[data-run]')) {
  button.addEventListener('click', () => {
    const run = +button.dataset.run;
    if (!hidden.delete(run)) hidden.add(run);
    button.setAttribute('aria-pressed', !hidden.has(run));
    redraw();
  });
}
redraw();  // now: observers wait for the next frame, which a busy browser may not show for long
})();
)JS";

}  // namespace crema::tools
