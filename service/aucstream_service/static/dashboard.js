'use strict';

const ROWS = 25;        // models on a page of the table: only these are asked for their intervals
const POINTS = 900;     // of the curve: half an hour at one in two seconds
const NONE = '\u2013';
const SVG = 'http://www.w3.org/2000/svg';

const at = id => document.getElementById(id);
const number = v => v === null ? NONE : v.toFixed(4);
const whole = v => v.toLocaleString('en');
const rate = v => v === undefined ? NONE : v.toLocaleString('en', { maximumFractionDigits: 1 });

let models = [];
let page = 0;
let chosen = decodeURIComponent(location.hash.slice(1)) || null;
let points = [];        // of the chosen model: {time, auc, low, high}
const before = new Map();   // model -> {seq, created, time, rate}

class Refused extends Error {}

async function get(path) {
  const key = sessionStorage.getItem('key');
  const answer = await fetch(path, { headers: key ? { Authorization: `Bearer ${key}` } : {}, cache: 'no-store' });
  at('durability').textContent = answer.headers.get('aucstream-durability') ?? NONE;
  if (answer.status === 401 || answer.status === 403) throw new Refused((await answer.json()).detail);
  if (!answer.ok) throw new Error((await answer.json()).detail);
  return answer.json();
}

async function list() {
  const found = [];
  let cursor = null;
  do {
    const part = await get('v1/models?limit=1000' + (cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`));
    found.push(...part.models);
    cursor = part.next;
  } while (cursor !== null);
  return found;
}

function measure(now) {
  let total = 0;
  for (const model of models) {
    const last = before.get(model.name);
    const same = last !== undefined && last.created === model.created_at;
    const speed = same && now > last.time ? (model.seq - last.seq) / (now - last.time) * 1000 : undefined;
    before.set(model.name, { seq: model.seq, created: model.created_at, time: now, rate: speed });
    total += speed ?? 0;
  }
  for (const name of before.keys()) if (!models.some(model => model.name === name)) before.delete(name);
  at('rate').textContent = rate(total);
  at('count').textContent = whole(models.length);
  at('pending').textContent = whole(models.reduce((sum, model) => sum + model.pending, 0));
}

function shown() {
  const wanted = at('filter').value.trim().toLowerCase();
  const found = models.filter(model => model.name.includes(wanted));
  const pages = Math.max(1, Math.ceil(found.length / ROWS));
  page = Math.min(page, pages - 1);
  at('page').textContent = `page ${page + 1} of ${pages}`;
  at('before').disabled = page === 0;
  at('after').disabled = page === pages - 1;
  return found.slice(page * ROWS, (page + 1) * ROWS);
}

function cell(row, text, right = true) {
  const made = row.insertCell();
  made.textContent = text;
  if (right) made.className = 'n';
  return made;
}

async function table() {
  const body = document.createElement('tbody');
  for (const model of shown()) {
    const row = body.insertRow();
    if (model.name === chosen) row.className = 'chosen';
    const button = document.createElement('button');
    button.textContent = model.name;
    button.addEventListener('click', () => choose(model.name));
    cell(row, '', false).append(button);
    cell(row, model.spec.algorithm, false);
    cell(row, whole(model.seq));
    cell(row, rate(before.get(model.name)?.rate));
    cell(row, whole(model.positives));
    cell(row, whole(model.pending));
    cell(row, number(model.auc));
    const interval = cell(row, NONE);
    cell(row, model.last_event_at ?? NONE, false);
    if (model.auc !== null) {
      const { window } = await get(`v1/models/${model.name}/evaluation`).catch(gone);
      if (window) interval.textContent = `${number(window.auc_low)} ${NONE} ${number(window.auc_high)}`;
    }
  }
  at('models').querySelector('tbody').replaceWith(body);
  at('state').textContent = models.length ? '' : 'no models yet';
}

function gone(error) {
  if (error instanceof Refused) throw error;
  return {};            // deleted meanwhile, or set aside
}

function choose(name) {
  chosen = name;
  points = [];
  location.hash = encodeURIComponent(name);
  refresh();
}

async function curve(now) {
  if (chosen === null && models.length) chosen = models[0].name;
  const there = models.some(model => model.name === chosen);
  at('chart').hidden = !there;
  if (!there) return;
  const { window } = await get(`v1/models/${chosen}/evaluation`).catch(gone);
  if (!window) return;
  if (window.auc !== null) {
    points.push({ time: now, auc: window.auc, low: window.auc_low, high: window.auc_high });
    points = points.slice(-POINTS);
  }
  at('name').textContent = chosen;
  at('told').textContent = window.auc === null
    ? 'no AUC yet: both classes must be in the window'
    : `AUC ${number(window.auc)} (95 %: ${number(window.auc_low)} ${NONE} ${number(window.auc_high)}) over the last `
      + `${whole(window.examples)} rows, ${whole(window.positives)} of them positive`;
  draw();
}

function draw() {
  const svg = at('svg');
  svg.replaceChildren();
  if (!points.length) return;
  const width = 900, height = 256, left = 48, right = 8, top = 8, bottom = 24;
  let low = Math.min(...points.map(p => p.low)), high = Math.max(...points.map(p => p.high));
  const room = Math.max((high - low) * .1, .005);
  low = Math.max(0, low - room);
  high = Math.min(1, high + room);
  const first = points[0].time, last = Math.max(points.at(-1).time, first + 1);
  const x = time => left + (time - first) / (last - first) * (width - left - right);
  const y = value => top + (high - value) / (high - low) * (height - top - bottom);
  const add = (kind, attributes, text) => {
    const made = document.createElementNS(SVG, kind);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  for (let step = 0; step <= 4; step++) {
    const value = low + (high - low) * step / 4;
    add('line', { class: 'grid', x1: left, x2: width - right, y1: y(value), y2: y(value) });
    add('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, value.toFixed(3));
  }
  add('text', { x: left, y: height - 6 }, new Date(first).toLocaleTimeString());
  add('text', { x: width - right, y: height - 6, 'text-anchor': 'end' }, new Date(points.at(-1).time).toLocaleTimeString());
  const line = list => list.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
  add('polygon', { class: 'band', points: line([...points.map(p => [p.time, p.high]), ...points.map(p => [p.time, p.low]).reverse()]) });
  add('polyline', { class: 'auc', points: line(points.map(p => [p.time, p.auc])) });
}

let timer = null;
let running = false;

async function refresh() {
  if (running) return;
  running = true;
  clearTimeout(timer);
  let wait = 2000;
  try {
    const now = performance.timeOrigin + performance.now();
    models = await list();
    at('login').hidden = true;
    at('board').hidden = false;
    measure(now);
    await table();
    await curve(now);
    if (models.length > 200) wait = 5000;
  } catch (error) {
    if (error instanceof Refused) {
      at('login').hidden = false;
      at('board').hidden = true;
      at('refused').textContent = sessionStorage.getItem('key') ? error.message : '';
      wait = null;
    } else {
      at('state').textContent = error instanceof TypeError ? 'no answer from the service' : error.message;
    }
  }
  running = false;
  if (wait !== null) timer = setTimeout(refresh, wait);
}

at('filter').addEventListener('input', () => { page = 0; table().catch(() => refresh()); });
at('before').addEventListener('click', () => { page--; table().catch(() => refresh()); });
at('after').addEventListener('click', () => { page++; table().catch(() => refresh()); });
at('enter').addEventListener('click', () => { sessionStorage.setItem('key', at('key').value.trim()); at('key').value = ''; refresh(); });
at('key').addEventListener('keydown', event => { if (event.key === 'Enter') at('enter').click(); });
refresh();
