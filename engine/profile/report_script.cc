#include "engine/profile/report_parts.h"

namespace strata::engine {

// Draws charts and timelines from the page's data: SVG for curves, a canvas for spans.
const char* const kReportScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const log = data.log, prof = data.profile;
const esc = (t) => String(t).replace(/[&<>"']/g, (c) => '&#' + c.charCodeAt(0) + ';');
const colors = ['var(--c0)', 'var(--c1)', 'var(--c2)', 'var(--c3)', 'var(--c4)', 'var(--c5)'];

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let u = 0;
  while (Math.abs(n) >= 1024 && u < units.length - 1) { n /= 1024; ++u; }
  return (u === 0 || n >= 100 ? n.toFixed(0) : n.toPrecision(3)) + ' ' + units[u];
}
function time(s) {
  if (s === 0) return '0';
  const [unit, name] = [[3600, 'h', 2], [60, 'min', 2], [1, 's', 1], [1e-3, 'ms', 1]]
    .find(([unit, , from]) => s >= from * unit) || [1e-6, 'µs'];
  const n = s / unit;
  return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + ' ' + name;
}
function number(n) {
  if (n === 0) return '0';
  const a = Math.abs(n);
  if (a >= 1e6) return (n / 1e6).toPrecision(3) + ' M';
  if (a >= 1e4) return (n / 1e3).toPrecision(3) + ' k';
  return a < 1e-3 ? n.toExponential(2) : String(+n.toPrecision(4));
}
function points(columns, y) {
  const out = [];
  if (!columns || !columns[y]) return out;
  columns.step.forEach((x, i) => { if (columns[y][i] !== null) out.push([x, columns[y][i]]); });
  return out;
}
function steps(span, count, binary) {  // a round distance between ticks
  const base = binary ? 2 : 10, raw = span / count;
  const unit = Math.pow(base, Math.floor(Math.log(raw) / Math.log(base)));
  return (binary ? [1, 2] : [1, 2, 5, 10]).map((m) => m * unit).find((d) => d >= raw) || raw;
}

// chart: {series: [{name, points, dash, dots}], format, zero, binary}
function drawChart(box, chart) {
  const series = chart.series.filter((s) => s.points.length > 0);
  if (series.length === 0) {
    box.innerHTML = '<p class="none">' + esc(chart.none || 'nothing was recorded') + '</p>';
    return;
  }
  const W = 600, H = 230, L = 66, R = 12, T = 10, B = 26;
  const all = series.flatMap((s) => s.points);
  const least = (i) => all.reduce((m, p) => Math.min(m, p[i]), Infinity);
  const most = (i) => all.reduce((m, p) => Math.max(m, p[i]), -Infinity);
  let x0 = least(0), x1 = most(0), y0 = chart.zero ? 0 : least(1), y1 = most(1);
  if (x0 === x1) { x0 -= 1; x1 += 1; }
  if (y0 === y1) { y1 = y0 + (Math.abs(y0) * 0.1 || 1); if (!chart.zero) y0 -= y1 - y0; }
  const pad = (y1 - y0) * 0.06;
  y1 += pad;
  if (!chart.zero) y0 -= pad;
  const X = (x) => L + (x - x0) / (x1 - x0) * (W - L - R);
  const Y = (y) => H - B - (y - y0) / (y1 - y0) * (H - T - B);
  let svg = '';
  const dy = steps(y1 - y0, 4, chart.binary);
  for (let y = Math.ceil(y0 / dy) * dy; y <= y1; y += dy) {
    svg += '<line class="grid" x1="' + L + '" x2="' + (W - R) + '" y1="' + Y(y) + '" y2="' + Y(y) +
      '"/><text x="' + (L - 6) + '" y="' + (Y(y) + 4) + '" text-anchor="end">' +
      esc(chart.format(Math.abs(y) < dy * 1e-6 ? 0 : y)) + '</text>';
  }
  const dx = Math.max(1, steps(x1 - x0, 6, false));
  for (let x = Math.ceil(x0 / dx) * dx; x <= x1; x += dx) {
    svg += '<text x="' + X(x) + '" y="' + (H - 8) + '" text-anchor="middle">' + number(x) +
      '</text>';
  }
  svg += '<text x="' + (L - 14) + '" y="' + (H - 8) + '" text-anchor="end">step</text>';
  series.forEach((s) => {
    const path = s.points.map((p) => X(p[0]).toFixed(1) + ',' + Y(p[1]).toFixed(1)).join(' ');
    svg += '<polyline points="' + path + '" style="stroke:' + s.color + '"' +
      (s.dash ? ' stroke-dasharray="5 4"' : '') + '/>';
    if (s.dots || s.points.length < 3) {
      svg += s.points.map((p) => '<circle r="3" cx="' + X(p[0]) + '" cy="' + Y(p[1]) +
        '" style="fill:' + s.color + '"/>').join('');
    }
  });
  const legend = series.map((s) => '<span><i' + (s.dash ? ' class="dash"' : '') + ' style="color:' +
    s.color + '"></i>' + esc(s.name) + '</span>').join('');
  box.innerHTML = '<div class="legend">' + legend + '</div>' +
    '<svg viewBox="0 0 ' + W + ' ' + H + '">' + svg +
    '<line class="guide" y1="' + T + '" y2="' + (H - B) + '" x1="-9" x2="-9"/></svg>';
  const element = box.querySelector('svg'), guide = box.querySelector('.guide');
  element.onmousemove = (event) => {
    const r = element.getBoundingClientRect();
    const x = x0 + ((event.clientX - r.left) / r.width * W - L) / (W - L - R) * (x1 - x0);
    const near = (s) => s.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
    const at = near(series[0])[0];
    guide.setAttribute('x1', X(at));
    guide.setAttribute('x2', X(at));
    tip(event, '<b>step ' + at + '</b>' + series.map((s) => {
      const p = near(s);
      return '<br>' + esc(s.name) + ' ' + esc(chart.format(p[1])) +
        (p[0] === at ? '' : ' (step ' + p[0] + ')');
    }).join(''));
  };
  element.onmouseleave = () => {
    tip(null);
    for (const end of ['x1', 'x2']) guide.setAttribute(end, -9);
  };
}
function tip(event, html) {
  const box = document.getElementById('tip');
  box.style.display = event ? 'block' : 'none';
  if (!event) return;
  box.innerHTML = html;
  box.style.left = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8) + 'px';
  box.style.top = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8) + 'px';
}
function curves(names) {  // [[column, shown as, more]]
  return names.map(([column, name, more], i) =>
    Object.assign({name, points: points(log, column), color: colors[i]}, more));
}
const links = data.links.map((key, i) => ({name: key.replace(/_bytes$/, '').replace(/_/g, ' '),
  points: points(log, key), color: colors[i % colors.length]}))
  .filter((s) => s.points.some((p) => p[1] > 0));
const memory = ['device', 'host', 'nvme', 'resident'].map((tier, i) => ({
  name: tier === 'resident' ? 'process, resident' : tier + ', held',
  points: points(prof, tier), color: colors[i]})).filter((s) => s.points.some((p) => p[1] > 0));
['device', 'host'].forEach((tier, i) => {
  const budget = data.budgets[tier], own = memory.find((s) => s.name.startsWith(tier));
  if (budget && own) {
    memory.push({name: tier + ' budget', dash: true, color: colors[i],
      points: own.points.map((p) => [p[0], budget])});
  }
});
const charts = {
  loss: {series: curves([['loss', 'training'], ['val_loss', 'validation', {dots: true}]]),
    format: number},
  lr: {series: curves([['lr', 'learning rate']]), format: number, zero: true},
  time: {series: curves([['step_s', 'step'], ['bound_s', 'bound', {dash: true}]]),
    format: time, zero: true},
  rate: {series: curves([['tokens_per_s', 'tokens/s']]), format: number, zero: true},
  links: {series: links, format: bytes, zero: true, binary: true,
    none: 'nothing moved over a link'},
  memory: {series: memory, format: bytes, zero: true, binary: true,
    none: 'profile.jsonl is missing: this run was not profiled'},
};
for (const name in charts) drawChart(document.getElementById('chart-' + name), charts[name]);

const hues = new Map();  // of kinds of work, far apart and the same in both timelines
function fill(name) {
  if (!hues.has(name)) hues.set(name, (212 + 137.5 * hues.size) % 360);
  return 'hsl(' + hues.get(name) + ' 55% 50%)';
}
function isWait(name) { return name.startsWith('wait'); }

class Timeline {
  constructor(canvas, step) {
    this.canvas = canvas;
    this.step = step;
    this.wall = step.profile.wall_s * 1e6;
    this.from = 0;
    this.to = this.wall;
    this.row = 22;
    canvas.style.height = step.rows.length * this.row + 26 + 'px';
    this.fills = step.names.map((name) => isWait(name) ? null : fill(name));
    const open = [];
    this.spans = step.spans_us.map((s) => {  // sorted by row and begin: the outer before the inner
      while (open.length && (open[open.length - 1][0] !== s[0] ||
             open[open.length - 1][2] + open[open.length - 1][3] <= s[2])) open.pop();
      open.push(s);
      const [row, name, begin, length, bytes] = s;
      return {row, name, begin, end: begin + length, bytes, depth: open.length - 1};
    });
    canvas.onwheel = (e) => {
      e.preventDefault();
      this.zoom(this.at(e), e.deltaY > 0 ? 1.25 : 0.8);
    };
    canvas.onpointerdown = (e) => {
      canvas.setPointerCapture(e.pointerId);
      this.grip = this.at(e);
    };
    canvas.onpointerup = () => { this.grip = null; };
    canvas.ondblclick = () => this.show(0, this.wall);
    canvas.onpointermove = (e) => this.move(e);
    canvas.onpointerleave = () => tip(null);
    new ResizeObserver(() => this.draw()).observe(canvas);
  }
  get width() { return this.canvas.clientWidth - Timeline.left; }
  at(e) {
    const x = e.clientX - this.canvas.getBoundingClientRect().left - Timeline.left;
    return this.from + x / this.width * (this.to - this.from);
  }
  show(from, to) {
    const length = Math.min(Math.max(to - from, 20), this.wall);
    this.from = Math.max(0, Math.min(from, this.wall - length));
    this.to = this.from + length;
    this.draw();
  }
  zoom(at, by) { this.show(at - (at - this.from) * by, at + (this.to - at) * by); }
  move(e) {
    const at = this.at(e);
    if (this.grip != null) {
      this.show(this.from + this.grip - at, this.to + this.grip - at);
      return;
    }
    const row = Math.floor((e.clientY - this.canvas.getBoundingClientRect().top - 22) / this.row);
    let hit = null;
    for (const s of this.spans) if (s.row === row && s.begin <= at && at < s.end) hit = s;
    tip(hit && e, hit && '<b>' + esc(this.step.names[hit.name]) + '</b><br>' +
      esc(this.step.rows[row]) + '<br>' +
      time((hit.end - hit.begin) / 1e6) + ' from ' + time(hit.begin / 1e6) +
      (hit.bytes ? '<br>' + bytes(hit.bytes) : ''));
  }
  draw() {
    const ratio = devicePixelRatio || 1, c = this.canvas, style = getComputedStyle(c);
    c.width = c.clientWidth * ratio;
    c.height = c.clientHeight * ratio;
    const g = c.getContext('2d'), scale = this.width / (this.to - this.from), left = Timeline.left;
    const text = style.getPropertyValue('--text'), faint = style.getPropertyValue('--line');
    const wait = style.getPropertyValue('--wait');
    g.scale(ratio, ratio);
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    const tick = steps(this.to - this.from, 8, false);
    for (let t = Math.ceil(this.from / tick) * tick; t <= this.to; t += tick) {
      const x = left + (t - this.from) * scale;
      g.fillStyle = faint;
      g.fillRect(x, 18, 1, c.clientHeight);
      g.fillStyle = text;
      g.fillText(time(t / 1e6), Math.min(x + 3, c.clientWidth - 50), 9);
    }
    this.step.rows.forEach((name, r) => {
      g.fillStyle = faint;
      g.fillRect(0, 22 + r * this.row, c.clientWidth, 1);
      g.fillStyle = text;
      g.fillText(name, 2, 22 + (r + 0.5) * this.row);
    });
    g.save();
    g.beginPath();
    g.rect(left, 0, this.width, c.clientHeight);
    g.clip();
    for (const s of this.spans) {
      if (s.end < this.from || s.begin > this.to) continue;
      const name = this.step.names[s.name], inset = 2 + 2 * Math.min(s.depth, 3);
      const x = left + (s.begin - this.from) * scale, w = Math.max((s.end - s.begin) * scale, 0.6);
      const y = 22 + s.row * this.row + inset, h = this.row - 2 * inset + 1;
      g.fillStyle = isWait(name) ? wait : this.fills[s.name];
      g.fillRect(x, y, w, h);
      if (w < 44 || h < 10) continue;
      g.fillStyle = isWait(name) ? text : '#fff';
      const shown = Math.max(x, left);
      g.fillText(name.replace(/^wait: /, '').slice(0, Math.floor((x + w - shown - 8) / 6)),
        shown + 4, y + h / 2);
    }
    g.restore();
  }
}
Timeline.left = 84;
if (data.timeline) {
  for (const which of ['median', 'slowest']) {
    const canvas = document.getElementById('timeline-' + which);
    if (canvas) new Timeline(canvas, data.timeline[which]);
  }
}
)js";

}  // namespace strata::engine
